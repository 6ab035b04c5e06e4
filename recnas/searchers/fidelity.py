"""A space in which the same architecture may be looked at more than once, each time for longer.

A rung is an architecture and a level: 0 the cheapest look (a short training), then longer ones. Its key holds
the level, so a network at level 1 is not a repetition of the one at level 0, and every promise of a searcher
(replay, nothing scored twice) holds as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic

from numpy.random import Generator

from recnas.errors import SpaceError
from recnas.space.base import ArchT, Space


@dataclass(frozen=True)
class Rung(Generic[ArchT]):
    arch: ArchT
    level: int = 0


class FidelitySpace(Space[Rung[ArchT]]):
    """`space` with `levels` looks at each of its architectures; draws are of level 0."""

    def __init__(self, space: Space[ArchT], levels: int) -> None:
        self.base, self.levels, self.name = space, levels, space.name

    def sample(self, rng: Generator) -> Rung[ArchT]:
        return Rung(self.base.sample(rng))

    def mutate(self, arch: Rung[ArchT], rng: Generator) -> Rung[ArchT]:
        return Rung(self.base.mutate(arch.arch, rng), arch.level)

    def validate(self, arch: Rung[ArchT]) -> None:
        if not 0 <= arch.level < self.levels:
            raise SpaceError(f"there is no level {arch.level}", f"levels are 0 to {self.levels - 1}")
        self.base.validate(arch.arch)

    def size(self) -> int:
        return self.base.size()

    def neighbours(self, arch: Rung[ArchT]) -> Iterator[Rung[ArchT]]:
        return (Rung(other, arch.level) for other in self.base.neighbours(arch.arch))

    def key(self, arch: Rung[ArchT]) -> str:
        return f"{self.base.key(arch.arch)}@{arch.level}"

    def to_dict(self, arch: Rung[ArchT]) -> dict[str, Any]:
        return {**self.base.to_dict(arch.arch), "level": arch.level}

    def from_dict(self, data: dict[str, Any]) -> Rung[ArchT]:
        rest = {name: value for name, value in data.items() if name != "level"}
        found = Rung(self.base.from_dict(rest), int(data.get("level", 0)))
        self.validate(found)
        return found

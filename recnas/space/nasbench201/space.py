"""NAS-Bench-201: 15,625 cells of six edges, all of them trained by the benchmark's authors.

Dong and Yang, "NAS-Bench-201: Extending the Scope of Reproducible Neural Architecture Search" (2020). The
space is small enough to enumerate, and a table of trained accuracies exists for all of it, so proxies and
searchers can be checked here against ground truth.

    space = Nb201Space()
    arch = space.sample(numpy.random.default_rng(0))
    arch.text                       # "|nor_conv_3x3~0|+|...", what tables and papers write
    space.key(arch)                 # equal for cells that are the same network: 5,260 keys
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from numpy.random import Generator

from recnas.errors import SpaceError
from recnas.space.base import nearest_name
from recnas.space.blueprint import Blueprint
from recnas.space.drawing import Box, Link, Row
from recnas.space.nasbench201.arch import EDGES, NONE, OPS, OUTPUT, SIZE, Nb201Arch
from recnas.space.nasbench201.key import key
from recnas.space.nasbench201.skeleton import Nb201Blueprint, Nb201Skeleton
from recnas.space.vision import VisionSpace

NAME = "nasbench201"


class Nb201Space(VisionSpace[Nb201Arch]):
    """All cells with equal chance. One change means another operation on one edge."""

    name = NAME
    pattern = re.compile(r"\|.*\||[0-4]{6}")

    def sample(self, rng: Generator) -> Nb201Arch:
        return Nb201Arch.from_number(int(rng.integers(SIZE)))

    def mutate(self, arch: Nb201Arch, rng: Generator) -> Nb201Arch:
        """Any cell one edge away that is another network, all with equal chance.

        There always is one: the edge from input to output is live whatever the others are.
        """
        others = [other for other in _one_edge_away(arch) if key(other) != key(arch)]
        return others[int(rng.integers(len(others)))]

    def validate(self, arch: Nb201Arch) -> None:
        faults = []
        if len(arch.ops) != len(EDGES):
            faults.append(f"{len(arch.ops)} operations where a cell has {len(EDGES)} edges")
        for op in dict.fromkeys(arch.ops):
            if op not in OPS:
                faults.append(f"unknown operation {op!r} ({nearest_name(str(op), OPS)})")
        if faults:
            raise SpaceError(f"not a NAS-Bench-201 cell: {'; '.join(faults)}", f"give {len(EDGES)} of {', '.join(OPS)}")

    def size(self) -> int:
        return SIZE

    def every(self) -> Iterator[Nb201Arch]:
        """All cells, by `number`."""
        return map(Nb201Arch.from_number, range(SIZE))

    def neighbours(self, arch: Nb201Arch) -> Iterator[Nb201Arch]:
        """One cell per network that one change leads to, at most 24."""
        seen = {key(arch)}
        for other in _one_edge_away(arch):
            if key(other) not in seen:
                seen.add(key(other))
                yield other

    def key(self, arch: Nb201Arch) -> str:
        return key(arch)

    def decisions(self) -> Nb201Decisions:
        """A cell as six independent choices; see `recnas.searchers.decisions`."""
        return Nb201Decisions()

    def to_dict(self, arch: Nb201Arch) -> dict[str, Any]:
        return {"space": NAME, "arch": arch.text}

    def from_dict(self, data: dict[str, Any]) -> Nb201Arch:
        if not isinstance(data, dict) or data.get("space", NAME) != NAME or not isinstance(data.get("arch"), str):
            raise SpaceError(
                f"{data!r} does not describe a NAS-Bench-201 cell",
                f'write {{"space": "{NAME}", "arch": "|nor_conv_3x3~0|+|..."}}',
            )
        return Nb201Arch.from_text(data["arch"])

    def from_text(self, text: str) -> Nb201Arch:
        return Nb201Arch.from_text(text) if "|" in text else Nb201Arch.from_digits(text)

    def blueprint(
        self, arch: Nb201Arch, classes: int = 10, image: int = 32, channels: int = 16, cells: int = 5
    ) -> Blueprint:
        return Nb201Blueprint.of(arch, Nb201Skeleton(channels, cells, classes, image))

    def rows(self, name: str, arch: Nb201Arch) -> list[Row]:
        boxes = tuple(Box(label, f"node {n}") for n, label in enumerate(("in", *"12", "out")))
        links = (Link(a, b, op, OPS.index(op)) for op, (a, b) in zip(arch.ops, EDGES) if op != NONE)
        return [Row(name, boxes[: OUTPUT + 1], tuple(links))]


class Nb201Decisions:
    """One choice of five operations for each of the six edges, in the order of `EDGES`."""

    sizes = (len(OPS),) * len(EDGES)

    def choices(self, arch: Nb201Arch) -> tuple[int, ...]:
        return tuple(OPS.index(op) for op in arch.ops)

    def arch(self, choices: Sequence[int]) -> Nb201Arch:
        return Nb201Arch(tuple(OPS[choice] for choice in choices))


def _one_edge_away(arch: Nb201Arch) -> Iterator[Nb201Arch]:
    for edge, now in enumerate(arch.ops):
        for op in OPS:
            if op != now:
                yield Nb201Arch((*arch.ops[:edge], op, *arch.ops[edge + 1 :]))

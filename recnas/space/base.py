"""What every search space promises, whatever its architectures look like.

A space is a set of rules and holds no state: it draws, changes, checks and counts architectures. An
architecture is a frozen, hashable value with a stable `key`; nothing here or in any space imports torch.
Searchers, ledgers and engines see only the methods below, so a new space (cells, MLPs, your own) joins by
subclassing `Space`, adding one line to `recnas.space.registry`, and inheriting
`recnas.testing.space_suite.SpaceConformance` in its tests.

Randomness is always an explicit `numpy.random.Generator`; there is no global seed.

    space = get_space("nasrec-small")
    parent = space.sample(numpy.random.default_rng(0))
    child = space.mutate(parent, numpy.random.default_rng(1))
    assert space.key(child) != space.key(parent)
"""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from numpy.random import Generator

ArchT = TypeVar("ArchT", bound=Hashable)


class Space(ABC, Generic[ArchT]):
    """The rules of one search space over architectures of type `ArchT`."""

    name: str  # what the user types and what files carry, e.g. "nasrec-full"

    @abstractmethod
    def sample(self, rng: Generator) -> ArchT:
        """Draw one valid architecture; the same generator state gives the same architecture."""

    @abstractmethod
    def mutate(self, arch: ArchT, rng: Generator) -> ArchT:
        """A valid architecture one change away whose `key` differs from that of `arch`."""

    @abstractmethod
    def validate(self, arch: ArchT) -> None:
        """Raise `SpaceError`, naming every fault, unless `arch` could have been sampled here."""

    @abstractmethod
    def size(self) -> int:
        """How many descriptions `sample` can produce, as an exact integer."""

    @abstractmethod
    def neighbours(self, arch: ArchT) -> Iterator[ArchT]:
        """Every valid architecture one change away, lazily; keys differ from `arch` and from each other."""

    @abstractmethod
    def key(self, arch: ArchT) -> str:
        """Short stable name of the network: equal for descriptions that build the same network.

        The same in every process and on every machine, so ledgers, caches and tables may use it.
        """

    @abstractmethod
    def to_dict(self, arch: ArchT) -> dict[str, Any]:
        """The architecture as JSON-able data that `from_dict` reads back unchanged."""

    @abstractmethod
    def from_dict(self, data: dict[str, Any]) -> ArchT:
        """The inverse of `to_dict`; raises `SpaceError` naming what is wrong."""


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Finish an "unknown name" message: the nearest known name if one is close, and all of them."""
    options = list(known)
    close = difflib.get_close_matches(name, options, n=1, cutoff=0.5)
    listed = ", ".join(options)
    return f"did you mean {close[0]!r}? Known: {listed}" if close else f"choose one of: {listed}"

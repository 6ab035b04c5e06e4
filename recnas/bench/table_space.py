"""The architectures of a table as a search space of their own, so that any searcher runs on it in seconds.

Only architectures that were trained exist here. One change leads to one of the nearest of them: distance
counts the genes in which two descriptions differ, and two architectures are neighbours if one is among the
`k` nearest of the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.random import Generator

from recnas.errors import SpaceError
from recnas.space.base import Space


class TableSpace(Space[str]):
    """Architectures are their keys in the table.

    Args:
        archs: description by key, e.g. `CtrTable.archs`.
        k: how many nearest architectures count as one change away.
    """

    def __init__(self, archs: Mapping[str, Mapping[str, Any]], k: int = 8, name: str = "table") -> None:
        if len(archs) < 2:
            raise SpaceError(
                f"a table of {len(archs)} architectures leaves nothing to search",
                "Train more: recnas bench build --archs 200",
            )
        self.name = name
        self._archs = dict(archs)
        self._keys = sorted(self._archs)
        self._near = _neighbours([genes(self._archs[key]) for key in self._keys], min(k, len(self._keys) - 1))
        self._number = {key: i for i, key in enumerate(self._keys)}

    def sample(self, rng: Generator) -> str:
        return self._keys[int(rng.integers(len(self._keys)))]

    def mutate(self, arch: str, rng: Generator) -> str:
        near = self._near[self._number[arch]]
        return self._keys[int(near[int(rng.integers(len(near)))])]

    def validate(self, arch: str) -> None:
        if arch not in self._archs:
            raise SpaceError(f"{arch!r} is not in the table", "Choose one of its keys.")

    def size(self) -> int:
        return len(self._keys)

    def neighbours(self, arch: str) -> Iterator[str]:
        return (self._keys[int(i)] for i in self._near[self._number[arch]])

    def key(self, arch: str) -> str:
        return arch

    def to_dict(self, arch: str) -> dict[str, Any]:
        return {"table_key": arch}

    def from_dict(self, data: dict[str, Any]) -> str:
        key = data.get("table_key")
        if not isinstance(key, str):
            raise SpaceError("an architecture of a table needs `table_key`")
        self.validate(key)
        return key


def genes(described: Any, path: str = "") -> frozenset[tuple[str, Any]]:
    """A description as a set of facts; lists count as sets of their members if these are plain values."""
    if isinstance(described, Mapping):
        return frozenset().union(*(genes(value, f"{path}.{name}") for name, value in described.items()))
    if isinstance(described, (list, tuple)):
        if any(isinstance(value, (Mapping, list, tuple)) for value in described):
            return frozenset().union(*(genes(value, f"{path}[{i}]") for i, value in enumerate(described)))
        return frozenset((path, value) for value in described)
    return frozenset([(path, described)])


def _neighbours(described: list[frozenset[tuple[str, Any]]], k: int) -> list[np.ndarray]:
    facts = sorted({fact for one in described for fact in one}, key=repr)
    place = {fact: i for i, fact in enumerate(facts)}
    bits = np.zeros((len(described), len(facts)), dtype=np.float32)
    for row, one in enumerate(described):
        bits[row, [place[fact] for fact in one]] = 1
    sizes = bits.sum(1)
    distance = sizes[:, None] + sizes[None, :] - 2 * bits @ bits.T
    np.fill_diagonal(distance, np.inf)
    near = np.zeros(distance.shape, dtype=bool)
    nearest = np.argsort(distance, axis=1, kind="stable")[:, :k]
    near[np.arange(len(described))[:, None], nearest] = True
    near |= near.T
    return [np.flatnonzero(row) for row in near]

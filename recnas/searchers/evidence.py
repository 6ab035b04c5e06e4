"""Cheap evidence about architectures, for searchers that rank a pool before anything is trained.

A searcher never sees a network or a proxy: it asks for named figures of a list of architectures. They may
come from a table of scores (`recnas.bench.scores`) or from a scoring job that runs while the search waits.
The same architecture must always get the same figures, or a replay would propose something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from recnas.errors import ConfigError
from recnas.space.base import ArchT, Space

Figures = NDArray[np.float64]


class Evidence(Protocol):
    """Where figures come from."""

    def figures(self, archs: Sequence[Any], names: Sequence[str]) -> Figures:
        """One row per name, one column per architecture; NaN where a network is degenerate or unknown."""
        ...


class Pool:
    """Architectures with their figures, by key, in the order they came; evaluated ones are taken out.

    Args:
        space: names the networks.
        evidence: gives the figures.
        names: which figures.
    """

    def __init__(self, space: Space[Any], evidence: Evidence, names: Sequence[str]) -> None:
        self._space, self._evidence, self._names = space, evidence, tuple(names)
        self._archs: dict[str, Any] = {}
        self._columns: dict[str, Figures] = {}
        self._met: set[str] = set()

    def __len__(self) -> int:
        return len(self._archs)

    def add(self, archs: Sequence[ArchT]) -> None:
        """Take in those whose key was never met; figures are asked for once, for all of them together."""
        fresh: dict[str, ArchT] = {}
        for arch in archs:
            key = self._space.key(arch)
            if key not in self._met:
                fresh.setdefault(key, arch)
        if not fresh:
            return
        figures = np.asarray(self._evidence.figures(list(fresh.values()), self._names), dtype=np.float64)
        if figures.shape != (len(self._names), len(fresh)):
            raise ConfigError(
                f"the evidence gave figures of shape {figures.shape} for {len(self._names)} names and {len(fresh)} architectures."
            )
        self._met.update(fresh)
        self._archs.update(fresh)
        self._columns.update(zip(fresh, figures.T))

    def figures(self) -> Figures:
        """`[names, members]`, in the order of `arch`."""
        return np.array(list(self._columns.values())).reshape(len(self), len(self._names)).T

    def arch(self, place: int) -> Any:
        return list(self._archs.values())[place]

    def take(self, place: int) -> Any:
        """Remove the member at `place` and return its architecture; its key never comes back."""
        key = list(self._archs)[place]
        del self._columns[key]
        return self._archs.pop(key)


def needed(evidence: Evidence | None, searcher: str) -> Evidence:
    """`evidence`, or an error that says what the searcher lacks."""
    if evidence is None:
        raise ConfigError(
            f"searcher {searcher!r} ranks a pool by training-free figures, and was given none.",
            "Give it evidence: a score table (scores: FILE.parquet), or a search with evaluator: train.",
        )
    return evidence

"""Cheap scores of architectures, for searchers that rank a pool before anything is trained.

A searcher never sees a network or a proxy: it asks for named scores of a list of architectures. They may
come from a table of scores (`recnas.bench.score_table`) or from a scoring job that runs while the search waits.
The same architecture must always get the same scores, or a replay would propose something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from recnas.errors import ConfigError
from recnas.space.base import ArchT, Space

ScoreMatrix = NDArray[np.float64]


class PoolScores(Protocol):
    """Where the scores of a pool come from."""

    def scores(self, archs: Sequence[Any], names: Sequence[str]) -> ScoreMatrix:
        """One row per name, one column per architecture; NaN where a network is degenerate or unknown."""
        ...


class Pool:
    """Architectures with their scores, by key, in the order they came; evaluated ones are taken out.

    Args:
        space: names the networks.
        pool_scores: gives the scores.
        names: which scores.
    """

    def __init__(self, space: Space[Any], pool_scores: PoolScores, names: Sequence[str]) -> None:
        self._space, self._source, self._names = space, pool_scores, tuple(names)
        self._archs: dict[str, Any] = {}
        self._columns: dict[str, ScoreMatrix] = {}
        self._met: set[str] = set()

    def __len__(self) -> int:
        return len(self._archs)

    def add(self, archs: Sequence[ArchT]) -> None:
        """Take in those whose key was never met; scores are asked for once, for all of them together."""
        fresh: dict[str, ArchT] = {}
        for arch in archs:
            key = self._space.key(arch)
            if key not in self._met:
                fresh.setdefault(key, arch)
        if not fresh:
            return
        scores = np.asarray(self._source.scores(list(fresh.values()), self._names), dtype=np.float64)
        if scores.shape != (len(self._names), len(fresh)):
            raise ConfigError(
                f"scores came in the shape {scores.shape} for {len(self._names)} names and {len(fresh)} architectures."
            )
        self._met.update(fresh)
        self._archs.update(fresh)
        self._columns.update(zip(fresh, scores.T))

    def scores(self) -> ScoreMatrix:
        """`[names, members]`, in the order of `arch`."""
        return np.array(list(self._columns.values())).reshape(len(self), len(self._names)).T

    def arch(self, place: int) -> Any:
        return list(self._archs.values())[place]

    def take(self, place: int) -> Any:
        """Remove the member at `place` and return its architecture; its key never comes back."""
        key = list(self._archs)[place]
        del self._columns[key]
        return self._archs.pop(key)


def require_scores(pool_scores: PoolScores | None, searcher: str) -> PoolScores:
    """`pool_scores`, or an error that says what the searcher lacks."""
    if pool_scores is None:
        raise ConfigError(
            f"searcher {searcher!r} ranks a pool by training-free scores, and was given none.",
            "Give it a score table (scores: FILE.parquet), or search with evaluator: training.",
        )
    return pool_scores

"""Does one score rank better than another on the same architectures, or is it luck?

    found = rank_change(before, after, accuracies)
    found.spearman, found.interval, found.real

The difference of two Spearman correlations with one truth. Their own intervals say little about it: what makes a sample
of architectures hard to rank makes it hard for both. So every resample draws architectures once, for both (hence paired).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from recnas.bench.correlation import Interval, rank_correlation


@dataclass(frozen=True)
class RankChange:
    """After less before: positive if the later score ranks better."""

    spearman: float | None = None  # None if either cannot be ranked
    interval: Interval | None = None  # of the resamples; None without any
    level: float = 0.95

    @property
    def real(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.interval is not None and (self.interval[0] > 0 or self.interval[1] < 0)

    def to_dict(self) -> dict[str, Any]:
        return {"change": self.spearman, "change_interval": None if self.interval is None else list(self.interval)}


def rank_change(
    before: Sequence[float] | np.ndarray,
    after: Sequence[float] | np.ndarray,
    truth: Sequence[float] | np.ndarray,
    *,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> RankChange:
    """How much better `after` ranks than `before`; all of one length, finite, and better when high."""
    a, b, t = (np.asarray(values, np.float64) for values in (before, after, truth))
    whole = _change(a, b, t)
    if whole is None:
        return RankChange(level=level)
    rng = np.random.default_rng(seed)
    drawn = (rng.integers(len(t), size=len(t)) for _ in range(resamples))
    found = [change for rows in drawn if (change := _change(a[rows], b[rows], t[rows])) is not None]
    if not found:
        return RankChange(whole, level=level)
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return RankChange(whole, (float(low), float(high)), level)


def _change(before: np.ndarray, after: np.ndarray, truth: np.ndarray) -> float | None:
    first, second = (rank_correlation(scores, truth, resamples=0).spearman for scores in (before, after))
    return None if first is None or second is None else second - first

"""How well cheap scores rank trained architectures: rank correlation with intervals, and the top of the list.

    found = rank_correlation(scores, accuracies)
    found.spearman, found.spearman_interval, found.kendall, found.n

Both correlations are signed: +1 if the higher score always has the higher truth. For a truth that is
better when low (log loss) or a score that is better when low, negate it first, and say so.

Intervals are bootstrap percentiles over architectures: as many pairs as there are, drawn with replacement,
again and again, from one seed. They tell how much the figure depends on which architectures were looked
at; they say nothing about the noise of training.

Ties get mean ranks (Spearman) and tau-b (Kendall). If one side is constant, or there are fewer than two
pairs, nothing can be ranked: the figures are None and `reason` says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from recnas.errors import DataError

Interval = tuple[float, float]


@dataclass(frozen=True)
class RankCorrelation:
    """Agreement of two rankings; every field is JSON-able through `to_dict`."""

    n: int
    spearman: float | None = None
    kendall: float | None = None  # tau-b
    spearman_interval: Interval | None = None
    kendall_interval: Interval | None = None
    level: float = 0.95  # of the intervals
    resamples: int = 0  # that could be ranked; others had one side constant
    reason: str | None = None  # why there is no figure

    def to_dict(self) -> dict[str, Any]:
        found = asdict(self)
        for name in ("spearman_interval", "kendall_interval"):
            if found[name] is not None:
                found[name] = list(found[name])
        return found


def rank_correlation(
    scores: Sequence[float] | np.ndarray,
    truth: Sequence[float] | np.ndarray,
    *,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> RankCorrelation:
    """Spearman's rho and Kendall's tau-b with bootstrap intervals.

    Args:
        scores, truth: one pair per architecture, all finite.
        resamples: how many times the pairs are drawn again; 0 leaves the intervals out.
        level: share of the resamples an interval covers.
        seed: the same seed gives the same intervals.
    """
    a, b = _pairs(scores, truth)
    if not 0 < level < 1 or resamples < 0:
        raise ValueError(f"level {level} must lie between 0 and 1, and resamples {resamples} not below 0")
    n = len(a)
    if reason := _unrankable(a, b):
        return RankCorrelation(n, level=level, reason=reason)
    x, y = _dense(a), _dense(b)
    rng = np.random.default_rng(seed)
    rhos, taus = [], []
    for _ in range(resamples):
        rows = rng.integers(n, size=n)
        some, other = x[rows], y[rows]
        if not _unrankable(some, other):
            rhos.append(_spearman(some, other))
            taus.append(_kendall(some, other))
    return RankCorrelation(
        n, _spearman(x, y), _kendall(x, y), _interval(rhos, level), _interval(taus, level), level, len(rhos)
    )


def _dense(values: np.ndarray) -> np.ndarray:
    """0, 1, 2, ... in place of the values, in their order, ties alike: all that a ranking sees."""
    return np.unique(values, return_inverse=True)[1]


def _spearman(x: np.ndarray, y: np.ndarray) -> float:
    """Correlation of the mean ranks of two dense rankings, neither of them constant."""
    a, b = _centred_ranks(x), _centred_ranks(y)
    return float(np.clip((a @ b) / np.sqrt((a @ a) * (b @ b)), -1, 1))


def centred_ranks(values: np.ndarray) -> np.ndarray:
    """Mean ranks of any values, less their mean; infinity is a value like others, shared by all that have it."""
    return _centred_ranks(_dense(values))


def _centred_ranks(x: np.ndarray) -> np.ndarray:
    counts = np.bincount(x)
    return (np.cumsum(counts) - (counts + len(x)) / 2)[x]


def _kendall(x: np.ndarray, y: np.ndarray) -> float:
    """Tau-b: pairs in order less pairs out of order, over the mean number of pairs without a tie."""
    both = x * (y.max() + 1) + y
    out_of_order = _inversions(y[np.argsort(both, kind="stable")])
    everything = len(x) * (len(x) - 1) // 2
    tied, other, twice = _ties(x), _ties(y), _ties(_dense(both))
    balance = everything - tied - other + twice - 2 * out_of_order
    return float(np.clip(balance / np.sqrt(float(everything - tied) * float(everything - other)), -1, 1))


def _ties(x: np.ndarray) -> int:
    counts = np.bincount(x)
    return int((counts * (counts - 1) // 2).sum())


def _inversions(y: np.ndarray) -> int:
    """Pairs of which the earlier is larger, in n log n: bit by bit, the highest first.

    A pair is decided at the highest bit in which its members differ. There, both are in the group of those
    that agree so far, and it is an inversion if the earlier has a one and the later a zero.
    """
    found = 0
    for bit in reversed(range(int(y.max()).bit_length())):
        group, one = y >> (bit + 1), (y >> bit) & 1  # groups are in increasing order, order within kept
        ones_before = np.cumsum(one) - one
        start = np.searchsorted(group, group)
        found += int(((ones_before - ones_before[start]) * (1 - one)).sum())
        y = y[np.argsort(y >> bit, kind="stable")]
    return found


def top_overlap(scores: Sequence[float] | np.ndarray, truth: Sequence[float] | np.ndarray, k: int) -> float:
    """Share of the k best by score that are among the k best by truth."""
    return best_found(scores, truth, k, k)


def best_found(scores: Sequence[float] | np.ndarray, truth: Sequence[float] | np.ndarray, k: int, budget: int) -> float:
    """Share of the k truly best that are among the `budget` with the highest scores.

    Ties at either border are broken at random; what is returned is the mean over all ways to do so.
    """
    a, b = _pairs(scores, truth)
    for name, number in (("k", k), ("budget", budget)):
        if not 1 <= number <= len(a):
            raise DataError(f"{name} is {number}, but there are {len(a)} architectures.", f"Use 1 to {len(a)}.")
    return float(_chance_of_top(a, budget) @ _chance_of_top(b, k)) / k


def _chance_of_top(values: np.ndarray, k: int) -> np.ndarray:
    """For every value, how likely it is among the k highest if ties are broken at random."""
    border = np.partition(values, -k)[-k]
    above, level = values > border, values == border
    return above + level * ((k - above.sum()) / level.sum())


def _pairs(scores: Sequence[float] | np.ndarray, truth: Sequence[float] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.asarray(scores, np.float64), np.asarray(truth, np.float64)
    if a.ndim != 1 or a.shape != b.shape:
        raise DataError(f"scores of shape {a.shape} cannot be paired with a truth of shape {b.shape}.")
    for name, values in (("score", a), ("truth", b)):
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            raise DataError(
                f"the {name} of architecture {bad[0]} is {values[bad[0]]} ({len(bad)} such of {len(values)}).",
                "Leave such architectures out, or give them a finite worst value.",
            )
    return a, b


def _unrankable(a: np.ndarray, b: np.ndarray) -> str | None:
    if len(a) < 2:
        return f"{len(a)} architecture{'s' * (len(a) != 1)}: at least two are needed to rank"
    for name, values in (("score", a), ("truth", b)):
        if (values == values[0]).all():
            return f"the {name} is the same for all {len(values)} architectures"
    return None


def _interval(values: list[float], level: float) -> Interval | None:
    if not values:
        return None
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)

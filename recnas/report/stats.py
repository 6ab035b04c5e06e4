"""The few statistics a report needs, by arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

Interval = tuple[float, float]

# 97.5 % points of Student's t by degrees of freedom; beyond the list the normal value is close enough.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
      2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)  # fmt: skip


def t_point(freedom: int) -> float:
    return _T[freedom - 1] if freedom <= len(_T) else 1.96


def mean_interval(values: Sequence[float]) -> Interval | None:
    """95 % interval of the mean of independent repeats (Student's t); None for fewer than two."""
    n = len(values)
    if n < 2:
        return None
    half = t_point(n - 1) * stdev(values) / math.sqrt(n)
    return fmean(values) - half, fmean(values) + half


def share_interval(share: float, rows: float) -> Interval | None:
    """95 % interval of a share of `rows` independent rows (Wilson)."""
    if rows < 1:
        return None
    z = 1.96
    middle = (share + z * z / (2 * rows)) / (1 + z * z / rows)
    half = z / (1 + z * z / rows) * math.sqrt(share * (1 - share) / rows + z * z / (4 * rows * rows))
    return max(0.0, middle - half), min(1.0, middle + half)


def auc_interval(auc: float, clicks: int, others: int) -> Interval | None:
    """95 % interval of an AUC from the number of clicks and non-clicks alone (Hanley and McNeil, 1982)."""
    if clicks < 1 or others < 1:
        return None
    q1, q2 = auc / (2 - auc), 2 * auc * auc / (1 + auc)
    variance = (auc * (1 - auc) + (clicks - 1) * (q1 - auc**2) + (others - 1) * (q2 - auc**2)) / (clicks * others)
    half = 1.96 * math.sqrt(max(0.0, variance))
    return max(0.0, auc - half), min(1.0, auc + half)


def expected_best(values: Sequence[float], lower: bool) -> list[float]:
    """For n = 1 .. N: the mean, over all ways to draw n of the N values, of the best one drawn.

    With the values ordered from worst to best, the i-th (from 1) is the best of n drawn with chance
    C(i - 1, n - 1) / C(N, n).
    """
    ordered = sorted(values, reverse=lower)
    total = len(ordered)
    found = []
    for n in range(1, total + 1):
        chance = n / total  # of the very best being among the n
        expected = 0.0
        for i in range(total, n - 1, -1):
            expected += chance * ordered[i - 1]
            # C(i-2, n-1) / C(i-1, n-1) = (i - n) / (i - 1)
            chance *= (i - n) / (i - 1) if i > 1 else 0.0
        found.append(expected)
    return found


def quantile(ordered: Sequence[float], q: float) -> float:
    """Of values in increasing order, with linear steps between them."""
    place = q * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])

"""The few statistics a report needs, by arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence

from recnas.bench.intervals import Interval


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

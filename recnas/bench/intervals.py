"""Intervals of means of a few independent repeats: of training seeds, of origins in time."""

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

"""Which untrained candidates look like those that trained well: a ridge regression on ranks.

Few are trained and many are known, so the model is simple: every feature (scores, costs, counts of operators) is
turned into its rank among all candidates, and the place a trained one reached is fitted by a sum of weighted ranks,
with weights kept small.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

PENALTY = 1.0  # on the squared weights; features have a variance of one


def genes(arch: Any) -> dict[str, float]:
    """How often each operator or option is named in an architecture's own data."""
    return {f"has {word}": float(count) for word, count in Counter(_words(arch)).items()}


def _words(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _words(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _words(inner)
    elif isinstance(value, str):
        yield value


def ranked(column: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks with mean 0 and variance 1; equal values share their mean rank, unknown ones have the mean of all."""
    known = np.isfinite(column)
    if not known.any():
        return np.zeros(len(column))
    _, place, count = np.unique(column[known], return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    ranks = (last - (count + 1) / 2)[place.reshape(-1)]
    spread = ranks.std()
    found = np.zeros(len(column))
    found[known] = (ranks - ranks.mean()) / spread if spread > 0 else 0.0
    return found


def predicted(features: Sequence[Mapping[str, float]], places: Mapping[int, float]) -> list[float]:
    """A predicted place for each row of `features`, low is good.

    Args:
        features: of every architecture, by name; one that is missing counts as unknown, of genes as 0.
        places: the place that was reached, by row, for those that were trained.
    """
    names = sorted({name for row in features for name in row})
    if not names or not places:
        return [0.0] * len(features)
    table = [[row.get(name, 0.0 if name.startswith("has ") else np.nan) for row in features] for name in names]
    x = np.array([ranked(np.array(column, dtype=np.float64)) for column in table]).T
    rows = sorted(places)
    y = np.array([places[row] for row in rows], dtype=np.float64)
    mean, centre = y.mean(), x[rows].mean(axis=0)
    known = x[rows] - centre
    # In its dual form: there are fewer trained networks than features.
    weights = known.T @ np.linalg.solve(known @ known.T + PENALTY * np.eye(len(rows)), y - mean)
    # Rounded: the last digits depend on how a machine adds up, and the order of a race must not.
    return [round(float(value), 9) for value in mean + (x - centre) @ weights]

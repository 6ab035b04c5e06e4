"""What a recipe makes of numbers: of one, as a served row has it, and of a whole column at once, as a preparation has it.

Python's standard library only: `recnas export` copies this file beside the models it writes. A further transform is an entry of
`TRANSFORMS`.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from typing import Any, NamedTuple


class Fitted(NamedTuple):
    """What is made of a number by `edges`, rising numbers found on the training rows (or given); instead of standardising."""

    number: Callable[[float, list[float]], float]
    column: Callable[[Any, Any, Any], Any]  # (numpy, values with NaN, edges)
    undo: Callable[[float, list[float]], float]


def _rank(x: float, edges: list[float]) -> float:
    """Which share of the training rows is below x: `edges` are their quantiles, equal ones where a value is frequent."""
    low, high, last = bisect.bisect_left(edges, x), bisect.bisect_right(edges, x), max(1, len(edges) - 1)
    if high > low:
        return (low + high - 1) / 2 / last
    if low in (0, len(edges)):
        return 0.0 if low == 0 else 1.0
    return (low - 1 + (x - edges[low - 1]) / (edges[low] - edges[low - 1])) / last


def _ranks(np: Any, x: Any, edges: Any) -> Any:
    edges, last = np.asarray(edges, dtype=np.float64), max(1, len(edges) - 1)
    if not len(edges):
        return np.where(np.isnan(x), x, 0.0)
    low, high = np.searchsorted(edges, x, side="left"), np.searchsorted(edges, x, side="right")
    inside = np.clip(low, 1, len(edges) - 1) if len(edges) > 1 else np.zeros(len(x), int)
    step = edges[inside] - edges[inside - 1]
    between = inside - 1 + (x - edges[inside - 1]) / np.where(step > 0, step, 1.0)
    out = np.where(
        high > low, (low + high - 1) / 2, np.where(low == 0, 0.0, np.where(low == len(edges), last, between))
    )
    return np.where(np.isnan(x), np.nan, out / last)


def _number_at(rank: float, edges: list[float]) -> float:
    place = min(max(rank, 0.0), 1.0) * (len(edges) - 1)
    low = min(int(place), max(0, len(edges) - 2))
    return edges[low] + (place - low) * (edges[min(low + 1, len(edges) - 1)] - edges[low]) if edges else 0.0


class Transform(NamedTuple):
    """What is made of a number before it is standardised: of one, and of a whole column at once."""

    number: Callable[[float], float]
    column: Callable[[Any, Any], Any]  # (numpy, float64 values): the same, without a call per number
    undo: Callable[[float], float]  # a number that the transform makes this one of
    fitted: Fitted | None = None  # what is then made of it by edges
    drops_sign: bool = False  # negative numbers become 0; `column` makes them -0.0, so that they can be counted


def _in_bucket(bucket: int, edges: list[float]) -> float:
    """A number of a bucket."""
    if not edges or bucket == len(edges):
        return edges[-1] if edges else 0.0
    return edges[0] - abs(edges[0]) - 1.0 if bucket == 0 else edges[bucket - 1]


TRANSFORMS = {
    "log1p": Transform(
        lambda x: math.log1p(max(x, 0.0)),
        lambda np, x: np.where(x < 0, -0.0, np.log1p(np.maximum(x, 0.0) + 0.0)),
        math.expm1,
        drops_sign=True,
    ),
    "none": Transform(lambda x: x, lambda np, x: x, lambda y: y),
    # The Criteo contest winners' binning, as FuxiCTR applies it: floor(ln(x)^2) above 2.
    "log-squared": Transform(
        lambda x: float(math.floor(math.log(x) ** 2)) if x > 2 else x,
        lambda np, x: np.where(x > 2, np.floor(np.log(np.maximum(x, 1.0)) ** 2), x),
        lambda y: math.exp(math.sqrt(y + 0.5)) if y > 2 else y,
    ),
    "standardise": Transform(lambda x: x, lambda np, x: x, lambda y: y),
    "quantile": Transform(lambda x: x, lambda np, x: x, lambda y: y, Fitted(_rank, _ranks, _number_at)),
    # In which bucket between the edges, from 0 to 1; an edge belongs to the upper one.
    "bucketise": Transform(
        lambda x: x,
        lambda np, x: x,
        lambda y: y,
        Fitted(
            lambda x, edges: bisect.bisect_right(edges, x) / max(1, len(edges)),
            lambda np, x, edges: np.where(np.isnan(x), x, np.searchsorted(edges, x, side="right") / max(1, len(edges))),
            lambda y, edges: _in_bucket(round(y * len(edges)), edges),
        ),
    ),
    # Of a column that says whether another one is missing, for which its `fill` is 1.
    "indicator": Transform(lambda x: 0.0, lambda np, x: np.where(np.isnan(x), x, 0.0), lambda y: y),
}

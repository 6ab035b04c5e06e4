"""Scores of rows for exact metrics: how many rows of each label there are per distinct score, in rising order.

All are held in memory, four bytes per row and twelve with weights: 15 M rows are 60 MB. They are sorted once; what is
counted comes range by range, so that the counts of many distinct scores never exist at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

ROWS_AT_A_TIME = 2**21  # of a range, up to the end of the last score in it
_ROW = np.dtype([("score", "<f4"), ("miss", "<f4"), ("click", "<f4")])

Runs = tuple[np.ndarray, np.ndarray, np.ndarray]  # distinct scores, their non-clicks and their clicks


class PlainScores:
    """Rows in no order that all count alike."""

    def __init__(self) -> None:
        self._misses = [np.empty(0, np.float32)]
        self._clicks = [np.empty(0, np.float32)]

    def add(self, score: np.ndarray, clicked: np.ndarray) -> None:
        self._misses.append(score[~clicked])
        self._clicks.append(score[clicked])

    def runs(self) -> Iterator[Runs]:
        clicks = np.sort(np.concatenate(self._clicks))
        both = np.sort(np.concatenate((*self._misses, clicks)))
        for start, stop in _ranges(both):
            yield _counted(both[start:stop], clicks)


class WeightedScores:
    """Rows in no order; a row's weight stands under `miss` or `click`, by its label."""

    def __init__(self) -> None:
        self._parts = [np.empty(0, _ROW)]

    def add(self, score: np.ndarray, clicked: np.ndarray, weight: np.ndarray) -> None:
        part = np.empty(len(score), dtype=_ROW)
        part["score"] = score
        part["miss"], part["click"] = np.where(clicked, 0, weight), np.where(clicked, weight, 0)
        self._parts.append(part)

    def runs(self) -> Iterator[Runs]:
        rows = np.concatenate(self._parts)
        rows = rows[np.argsort(rows["score"], kind="stable")]  # sums are added up in the order rows came
        for start, stop in _ranges(rows["score"]):
            yield _summed(rows[start:stop])


def _ranges(ordered: np.ndarray) -> Iterator[tuple[int, int]]:
    """Cuts of sorted scores; equal ones stay together."""
    start = 0
    while start < len(ordered):
        last = min(start + ROWS_AT_A_TIME, len(ordered)) - 1
        stop = int(np.searchsorted(ordered, ordered[last], side="right"))
        yield start, stop
        start = stop


def _counted(both: np.ndarray, clicks: np.ndarray) -> Runs:
    is_last = np.ones(len(both), dtype=bool)
    np.not_equal(both[1:], both[:-1], out=is_last[:-1])
    ends = np.flatnonzero(is_last) + 1
    values = both[ends - 1]
    # Clicks are the fewer: look those up, the rest follows from the ranks.
    click_ends = np.searchsorted(clicks, values, side="right")
    n_clicks = np.diff(click_ends, prepend=np.searchsorted(clicks, values[0], side="left"))
    return values, np.diff(ends, prepend=0) - n_clicks, n_clicks


def _summed(rows: np.ndarray) -> Runs:
    values, place = np.unique(rows["score"], return_inverse=True)
    sums = [np.bincount(place, weights=rows[name], minlength=len(values)) for name in ("miss", "click")]
    return values, sums[0], sums[1]

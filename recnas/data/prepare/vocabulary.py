"""Which values get an id of their own: count keys on the training rows, keep the frequent.

Counting sorts one column at a time (numpy sorts 32-bit keys at about 200 million a second), in value
ranges where a column outgrows the memory it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from recnas.data.schema import FIRST_VALUE_ID


def count_keys(pieces: Callable[[], Iterable[np.ndarray]], total: int, memory: int) -> tuple[np.ndarray, np.ndarray]:
    """Distinct keys in increasing order and how often each occurs.

    Args:
        pieces: gives the column's keys piece by piece, anew on each call.
        total: number of keys over all pieces.
        memory: bytes that the sort may use.
    """
    ranges = max(1, -(-total * 24 // max(memory, 1)))
    if ranges == 1:
        return _runs(_sorted(list(pieces())))
    # Keys are hashes or dense small integers: cut by observed quantiles, not by equal widths.
    sample = np.sort(np.concatenate([piece[:: max(1, ranges)].astype(np.uint64) for piece in pieces()]))
    cuts = np.unique(sample[(np.arange(1, ranges) * len(sample)) // ranges])
    keys, counts = [], []
    for i in range(len(cuts) + 1):
        low = cuts[i - 1] if i else None
        high = cuts[i] if i < len(cuts) else None
        inside = [_between(piece, low, high) for piece in pieces()]
        some_keys, some_counts = _runs(_sorted(inside))
        keys.append(some_keys.astype(np.uint64))
        counts.append(some_counts)
    return np.concatenate(keys), np.concatenate(counts)


def _between(piece: np.ndarray, low: np.uint64 | None, high: np.uint64 | None) -> np.ndarray:
    wide = piece.astype(np.uint64, copy=False)
    mask = np.ones(len(wide), dtype=bool)
    if low is not None:
        mask &= wide >= low
    if high is not None:
        mask &= wide < high
    return piece[mask]


def _sorted(pieces: list[np.ndarray]) -> np.ndarray:
    if not pieces:
        return np.zeros(0, np.uint32)
    if any(piece.dtype == np.uint64 for piece in pieces):
        pieces = [piece.astype(np.uint64, copy=False) for piece in pieces]
    keys = np.concatenate(pieces)
    keys.sort()
    return keys


def _runs(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if not len(keys):
        return keys, np.zeros(0, np.int64)
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return keys[starts], np.diff(starts, append=len(keys))


def keep_frequent(
    keys: np.ndarray, counts: np.ndarray, min_count: int, cap: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Keys that get their own id, most frequent first (equal counts: smaller key first).

    `cap` bounds the rows of the table, the ids of unknown and missing included.
    """
    enough = counts >= min_count
    keys, counts = keys[enough], counts[enough]
    order = np.argsort(-counts, kind="stable")
    if cap is not None:
        order = order[: max(0, cap - FIRST_VALUE_ID)]
    return keys[order], counts[order]

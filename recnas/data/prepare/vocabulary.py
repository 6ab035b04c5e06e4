"""From 64-bit keys to small ids: count on the training rows, keep the frequent, look up in bulk.

Counting sorts one column at a time (numpy sorts 32-bit keys at about 200 million a second), in value
ranges where a column outgrows the memory it was given. Looking up uses a table addressed by a
multiplicative hash: one probe answers most cells, a sorted array answers the few that collided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from recnas.data.schema import FIRST_VALUE_ID, UNKNOWN_ID

_U = np.uint64


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


class IdTable:
    """Maps keys to ids in bulk; a key it does not know gets UNKNOWN_ID."""

    def __init__(self, keys: np.ndarray) -> None:
        """`keys` in id order: the first gets FIRST_VALUE_ID."""
        self.rows = FIRST_VALUE_ID + len(keys)  # of the embedding table
        ids = np.arange(FIRST_VALUE_ID, FIRST_VALUE_ID + len(keys), dtype=np.int32)
        narrow = not len(keys) or int(keys.max()) < 1 << 32
        self._dtype = np.uint32 if narrow else np.uint64
        keys = keys.astype(self._dtype)
        bits = max(8, int(np.ceil(np.log2(max(1, len(keys)) * 2))))
        self._shift = self._dtype((32 if narrow else 64) - bits)
        self._slots = np.zeros(1 << bits, dtype=self._dtype)
        self._ids = np.full(1 << bits, -1, dtype=np.int32)
        slot = self._slot(keys)
        # Written from rare to frequent, so that the frequent key of a slot is the one that stays.
        self._slots[slot[::-1]] = keys[::-1]
        self._ids[slot[::-1]] = ids[::-1]
        pushed_out = np.flatnonzero(self._ids[slot] != ids)
        order = np.argsort(keys[pushed_out], kind="stable")
        self._rest_keys = keys[pushed_out][order]
        self._rest_ids = ids[pushed_out][order]

    def _slot(self, keys: np.ndarray) -> np.ndarray:
        factor = 2654435761 if self._dtype is np.uint32 else 0x9E3779B97F4A7C15
        return np.right_shift(keys * self._dtype(factor), self._shift)

    def look_up(self, keys: np.ndarray) -> np.ndarray:
        """int32 ids of uint32 or uint64 keys."""
        if keys.dtype == np.uint64 and self._dtype is np.uint32:
            return np.where(keys < _U(1 << 32), self.look_up(keys.astype(np.uint32)), np.int32(UNKNOWN_ID))
        keys = keys.astype(self._dtype, copy=False)
        slot = self._slot(keys)
        found = self._ids[slot]
        same = self._slots[slot] == keys
        ids = np.where(same & (found >= 0), found, np.int32(UNKNOWN_ID))
        collided = np.flatnonzero(~same & (found >= 0))
        if collided.size and len(self._rest_keys):
            wanted = keys[collided]
            place = np.minimum(np.searchsorted(self._rest_keys, wanted), len(self._rest_keys) - 1)
            ids[collided] = np.where(self._rest_keys[place] == wanted, self._rest_ids[place], np.int32(UNKNOWN_ID))
        return ids

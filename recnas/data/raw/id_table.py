"""From 64-bit keys to small ids, in bulk.

A table addressed by a multiplicative hash: one probe answers most cells, a sorted array answers the few
that collided.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from recnas.data.raw.hashing import rows_of_hashes
from recnas.data.raw.input_column import InputColumn
from recnas.data.schema import FIRST_VALUE_ID, UNKNOWN_ID

_U = np.uint64


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


class HashTable:
    """Ids of columns that are hashed into a stated number of rows; every key has one."""

    def __init__(self, rows: int, seed: int, number: int) -> None:
        self.rows = FIRST_VALUE_ID + rows
        self._hashed = (rows, seed, number)

    def look_up(self, keys: np.ndarray) -> np.ndarray:
        return (rows_of_hashes(keys, *self._hashed) + FIRST_VALUE_ID).astype(np.int32)


class BucketTable:
    """Ids of numbers: in which bucket between `edges` each lies; an edge belongs to the upper one."""

    def __init__(self, edges: Sequence[float]) -> None:
        self.rows = FIRST_VALUE_ID + len(edges) + 1
        self._edges = np.asarray(edges, dtype=np.float64)

    def look_up(self, keys: np.ndarray) -> np.ndarray:
        return (np.searchsorted(self._edges, keys, side="right") + FIRST_VALUE_ID).astype(np.int32)


Ids = IdTable | HashTable | BucketTable


def computed_table(column: InputColumn, edges: Sequence[float]) -> HashTable | BucketTable | None:
    """The table of a column whose ids need no vocabulary; None if it has one."""
    if column.hash is not None:
        return HashTable(column.hash, column.hash_seed, column.hash_number)
    return BucketTable(edges) if column.kind == "bucket" else None


def read_id_table(vocabulary: Path) -> IdTable:
    """The table of a column, from its vocabulary file."""
    return IdTable(pq.read_table(vocabulary, columns=["key"]).column("key").to_numpy())

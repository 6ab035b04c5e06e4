"""Bags on disk and in batches: values behind each other with the end of every row there, padded to a length here.

    NAME.values.i32   ids of all values, row after row
    NAME.ends.i64     [N] how many values there are up to the end of each row

In a batch every row has a place for each of the bag's `length` values; places without one hold MISSING_ID, which no
value of a bag has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from recnas.data.schema import MISSING_ID, Schema


def bag_files(name: str) -> tuple[str, str]:
    """Files of the values and of the ends."""
    return f"{name}.values.i32", f"{name}.ends.i64"


def rows_at_a_time(rows: int, schema: Schema, ids: int = 4 << 20) -> int:
    """How many rows are padded at a time: `rows`, or fewer where bags have very many places."""
    return max(1, min(rows, ids // schema.n_ids)) if schema.bags else rows


def pad_into(out: np.ndarray, first: int, length: int, values: np.ndarray, counts: np.ndarray) -> None:
    """Write values, row after row, into `length` columns of `out [n, columns]`, whose rows lie behind each other."""
    n, columns = out.shape
    out[:, first : first + length] = MISSING_ID
    ends = np.cumsum(counts)
    starts = np.arange(first, first + n * columns, columns)
    places = np.repeat(starts - (ends - counts), counts)
    places += np.arange(len(places))
    out.reshape(-1)[places] = values


def unpadded(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values and counts of `[n, length]`."""
    there = places != MISSING_ID
    return places[there], there.sum(1)


@dataclass(frozen=True)
class BagArray:
    """The bags of one field in one split, memory-mapped."""

    values: np.ndarray  # int32 [V]
    ends: np.ndarray  # int64 [N]
    length: int

    def rows(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Values and counts of rows start..stop-1."""
        begin = int(self.ends[start - 1]) if start else 0
        ends = self.ends[start:stop]
        if not len(ends):
            return self.values[:0], ends
        counts = ends.copy()
        counts[1:] -= ends[:-1]
        counts[0] -= begin
        return self.values[begin : int(ends[-1])], counts


class PaddedIds:
    """Ids of a split with bags, `[N, ids of a row]`: read row by row where they are needed, like an array of numpy."""

    dtype = np.dtype("<i4")
    ndim = 2

    def __init__(self, single: np.ndarray, bags: list[BagArray]) -> None:
        self.single, self.bags = single, bags
        self.shape = (len(single), single.shape[1] + sum(bag.length for bag in bags))

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]

    def rows(self, start: int, stop: int, dtype: type[np.signedinteger[Any]] = np.int32) -> np.ndarray:
        out = np.empty((stop - start, self.shape[1]), dtype=dtype)
        first = self.single.shape[1]
        out[:, :first] = self.single[start:stop]
        self.places_into([(start, stop)], out, first)
        return out

    def places_into(self, spans: Sequence[tuple[int, int]], out: np.ndarray, first: int = 0) -> None:
        """The bags of some stretches of rows, behind each other, into the columns of `out` from `first` on."""
        for bag in self.bags:
            parts = [bag.rows(start, stop) for start, stop in spans]
            values, counts = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts))
            pad_into(out, first, bag.length, values, counts)
            first += bag.length

    def __getitem__(self, key: Any) -> np.ndarray:
        if isinstance(key, tuple):
            row, *columns = key
            if isinstance(row, np.ndarray) and row.ndim == 2 and columns:  # as numpy: [n, 1] with a list of columns
                return self[row[:, 0]][:, columns[0]]
            return self[row][(slice(None), *columns)]
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                return self.rows(start, max(start, stop))
            key = np.arange(start, stop, step)
        if isinstance(key, (int, np.integer)):
            place = range(len(self))[int(key)]
            return self.rows(place, place + 1)[0]
        index = np.asarray(key)
        index = np.flatnonzero(index) if index.dtype == bool else index.astype(np.int64)
        index = np.where(index < 0, index + len(self), index)
        found = np.empty((len(index), self.shape[1]), dtype=np.int32)
        first = self.single.shape[1]
        found[:, :first] = self.single[index]
        for bag in self.bags:
            begins = np.where(index > 0, bag.ends[index - 1], 0) if len(bag.ends) else index
            counts = bag.ends[index] - begins
            ends = np.cumsum(counts)
            places = np.repeat(begins - (ends - counts), counts) + np.arange(int(counts.sum()))
            pad_into(found, first, bag.length, bag.values[places], counts)
            first += bag.length
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.rows(0, len(self)).astype(dtype or self.dtype, copy=False)

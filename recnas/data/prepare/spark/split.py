"""The split of every row where rows are spread over machines: what must be known of all rows is gathered first.

random-8-1-1, random, group and files need nothing, time-last-day the days that occur, time-ratio the instants, autoctr-8-1-1 the exact quantiles of the row
hashes; those are found in two passes of histograms, so that no machine ever holds all hashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from recnas.data.prepare.arrayfile import ArrayFile
from recnas.data.prepare.split import (
    BY_INSTANT,
    USUAL_SHARES,
    Cuts,
    Cuts2or3,
    Ends,
    RowsOfChunk,
    Shares,
    added_times,
    assign_split,
    by_cuts,
    by_starts,
    by_time,
    cut_ranks,
    rolling_cuts,
    rolling_rows,
    row_cuts,
    thinned,
    time_cuts,
)

_U = np.uint64
_SHIFT = _U(48)  # the first pass counts hashes by their upper 16 bits
_BUCKETS = 1 << 16


@dataclass(frozen=True)
class ChunkRef:
    """A chunk file and the number, in all the raw data, of its first row."""

    path: Path
    first_row: int

    def rows(self, limit: int | None) -> RowsOfChunk:
        return RowsOfChunk.read(ArrayFile(self.path), self.first_row, limit)


@dataclass(frozen=True)
class SplitRule:
    """Everything a worker needs to tell the split of a chunk's rows."""

    protocol: str
    seed: int
    total: int  # raw rows, rejected ones included
    limit: int | None
    days: int | None  # that the row order is cut into, where there is no time column
    index: Path | None
    starts: tuple[int, int] | None = None  # of a ready split: where valid and test begin
    present: tuple[int, ...] = ()  # day numbers that occur
    cuts: Cuts | None = None
    shares: Shares = USUAL_SHARES
    ends: Ends | None = None  # of an origin of a rolling split
    time_cuts: Cuts2or3 | None = None
    negatives: float | None = None

    def split(self, chunk: ArrayFile, first_row: int) -> np.ndarray:
        rows = RowsOfChunk.read(chunk, first_row, self.limit)
        return thinned(self._assigned(rows), rows, self.seed, self.negatives)

    def _assigned(self, rows: RowsOfChunk) -> np.ndarray:
        if self.protocol == "autoctr-8-1-1":
            assert self.cuts is not None
            return by_cuts(self.seed, rows, self.cuts)
        if self.protocol == "index":
            assert self.index is not None
            return np.asarray(_mapped(self.index)[rows.first_row + rows.line]).astype(np.uint8)
        if self.protocol in BY_INSTANT:
            if self.time_cuts is not None:
                return by_time(rows, self.time_cuts)
            ends = self.ends
            return by_starts(
                [rows], row_cuts(self.total, self.shares) if ends is None else rolling_rows(self.total, ends)
            )[0]
        others = [self._others(rows.lines)] if self.protocol == "time-last-day" else []
        return assign_split(self.protocol, self.seed, [rows, *others], self.days, None, self.starts, self.shares)[0]

    def _others(self, lines: int) -> RowsOfChunk:
        """A chunk that stands for all the rest: as many rows, and one row of every day."""
        none = np.zeros(0, np.int64)
        return RowsOfChunk(0, self.total - lines, none, none, np.array(self.present, np.int64))

    def settled(self, context: Any, refs: Sequence[ChunkRef]) -> SplitRule:
        """This rule with what must be gathered from all rows; faults of the data are raised here."""
        chunks = context.parallelize(refs, max(1, min(len(refs), 4 * context.defaultParallelism)))
        if self.protocol == "time-last-day":
            limit, days, total = self.limit, self.days, self.total
            found = chunks.map(lambda ref: set(np.unique(ref.rows(limit).days(days, total)).tolist()))
            rule = replace(self, present=tuple(sorted(found.treeReduce(set.union))))
            assign_split(self.protocol, self.seed, [rule._others(0)], self.days, None)  # enough days?
            return rule
        if self.protocol in BY_INSTANT and self.days is None:
            limit = self.limit
            counts = chunks.map(lambda ref: ref.rows(limit).count_times()).treeReduce(lambda a, b: added_times([a, b]))
            cuts = time_cuts(counts, self.shares) if self.ends is None else rolling_cuts(counts, self.ends)
            return replace(self, time_cuts=cuts)
        if self.protocol == "autoctr-8-1-1":
            return replace(self, cuts=_gather_cuts(chunks, self.seed, self.limit))
        if self.protocol == "index":
            none = np.zeros(0, np.int64)
            assign_split(self.protocol, self.seed, [RowsOfChunk(0, self.total, none, none, None)], None, self.index)
        return self


def _mapped(index: Path) -> np.ndarray:
    return np.load(index, mmap_mode="r") if index.suffix == ".npy" else np.memmap(index, np.uint8, "r")


def _gather_cuts(chunks: Any, seed: int, limit: int | None) -> Cuts:
    """The hash at every rank of `cut_ranks`, for clicks and for other rows, without gathering all hashes."""

    def histogram(ref: ChunkRef) -> np.ndarray:
        rows = ref.rows(limit)
        upper = (rows.hashes(seed) >> _SHIFT).astype(np.int64)
        return np.stack([np.bincount(upper[rows.label == value], minlength=_BUCKETS) for value in (0, 1)])

    counts = chunks.map(histogram).treeReduce(np.add)
    ranks = {value: cut_ranks(int(counts[value].sum())) for value in (0, 1)}
    ends = {value: np.cumsum(counts[value]) for value in (0, 1)}
    # The bucket that holds each rank; a rank past the last row has none and is cut at the largest hash.
    buckets = {
        value: [int(np.searchsorted(ends[value], rank, side="right")) for rank in ranks[value]] for value in (0, 1)
    }

    def inside(ref: ChunkRef) -> dict[tuple[int, int], np.ndarray]:
        rows = ref.rows(limit)
        hashes = rows.hashes(seed)
        upper = (hashes >> _SHIFT).astype(np.int64)
        return {
            (value, bucket): hashes[(rows.label == value) & (upper == bucket)]
            for value in (0, 1)
            for bucket in set(buckets[value])
        }

    def merge(one: dict[Any, np.ndarray], two: dict[Any, np.ndarray]) -> dict[Any, np.ndarray]:
        return {key: np.concatenate([one[key], two[key]]) for key in one}

    found = {key: np.sort(hashes) for key, hashes in chunks.map(inside).treeReduce(merge).items()}
    cuts: Cuts = {}
    for value in (0, 1):
        cuts[value] = []
        for rank, bucket in zip(ranks[value], buckets[value]):
            if bucket == _BUCKETS:
                cuts[value].append(_U(2**64 - 1))
            else:
                before = int(ends[value][bucket] - counts[value][bucket])
                cuts[value].append(found[value, bucket][rank - before])
    return cuts

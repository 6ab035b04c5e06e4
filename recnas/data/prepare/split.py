"""Which rows are train, valid and test: named protocols, decided by arithmetic on the row number.

random-8-1-1    each row by a hash of (seed, row): no state, any order, any number of threads
autoctr-8-1-1   the same, balanced exactly within clicks and within non-clicks (ten folds, 8/1/1),
                as AutoCTR, NASRec and BARS do. Their rows depend on the version of scikit-learn
                they used; to repeat those, give the split itself with --split-index
random          as random-8-1-1, with the shares that are asked for
group           the same for groups of rows, as those of a user: none is in two splits
time-last-day   the last day is test, the day before is valid, the rest is train
rolling         of one origin: a window of rows by time is test, the one before valid, all before that train;
                later rows are of no split
time-ratio      the last rows by time are test, those before valid, in the shares that are asked for
index           from a file: one byte per row, 0 train, 1 valid, 2 test
files           the raw files come split: rows are numbered through train, then valid, then test
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Protocol

import numpy as np

from recnas.data.raw.hashing import mixed
from recnas.data.raw.recipe import Recipe
from recnas.errors import ConfigError, DataError
from recnas.files import read_bytes

TRAIN, VALID, TEST = 0, 1, 2
LEFT_OUT = 3  # a row of no split: a training row without a click, where only a share of them is kept
LATER = 4  # another: a row after the test window of an origin
SPLITS = ("train", "valid", "test")
PROTOCOLS = (
    "random-8-1-1",
    "autoctr-8-1-1",
    "random",
    "group",
    "time-last-day",
    "time-ratio",
    "rolling",
    "index",
    "files",
)
BY_INSTANT = ("time-ratio", "rolling")  # these compare times, not days
WITH_SHARES = ("random", "group", "time-ratio")
USUAL_SHARES = (0.8, 0.1, 0.1)

_U = np.uint64
Cuts = dict[int, list[np.uint64]]  # for non-clicks (0) and clicks (1): where valid and test begin
Shares = tuple[float, float, float]
Ends = tuple[Fraction, Fraction, Fraction]
Cuts2or3 = tuple[int, int] | tuple[int, int, int]  # where valid and test begin, and what is later
TimeCounts = tuple[np.ndarray, np.ndarray]  # the instants that occur, rising, and how many rows each has


class ReadsArrays(Protocol):
    """A chunk file, as far as a split needs it."""

    facts: dict

    def __contains__(self, name: str) -> bool: ...

    def read(self, name: str) -> np.ndarray: ...


def row_hash(seed: int, first_row: int, count: int) -> np.ndarray:
    """A 64-bit hash per row number (the SplitMix64 finaliser over a seeded counter)."""
    start = (first_row * 0x9E3779B97F4A7C15 + seed * 0xD1342543DE82EF95 + 0x2545F4914F6CDD1D) & (2**64 - 1)
    z = np.arange(count, dtype=np.uint64)
    z *= _U(0x9E3779B97F4A7C15)
    z += _U(start)
    return mixed(z)


def check_protocol(protocol: str, recipe: Recipe, index: Path | None, ready: bool = False) -> None:
    """Faults that can be known before any data is read; `ready`: the raw files come as a ready split."""
    if protocol not in PROTOCOLS:
        raise ConfigError(f"There is no split protocol {protocol!r}.", f"Choose one of: {', '.join(PROTOCOLS)}")
    if protocol in ("time-last-day", *BY_INSTANT) and recipe.time is None:
        raise ConfigError(
            f"The recipe {recipe.name} does not say when its rows happened, so it has no last "
            f"{'day' if protocol == 'time-last-day' else 'rows'}.",
            "Use --protocol random-8-1-1, or add `time:` to your recipe.",
        )
    if protocol == "group" and recipe.group is None:
        raise ConfigError(
            f"The recipe {recipe.name} does not say which rows belong together.",
            "Name the column whose values must not be in two splits, as group: user, or use --protocol random-8-1-1.",
        )
    if (protocol == "index") != (index is not None):
        raise ConfigError("The protocol `index` and the option --split-index FILE go together.")
    if ready and protocol != "files":
        raise ConfigError(
            f"The protocol {protocol} splits the rows itself, but --train, --valid and --test have split them already.",
            "Leave --protocol out, or give all files with --raw.",
        )
    if protocol == "files" and not ready:
        raise ConfigError(
            "The protocol `files` needs to be told which files are train, validation and test.",
            "Give --train FILE --valid FILE --test FILE instead of --raw, or another --protocol, as random-8-1-1.",
        )


@dataclass(frozen=True)
class RowsOfChunk:
    """The good rows of one chunk. Row numbers count rejected rows too, so that a bad row moves no other."""

    first_row: int  # row number, in all the raw data, of the chunk's first row
    lines: int  # rows of the chunk, rejected ones included
    line: np.ndarray  # [n] which of them are good
    label: np.ndarray  # [n] clicks
    day: np.ndarray | None  # [n] day number where the recipe has a time column
    second: np.ndarray | None = None  # [n] the time itself, for a split by it
    group: np.ndarray | None = None  # uint64 [n], which rows belong together, for a split of groups
    grouped: np.ndarray | None = None  # bool [n], False where a row belongs to no group; None: all do

    @classmethod
    def read(cls, chunk: ReadsArrays, first_row: int, limit: int | None) -> RowsOfChunk:
        """The rows of a chunk file, up to row `limit` of all the raw data."""
        lines, n = chunk.facts["lines"], chunk.facts["rows"]
        line = chunk.read("line").astype(np.int64) if "line" in chunk else np.arange(n)
        label = chunk.read("label")
        others = [chunk.read(name) if name in chunk else None for name in ("day", "second", "group", "grouped")]
        if others[3] is not None:
            others[3] = np.unpackbits(others[3], count=n).view(bool)
        if limit is not None and first_row + lines > limit:
            lines = limit - first_row
            keep = int(np.searchsorted(line, lines))
            line, label = line[:keep], label[:keep]
            others = [None if array is None else array[:keep] for array in others]
        return cls(first_row, lines, line, label, *others)

    def hashes(self, seed: int) -> np.ndarray:
        return row_hash(seed, self.first_row, self.lines)[self.line]

    def group_hashes(self, seed: int) -> np.ndarray:
        """One per group; a row that belongs to none is a group of its own."""
        assert self.group is not None
        hashes = mixed(self.group ^ row_hash(seed, 0, 1)[0])
        return hashes if self.grouped is None else np.where(self.grouped, hashes, self.hashes(seed))

    def count_times(self) -> TimeCounts:
        assert self.second is not None
        return np.unique(self.second, return_counts=True)

    def days(self, days: int | None, total: int) -> np.ndarray:
        """Day numbers; without a time column the row order is cut into `days` equal ones."""
        return self.day if self.day is not None else (self.first_row + self.line) * (days or 1) // max(total, 1)


def assign_split(
    protocol: str,
    seed: int,
    chunks: Sequence[RowsOfChunk],
    days: int | None,
    index: Path | None,
    starts: tuple[int, int] | None = None,
    shares: Shares = USUAL_SHARES,
    ends: Ends | None = None,
) -> list[np.ndarray]:
    """The split of every good row, chunk by chunk.

    Args:
        days: cuts the row order where there is no time column.
        starts: of a ready split, the row numbers where valid and test begin.
        ends: of an origin of a rolling split, where train, valid and test end, as shares of all rows.
    """
    total = sum(chunk.lines for chunk in chunks)
    if protocol == "random":
        return [by_hash(chunk.hashes(seed), shares) for chunk in chunks]
    if protocol == "group":
        return [by_hash(chunk.group_hashes(seed), shares) for chunk in chunks]
    if protocol in BY_INSTANT:
        if days is not None:
            return by_starts(chunks, row_cuts(total, shares) if ends is None else rolling_rows(total, ends))
        counts = added_times([chunk.count_times() for chunk in chunks])
        cuts_of_time = time_cuts(counts, shares) if ends is None else rolling_cuts(counts, ends)
        return [by_time(chunk, cuts_of_time) for chunk in chunks]
    if protocol == "random-8-1-1":
        return [_eight_one_one(chunk.hashes(seed)) for chunk in chunks]
    if protocol == "autoctr-8-1-1":
        cuts = _balanced_cuts(seed, chunks)
        return [by_cuts(seed, chunk, cuts) for chunk in chunks]
    if protocol == "index":
        assert index is not None
        whole = _read_index(index, total)
        return [whole[chunk.first_row + chunk.line] for chunk in chunks]
    if protocol == "files":
        assert starts is not None
        return by_starts(chunks, starts)
    return _by_day([chunk.days(days, total) for chunk in chunks])


def by_starts(chunks: Sequence[RowsOfChunk], starts: Cuts2or3) -> list[np.ndarray]:
    return [_places(starts, chunk.first_row + chunk.line) for chunk in chunks]


def _places(starts: Cuts2or3, values: np.ndarray) -> np.ndarray:
    place = np.searchsorted(starts, values, side="right").astype(np.uint8)
    return place if len(starts) == 2 else np.where(place > TEST, LATER, place).astype(np.uint8)


def rolling_rows(total: int, ends: Ends) -> tuple[int, int, int]:
    """Row numbers where valid, test and what is later begin, of rows in time order."""
    train, valid, test = (round(total * end) for end in ends)
    return train, valid, test


def rolling_cuts(counts: TimeCounts, ends: Ends) -> tuple[int, int, int]:
    """The instants at which valid, test and what is later begin: as near to the shares as whole instants allow."""
    times, rows = counts
    before = np.concatenate((np.cumsum(rows) - rows, [rows.sum()])) if len(times) else np.zeros(1, np.int64)
    wanted = rolling_rows(int(rows.sum()), ends)
    valid, test, later = (int(np.argmin(np.abs(before - row))) for row in wanted)
    valid = max(valid, 1)
    test = max(test, valid + 1)
    later = max(later, test + 1)
    if later > len(times):
        raise DataError(
            f"The rows have {len(times)} different times, too few for an origin to have train, validation and test rows.",
            "Take fewer origins or larger windows (--origins, --window), or give more of the log.",
        )
    first_later = int(times[later]) if later < len(times) else int(times[-1]) + 1
    return int(times[valid]), int(times[test]), first_later


def row_cuts(total: int, shares: Shares) -> tuple[int, int]:
    """Row numbers where valid and test begin, of rows in time order."""
    return round(total * shares[0]), round(total * (shares[0] + shares[1]))


def by_hash(hashes: np.ndarray, shares: Shares) -> np.ndarray:
    """Of shares 0.8, 0.1, 0.1 what random-8-1-1 gives."""
    ends = [Fraction(str(shares[0])), Fraction(str(shares[0])) + Fraction(str(shares[1]))]
    cuts = np.array([-(-end.numerator * 2**32 // end.denominator) for end in ends], dtype=np.uint64)
    return np.searchsorted(cuts, hashes >> _U(32), side="right").astype(np.uint8)


def added_times(counts: Sequence[TimeCounts]) -> TimeCounts:
    """Memory grows with the instants that occur, not with rows."""
    if not counts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    times, place = np.unique(np.concatenate([times for times, _ in counts]), return_inverse=True)
    added = np.zeros(len(times), np.int64)
    np.add.at(added, place, np.concatenate([count for _, count in counts]))
    return times, added


def time_cuts(counts: TimeCounts, shares: Shares) -> tuple[int, int]:
    """The instants at which valid and test begin: an instant is never on both sides, so shares are as near as that allows."""
    times, rows = counts
    if len(times) < 3:
        raise DataError(
            f"The split by time needs rows of at least 3 different times; this file has {len(times)}.",
            "Use --protocol random-8-1-1, or give more of the log.",
        )
    before = np.cumsum(rows) - rows  # rows that are earlier than each instant
    valid, test = (int(np.argmin(np.abs(before - before_it))) for before_it in row_cuts(int(rows.sum()), shares))
    valid = min(max(valid, 1), len(times) - 2)
    return int(times[valid]), int(times[min(max(test, valid + 1), len(times) - 1)])


def by_time(chunk: RowsOfChunk, cuts: Cuts2or3) -> np.ndarray:
    assert chunk.second is not None
    return _places(cuts, chunk.second)


def rows_per_split(split: np.ndarray) -> np.ndarray:
    """[3] rows of train, valid and test."""
    return np.bincount(split, minlength=len(SPLITS))[: len(SPLITS)]


def thinned(split: np.ndarray, rows: RowsOfChunk, seed: int, share: float | None) -> np.ndarray:
    """The split with only a `share` of the training rows without a click, drawn by a hash of their own."""
    if share is None:
        return split
    drawn = (mixed(rows.hashes(seed) + _U(LEFT_OUT)) >> _U(11)) * 2.0**-53
    return np.where((split == TRAIN) & (rows.label == 0) & (drawn >= share), LEFT_OUT, split).astype(np.uint8)


def _eight_one_one(hashes: np.ndarray) -> np.ndarray:
    tenth = (hashes >> _U(32)) * _U(10) >> _U(32)
    return np.where(tenth < 8, TRAIN, np.where(tenth == 8, VALID, TEST)).astype(np.uint8)


def cut_ranks(count: int) -> list[int]:
    """How many of `count` rows of a class lie below the cut to valid, and to test."""
    return [round(count * 0.8), round(count * 0.9)]


def _balanced_cuts(seed: int, chunks: Sequence[RowsOfChunk]) -> Cuts:
    """Exactly 80/10/10 % of the clicks and of the other rows: the hashes' own quantiles are the cuts."""
    cuts = {}
    for value in (0, 1):
        hashes = np.concatenate([chunk.hashes(seed)[chunk.label == value] for chunk in chunks] or [np.zeros(0, _U)])
        ranks = cut_ranks(len(hashes))
        hashes.partition([min(rank, len(hashes) - 1) for rank in ranks] if len(hashes) else [])
        cuts[value] = [hashes[rank] if rank < len(hashes) else _U(2**64 - 1) for rank in ranks]
    return cuts


def by_cuts(seed: int, chunk: RowsOfChunk, cuts: Cuts) -> np.ndarray:
    hashes = chunk.hashes(seed)
    low = np.where(chunk.label == 1, cuts[1][0], cuts[0][0])
    high = np.where(chunk.label == 1, cuts[1][1], cuts[0][1])
    return np.where(hashes < low, TRAIN, np.where(hashes < high, VALID, TEST)).astype(np.uint8)


def _by_day(days: list[np.ndarray]) -> list[np.ndarray]:
    present = sorted(set().union(*(np.unique(day).tolist() for day in days)))
    if len(present) < 3:
        raise DataError(
            f"The split by time needs rows of at least 3 days; this file has {len(present)}.",
            "Use --protocol random-8-1-1, or give more of the log.",
        )
    return [
        np.where(day == present[-1], TEST, np.where(day == present[-2], VALID, TRAIN)).astype(np.uint8) for day in days
    ]


def _read_index(path: Path, total: int) -> np.ndarray:
    try:
        data = read_bytes(path, 16 * total + 4096)  # the widest integers, and a header
        index = np.load(io.BytesIO(data)) if path.suffix == ".npy" else np.frombuffer(data, dtype=np.uint8)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read as a split index: {error}.") from None
    if index.shape != (total,) or (len(index) and int(index.max()) > TEST):
        raise DataError(
            f"{path} must hold one number per raw row, {total:,} of them, each 0, 1 or 2; it has shape {index.shape}.",
            "Write it with numpy.save as uint8, in the order of the raw file.",
        )
    return index.astype(np.uint8)

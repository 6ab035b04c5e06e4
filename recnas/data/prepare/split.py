"""Which rows are train, valid and test: named protocols, decided by arithmetic on the row number.

random-8-1-1    each row by a hash of (seed, row): no state, any order, any number of threads
autoctr-8-1-1   the same, balanced exactly within clicks and within non-clicks (ten folds, 8/1/1),
                as AutoCTR, NASRec and BARS do. Their rows depend on the version of scikit-learn
                they used; to repeat those, give the split itself with --split-index
time-last-day   the last day is test, the day before is valid, the rest is train
index           from a file: one byte per row, 0 train, 1 valid, 2 test
files           the raw files come split: rows are numbered through train, then valid, then test
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from recnas.data.raw.recipe import Recipe
from recnas.errors import ConfigError, DataError
from recnas.files import read_bytes

TRAIN, VALID, TEST = 0, 1, 2
SPLITS = ("train", "valid", "test")
PROTOCOLS = ("random-8-1-1", "autoctr-8-1-1", "time-last-day", "index", "files")

_U = np.uint64
Cuts = dict[int, list[np.uint64]]  # for non-clicks (0) and clicks (1): where valid and test begin


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
    z ^= z >> _U(30)
    z *= _U(0xBF58476D1CE4E5B9)
    z ^= z >> _U(27)
    z *= _U(0x94D049BB133111EB)
    z ^= z >> _U(31)
    return z


def check_protocol(protocol: str, recipe: Recipe, index: Path | None, ready: bool = False) -> None:
    """Faults that can be known before any data is read; `ready`: the raw files come as a ready split."""
    if protocol not in PROTOCOLS:
        raise ConfigError(f"There is no split protocol {protocol!r}.", f"Choose one of: {', '.join(PROTOCOLS)}")
    if protocol == "time-last-day" and recipe.time is None:
        raise ConfigError(
            f"The recipe {recipe.name} does not say when its rows happened, so it has no last day.",
            "Use --protocol random-8-1-1, or add `time:` to your recipe.",
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

    @classmethod
    def read(cls, chunk: ReadsArrays, first_row: int, limit: int | None) -> RowsOfChunk:
        """The rows of a chunk file, up to row `limit` of all the raw data."""
        lines, n = chunk.facts["lines"], chunk.facts["rows"]
        line = chunk.read("line").astype(np.int64) if "line" in chunk else np.arange(n)
        label = chunk.read("label")
        day = chunk.read("day") if "day" in chunk else None
        if limit is not None and first_row + lines > limit:
            lines = limit - first_row
            keep = int(np.searchsorted(line, lines))
            line, label, day = line[:keep], label[:keep], None if day is None else day[:keep]
        return cls(first_row, lines, line, label, day)

    def hashes(self, seed: int) -> np.ndarray:
        return row_hash(seed, self.first_row, self.lines)[self.line]

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
) -> list[np.ndarray]:
    """The split of every good row, chunk by chunk.

    Args:
        days: cuts the row order where there is no time column.
        starts: of a ready split, the row numbers where valid and test begin.
    """
    total = sum(chunk.lines for chunk in chunks)
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
        return [
            np.searchsorted(starts, chunk.first_row + chunk.line, side="right").astype(np.uint8) for chunk in chunks
        ]
    return _by_day([chunk.days(days, total) for chunk in chunks])


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

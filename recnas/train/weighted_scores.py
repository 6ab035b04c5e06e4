"""Scores with weights for exact metrics: sums of weights per distinct score, in rising order.

The weighted twin of the buffers in `metrics`: twelve bytes per row, beyond a limit in a temporary file, read back
one range of scores at a time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

_ROW = np.dtype([("score", "<f4"), ("miss", "<f4"), ("click", "<f4")])
_READ_ROWS = 2**20
_HALF = 2**16  # values of one half of a float32's bits

Runs = tuple[np.ndarray, np.ndarray, np.ndarray]


class WeightedScores:
    """Rows in no order; a row's weight stands under `miss` or `click`, by its label."""

    def __init__(self, memory_bytes: int, folder: Path | None, rows_at_a_time: int = 2**21) -> None:
        self.limit, self.folder, self.at_a_time = memory_bytes // _ROW.itemsize, folder, rows_at_a_time
        self.rows = self._in_memory = 0
        self._parts: list[np.ndarray] = []
        self._file: IO[bytes] | None = None

    def add(self, score: np.ndarray, clicked: np.ndarray, weight: np.ndarray) -> None:
        part = np.empty(len(score), dtype=_ROW)
        part["score"] = score
        part["miss"], part["click"] = np.where(clicked, 0, weight), np.where(clicked, weight, 0)
        self._parts.append(part)
        self.rows += len(part)
        self._in_memory += len(part)
        if self._in_memory > self.limit:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115 - lives as long as the buffer
            self._file.seek(0, 2)
            for one in self._parts:
                one.tofile(self._file)
            self._file.flush()
            self._parts, self._in_memory = [], 0

    def runs(self) -> Iterator[Runs]:
        """Distinct scores in rising order with the weight of their non-clicks and of their clicks."""
        if self.rows <= self.at_a_time:
            yield _summed(np.concatenate([*self._read(), np.empty(0, _ROW)]))
            return
        halves = np.zeros(_HALF, dtype=np.int64)
        for part in self._read():
            halves += np.bincount(_ordered(part["score"]) >> 16, minlength=_HALF)
        start = 0
        while start < _HALF:
            stop = max(start + 1, start + int((np.cumsum(halves[start:]) <= self.at_a_time).sum()))
            if halves[start:stop].sum() > self.at_a_time:  # one half with very many rows: few distinct scores
                yield self._one_half(start)
            else:
                yield _summed(np.concatenate([*self._between(start << 16, stop << 16), np.empty(0, _ROW)]))
            start = stop

    def _read(self) -> Iterator[np.ndarray]:
        if self._file is not None:
            self._file.seek(0)
            while data := self._file.read(_ROW.itemsize * _READ_ROWS):
                yield np.frombuffer(data, dtype=_ROW)
        yield from self._parts

    def _between(self, low: int, high: int) -> Iterator[np.ndarray]:
        for part in self._read():
            keys = _ordered(part["score"])
            yield part[(keys >= low) & (keys < high)]

    def _one_half(self, half: int) -> Runs:
        sums, rows = np.zeros((2, _HALF)), np.zeros(_HALF, dtype=np.int64)
        for part in self._read():
            keys = _ordered(part["score"])
            some = keys >> 16 == half
            low = (keys[some] & (_HALF - 1)).astype(np.int64)
            rows += np.bincount(low, minlength=_HALF)
            for place, name in enumerate(("miss", "click")):
                sums[place] += np.bincount(low, weights=part[name][some], minlength=_HALF)
        present = np.flatnonzero(rows)
        keys = (half << 16 | present).astype(np.uint32)
        scores = np.where(keys >> 31 == 1, keys & np.uint32(2**31 - 1), ~keys).view(np.float32)
        return scores, sums[0, present], sums[1, present]


def _summed(rows: np.ndarray) -> Runs:
    values, place = np.unique(rows["score"], return_inverse=True)
    sums = [np.bincount(place, weights=rows[name], minlength=len(values)) for name in ("miss", "click")]
    return values, sums[0], sums[1]


def _ordered(scores: np.ndarray) -> np.ndarray:
    """Bits of float32 numbers as unsigned integers of the same order."""
    bits = np.ascontiguousarray(scores).view(np.uint32)
    return np.where(bits >> 31 == 1, ~bits, bits | np.uint32(2**31))

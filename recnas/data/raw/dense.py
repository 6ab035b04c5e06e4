"""Numeric columns: transform, statistics of the training rows, and what a model is given.

    raw number -> transform -> (standardise) -> float32; a missing cell becomes `fill` at the end

Between parsing and encoding a missing cell is NaN, and a negative number that a transform made 0 is -0.0: so both
can be counted on the training rows without a mask beside the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from recnas.data.raw.input_column import InputColumn
from recnas.data.raw.transforms import TRANSFORMS
from recnas.data.schema import DenseField

BLOCK_ROWS = 65_536
# Networks start with weights made for inputs of the size of one. The log1p columns of Criteo, with which the
# published settings work, have means up to about 8; beyond ten first layers saturate or diverge.
LARGEST_UNSCALED = 10.0
_LARGEST = float(np.finfo(np.float32).max)


def transformed(values: np.ndarray, missing: np.ndarray, column: InputColumn) -> tuple[np.ndarray, np.ndarray]:
    """The transform alone, NaN where missing; and which values no 32-bit float can hold."""
    out = np.where(missing, np.nan, TRANSFORMS[column.transform].column(np, values))
    too_large = np.abs(out) > _LARGEST
    if column.standardise is False and not column.has_edges:
        # Some counts exceed 2^24, where float32 starts to round; that is meant.
        return np.where(too_large, 0.0, out).astype(np.float32), too_large
    return out, too_large  # times in seconds need all their digits until they are standardised


def model_values(values: np.ndarray, field: DenseField) -> np.ndarray:
    """What a model is given for transformed values, float32."""
    missing = np.isnan(values)
    if fitted := TRANSFORMS[field.transform].fitted:
        values = fitted.column(np, values.astype(np.float64), np.array(field.edges))
    if field.standardised:
        values = (values.astype(np.float64) - field.mean) / (field.std or 1.0)
    out = values.astype(np.float32)
    out += np.float32(0)  # -0.0 becomes 0.0
    out[missing] = field.fill
    return out


@dataclass(frozen=True)
class DenseSummary:
    """One column over the training rows, after the transform; figures are of cells that are not missing."""

    rows: int
    missing: int
    negative: int  # made 0 by the transform
    min: float | None
    mean: float
    max: float | None
    std: float


def fields_of(
    columns: list[InputColumn], summaries: list[DenseSummary], edges: Mapping[str, tuple[float, ...]]
) -> tuple[DenseField, ...]:
    """The schema of dense columns: here it is decided which of them are standardised."""
    return tuple(
        DenseField(
            column.name,
            column.transform,
            summary.mean,
            summary.std,
            column.standardise is True or (column.standardise == "auto" and not _of_the_size_of_one(summary)),
            column.fill,
            edges.get(column.name, ()),
        )
        for column, summary in zip(columns, summaries)
    )


def _of_the_size_of_one(summary: DenseSummary) -> bool:
    return abs(summary.mean) <= LARGEST_UNSCALED and summary.std <= LARGEST_UNSCALED


def summarise(pieces: Iterable[np.ndarray], columns: int) -> list[DenseSummary]:
    """Summaries of every column of pieces [n, columns].

    Pieces are cut into blocks of a fixed size and combined in row order, so that neither the number of
    threads nor how the raw file was cut changes a digit.
    """
    rows, count, missing, negative = 0, *(np.zeros(columns, np.int64) for _ in range(3))
    mean, squares = np.zeros(columns), np.zeros(columns)
    low, high = np.full(columns, np.inf), np.full(columns, -np.inf)
    for block in _blocks(pieces, columns):
        known = ~np.isnan(block)
        n = known.sum(axis=0)
        block_mean = np.where(known, block, 0.0).sum(axis=0) / np.maximum(n, 1)
        part = np.where(known, block - block_mean, 0.0)
        step, total = block_mean - mean, np.maximum(count + n, 1)
        squares += np.einsum("ij,ij->j", part, part) + step**2 * (count * n / total)
        mean += step * (n / total)
        rows, count, missing = rows + len(block), count + n, missing + len(block) - n
        negative += (np.signbit(block) & (block == 0)).sum(axis=0)
        low = np.minimum(low, np.where(known, block, np.inf).min(axis=0))
        high = np.maximum(high, np.where(known, block, -np.inf).max(axis=0))
    std = np.sqrt(squares / np.maximum(count, 1))
    return [
        DenseSummary(
            rows,
            int(missing[i]),
            int(negative[i]),
            float(low[i]) + 0.0 if count[i] else None,
            float(mean[i]),
            float(high[i]) + 0.0 if count[i] else None,
            float(std[i]),
        )
        for i in range(columns)
    ]


def _blocks(pieces: Iterable[np.ndarray], columns: int) -> Iterator[np.ndarray]:
    held = np.zeros((0, columns))
    for piece in pieces:
        held = np.concatenate([held, piece])
        while len(held) >= BLOCK_ROWS:
            yield held[:BLOCK_ROWS]
            held = held[BLOCK_ROWS:]
    if len(held):
        yield held

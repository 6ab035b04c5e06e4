"""Edges of buckets and quantiles, fitted on the training rows.

They are quantiles of a sample of every k-th training row, at most MOST of them: what is taken depends on row numbers only, so
neither the number of threads nor the engine changes an edge.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from recnas.data.prepare.arrayfile import ArrayFile
from recnas.data.prepare.encode import read_missing
from recnas.data.prepare.split import TRAIN
from recnas.data.raw.input_column import InputColumn

MOST = 1_000_000
QUANTILES = 100  # steps of the transform `quantile`

Edges = dict[str, tuple[float, ...]]


def fit_edges(columns: list[InputColumn], chunks: Iterable[tuple[ArrayFile, np.ndarray]], rows: int) -> Edges:
    """Edges by column name, of those that have any.

    Args:
        chunks: with the split of their rows. rows: of the training split.
    """
    found = {column.name: column.edges for column in columns if column.has_edges and column.edges is not None}
    wanted = [column for column in columns if column.has_edges and column.name not in found]
    if not wanted:
        return found
    step, before = max(1, -(-rows // MOST)), 0
    sampled: dict[str, list[np.ndarray]] = {column.name: [] for column in wanted}
    for chunk, split in chunks:
        training = np.flatnonzero(split == TRAIN)
        places = training[(-before) % step :: step]
        before += len(training)
        for column in wanted:
            values, missing = _numbers(chunk, column)
            sampled[column.name].append(values[places][~missing[places]])
    return found | {column.name: _edges(column, np.concatenate(sampled[column.name])) for column in wanted}


def _numbers(chunk: ArrayFile, column: InputColumn) -> tuple[np.ndarray, np.ndarray]:
    if column.is_dense:
        values = chunk.read(f"dense:{column.name}")
        return values, np.isnan(values)
    values = chunk.read(f"key:{column.name}")
    missing = read_missing(chunk, column.name, len(values))
    return values, np.zeros(len(values), bool) if missing is None else missing


def _edges(column: InputColumn, sample: np.ndarray) -> tuple[float, ...]:
    if not len(sample):
        return ()
    if column.transform == "quantile":
        return tuple(np.quantile(sample, np.arange(QUANTILES + 1) / QUANTILES).tolist())
    cuts = np.unique(np.quantile(sample, np.arange(1, column.buckets) / column.buckets))
    return tuple(cuts[cuts > sample.min()].tolist())  # nothing lies below the smallest

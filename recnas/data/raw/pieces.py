"""Cells that hold several values, cut into them: text at a separator, lists of Parquet at their elements.

What does not fit is cut off before any value is looked at, so a cell of a million values costs no more than its text.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from recnas.data.raw.bag_sections import Several
from recnas.data.raw.text_columns import Cells
from recnas.data.raw.typed import Typed


class Pieces(NamedTuple):
    """The values of a column's cells, row after row."""

    values: Typed  # [P]
    counts: np.ndarray  # int64 [n]: how many of them each row has
    cut: np.ndarray  # int64 [n]: how many more its cell held


class BagColumn(NamedTuple):
    """The keys of a column of a chunk, row after row: values that are missing are left out."""

    keys: np.ndarray  # uint32 or uint64 [P]
    counts: np.ndarray  # uint32 [n]
    cut: np.ndarray  # uint32 [n]

    def of_rows(self, keep: np.ndarray) -> BagColumn:
        return BagColumn(self.keys[np.repeat(keep, self.counts)], self.counts[keep], self.cut[keep])


def places(held: np.ndarray, rule: Several) -> tuple[np.ndarray, np.ndarray]:
    """Of rows that hold so many values: how many are kept, and the number of each that is, row after row."""
    counts = np.minimum(held, rule.max_values)
    first = held - counts if rule.keep == "last" else np.zeros_like(held)
    ends = np.cumsum(counts)
    within = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - counts, counts)
    return counts, within + np.repeat(first, counts)


def split_cells(cells: Cells, rule: Several) -> tuple[Cells, np.ndarray, np.ndarray]:
    """The pieces of every cell, how many each has and how many were cut off; an empty cell has none."""
    separators = np.flatnonzero(cells.text == ord(rule.separator))
    first = np.searchsorted(separators, cells.start)
    inside = np.searchsorted(separators, cells.end) - first
    held = np.where(cells.end > cells.start, inside + 1, 0)
    counts, number = places(held, rule)
    after = np.repeat(first, counts) + number  # the separator behind a piece, if it is not the last
    marks = np.append(separators, 0)  # of cells without any, whose numbers may be one too far
    begins = np.where(number == 0, np.repeat(cells.start, counts), marks[after - 1] + 1)
    is_last = number == np.repeat(inside, counts)
    ends = np.where(is_last, np.repeat(cells.end, counts), marks[np.where(is_last, 0, after)])
    return Cells(cells.text, begins, ends), counts, held - counts


def split_lists(array: pa.Array, rule: Several) -> tuple[pa.Array, np.ndarray, np.ndarray]:
    """The same of a column of lists; null is an empty list, and a null in a list an empty value."""
    import pyarrow.compute as pc

    held = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    counts, number = places(held, rule)
    values = array.flatten()  # without those of null lists
    starts = np.cumsum(held) - held
    return values.take(pa.array(np.repeat(starts, counts) + number)), counts, held - counts


def bag_column(pieces: Pieces, keys: np.ndarray) -> tuple[BagColumn, np.ndarray]:
    """Values as `keys` without the missing ones, and which rows have a bad one."""
    rows = len(pieces.counts)
    row = np.repeat(np.arange(rows), pieces.counts)
    bad = np.zeros(rows, dtype=bool)
    bad[row[pieces.values.bad]] = True
    kept = ~(pieces.values.missing | pieces.values.bad)
    counts = np.bincount(row[kept], minlength=rows)
    return BagColumn(keys[kept], counts.astype(np.uint32), pieces.cut.astype(np.uint32)), bad

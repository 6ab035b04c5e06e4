"""From the ids of a batch to rows of the tables."""

from __future__ import annotations

from itertools import accumulate

import torch
from torch import Tensor

from recnas.data.schema import FIRST_VALUE_ID, UNKNOWN_ID, Schema
from recnas.errors import ConfigError, DataError


class RowMap:
    """Checks ids, folds what a limit cut off, adds offsets.

    cap: ids from `cap` on share the row of unknown values. Ids are ordered by frequency, so the frequent
    keep their own rows. hash_rows: ids beyond wrap around over the rows after the reserved ones instead.
    """

    def __init__(self, schema: Schema, cap: int | None, hash_rows: int | None, device: torch.device) -> None:
        self.names = tuple(field.name for field in schema.sparse)
        self.true_rows = schema.table_rows
        limit = _one_limit(cap, hash_rows)
        self.rows = tuple(n if limit is None else min(n, limit) for n in self.true_rows)
        self.wraps = hash_rows is not None
        self.folds = self.rows != self.true_rows
        *starts, self.total = accumulate(self.rows, initial=0)
        self.starts = tuple(starts)
        self._size, self._true_size, self._offsets = (
            torch.tensor(numbers, dtype=torch.int64, device=device)
            for numbers in (self.rows, self.true_rows, self.starts)
        )
        self.device = device
        self._wrap = (self._size - FIRST_VALUE_ID).clamp(min=1)  # a table of reserved rows only never wraps

    def check(self, ids: Tensor) -> None:
        """Raise `DataError` for the first column that holds an id its table does not have."""
        if ids.ndim != 2 or ids.shape[1] != len(self.names) or ids.dtype != torch.int64:
            raise DataError(f"ids must be int64 [B, {len(self.names)}], but are {ids.dtype} {list(ids.shape)}.")
        if ids.numel() == 0 or ids.is_meta:
            return
        wrong = (ids.amin(0) < 0) | (ids.amax(0) >= self._true_size)
        if not bool(wrong.any()):
            return
        column = int(wrong.nonzero()[0])
        name, rows, values = self.names[column], self.true_rows[column], ids[:, column]
        lowest, highest = int(values.min()), int(values.max())
        if lowest < 0:
            raise DataError(f"column {name} has id {lowest}; ids start at 0.", "Prepare the data again.")
        raise DataError(
            f"column {name} has id {highest} but its table has {rows} rows; the batches were prepared with "
            "other limits than the schema.",
            f"Prepare again with --cap {rows} or set embeddings.cap: null and use the schema.json beside the data.",
        )

    def fold(self, ids: Tensor) -> Tensor:
        """Ids within the rows each table really has."""
        if not self.folds:
            return ids
        if self.wraps:
            first = FIRST_VALUE_ID
            return torch.where(ids >= self._size, first + (ids - first) % self._wrap, ids)
        return torch.where(ids >= self._size, UNKNOWN_ID, ids)

    def stacked(self, ids: Tensor) -> Tensor:
        """Folded ids `[B, F]` as row numbers `[B F]` in all tables laid one after the other."""
        return (ids + self._offsets).flatten()


def _one_limit(cap: int | None, hash_rows: int | None) -> int | None:
    if cap is not None and hash_rows is not None:
        raise ConfigError("embeddings.cap and embeddings.hash_rows are both set.", "Keep one of them.")
    if cap is not None and cap < FIRST_VALUE_ID:
        raise ConfigError(f"embeddings.cap is {cap}; the reserved ids alone need {FIRST_VALUE_ID} rows.")
    if hash_rows is not None and hash_rows <= FIRST_VALUE_ID:
        raise ConfigError(
            f"embeddings.hash_rows is {hash_rows}; it must leave rows after the {FIRST_VALUE_ID} reserved."
        )
    return cap if cap is not None else hash_rows

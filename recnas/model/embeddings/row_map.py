"""From the ids of a batch to rows of the tables."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from recnas.data.schema import FIRST_VALUE_ID, UNKNOWN_ID, Schema
from recnas.errors import ConfigError, DataError
from recnas.model.embeddings.columns import fields_of
from recnas.model.embeddings.pooling import BagPlaces, attention_gradients, pooled, value_gradients


class RowMap:
    """Checks ids, folds what a limit cut off, adds offsets.

    Ids are `[B, n_ids]` as in a batch: fields with one value, then the places of `bags`. `names`, `rows` and `starts` are
    those of tables; a field may read another one's.

    cap: ids from `cap` on share the row of unknown values. Ids are ordered by frequency, so the frequent
    keep their own rows. hash_rows: ids beyond wrap around over the rows after the reserved ones instead.
    """

    def __init__(self, schema: Schema, cap: int | None, hash_rows: int | None, device: torch.device) -> None:
        limit = _one_limit(cap, hash_rows)
        owners = [field for field in schema.sparse if field.own_rows]
        self.names = tuple(field.name for field in owners)
        self.rows = tuple(_at_most(field.rows, limit) for field in owners)
        *starts, self.total = accumulate(self.rows, initial=0)
        self.starts = tuple(starts)
        start_of = dict(zip(self.names, self.starts))
        self.singles = schema.n_single
        self.owners = tuple(number for number, field in enumerate(schema.sparse) if field.own_rows)
        self.table_of = tuple(self.names.index(field.table) for field in schema.sparse)
        self.field_rows = tuple(_at_most(field.rows, limit) for field in schema.sparse)
        self._spans = tuple(schema.id_columns(number) for number in range(schema.n_sparse))
        self.bags = tuple(
            BagPlaces(
                number,
                _span(schema.id_columns(number)),
                field.bag.pool,
                start_of[field.table],
                [one.name for one in schema.sparse].index(field.table) if field.bag.pool == "attention" else None,
            )
            for number, field in enumerate(schema.sparse)
            if field.bag
        )
        self.attentive = tuple(bag for bag in self.bags if bag.pool == "attention")
        # Of every id of a row.
        fields = [schema.sparse[number] for number in range(schema.n_sparse) for _ in schema.id_columns(number)]
        self.columns = tuple(field.name for field in fields)
        self.true_rows = tuple(field.rows for field in fields)
        rows = tuple(_at_most(field.rows, limit) for field in fields)
        self.wraps = hash_rows is not None
        self.folds = rows != self.true_rows
        self._size, self._true_size, self._offsets = (
            torch.tensor(numbers, dtype=torch.int64, device=device)
            for numbers in (rows, self.true_rows, [start_of[field.table] for field in fields])
        )
        self.device = device
        self._wrap = (self._size - FIRST_VALUE_ID).clamp(min=1)  # a table of reserved rows only never wraps

    def check(self, ids: Tensor) -> None:
        """Raise `DataError` for the first column that holds an id its table does not have."""
        if ids.ndim != 2 or ids.shape[1] != len(self.columns) or ids.dtype != torch.int64:
            raise DataError(f"ids must be int64 [B, {len(self.columns)}], but are {ids.dtype} {list(ids.shape)}.")
        if ids.numel() == 0 or ids.is_meta:
            return
        wrong = (ids.amin(0) < 0) | (ids.amax(0) >= self._true_size)
        if not bool(wrong.any()):
            return
        column = int(wrong.nonzero()[0])
        name, rows, values = self.columns[column], self.true_rows[column], ids[:, column]
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
        """Folded ids `[B, F]` of single values as row numbers `[B F]` in all tables laid one after the other."""
        return (ids + self._offsets).flatten()

    def length(self, bag: BagPlaces) -> int:
        return len(self._spans[bag.field])

    def places_of(self, field: int) -> range:
        """Where the ids of a field are among those of a row."""
        return self._spans[field]

    def ids_of(self, ids: Tensor, fields: tuple[int, ...]) -> Tensor:
        """The columns of some fields."""
        return fields_of(ids, tuple(column for field in fields for column in self._spans[field]))

    def vectors(self, stack: Tensor, ids: Tensor, attention: Sequence[Tensor] = ()) -> Tensor:
        """What a network reads of folded ids: `[B, F, D]` of a stack of tables laid out like these, and the weights of
        attention in the order of `attentive`."""
        if not self.bags:
            return gather(stack, self.stacked(ids), ids.shape)
        one = ids[:, : self.singles]
        singles = gather(stack, (one + self._offsets[: self.singles]).flatten(), one.shape)
        weights = {bag.field: one for bag, one in zip(self.attentive, attention)}
        return torch.cat(
            [singles, *(pooled(stack, ids, bag, weights.get(bag.field)).unsqueeze(1) for bag in self.bags)], 1
        )

    def row_gradients(
        self, stack: Tensor, ids: Tensor, grad: Tensor, attention: Sequence[Tensor] = ()
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Row numbers `[N]` of every value of a batch, and the gradient of each `[N, D]`, of that of the vectors; and those
        of the weights of attention."""
        if not self.bags:
            return self.stacked(ids), grad.flatten(0, 1), []
        weights, of_weights = {bag.field: one for bag, one in zip(self.attentive, attention)}, []
        one = (ids[:, : self.singles] + self._offsets[: self.singles]).flatten()
        parts = [(one, grad[:, : self.singles].flatten(0, 1))]
        for bag in self.bags:
            if bag.field in weights:
                *part, own = attention_gradients(stack, ids, bag, grad[:, bag.field], weights[bag.field])
                parts.append((part[0], part[1]))
                of_weights.append(own)
            else:
                parts.append(value_gradients(stack, ids, bag, grad[:, bag.field]))
        return torch.cat([rows for rows, _ in parts]), torch.cat([of_rows for _, of_rows in parts]), of_weights


def gather(stack: Tensor, rows: Tensor, shape: torch.Size) -> Tensor:
    return stack.index_select(0, rows).view(*shape, stack.shape[1])


def _span(columns: range) -> slice:
    return slice(columns.start, columns.stop)


def _at_most(rows: int, limit: int | None) -> int:
    return rows if limit is None else min(rows, limit)


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

"""Rows of tables that training reads and never changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from recnas.model.embeddings.base import Embeddings, Lookup


class _Kept(NamedTuple):
    field: int
    table: Tensor
    rows: Tensor  # bool [rows]
    columns: int  # the leading ones
    values: Tensor | None  # `[rows, columns]`, where an optimizer pulls at rows without a gradient


class FrozenRows:
    """Their gradients are zero before anybody sees them (clipping, the optimizer's sums); what L2 does to them is undone."""

    def __init__(self, embeddings: Embeddings) -> None:
        self._fields = dict(zip(embeddings.row_map.names, embeddings.row_map.owners))
        self._tables, self._optimizer = embeddings.weights, embeddings.optimizer
        self._kept: list[_Kept] = []

    def __bool__(self) -> bool:
        return bool(self._kept)

    def add(self, name: str, rows: Tensor, columns: int) -> None:
        """Freeze the leading `columns` of the `rows` (a mask) of a table, as they are now."""
        table = self._tables[name]
        values = table[:, :columns].detach().clone() if self._optimizer.l2 else None
        self._kept.append(_Kept(self._fields[name], table, rows, columns, values))

    @torch.no_grad()
    def keep_as_now(self) -> None:
        """After the tables were given other values."""
        for one in self._kept:
            if one.values is not None:
                one.values.copy_(one.table[:, : one.columns])

    def guard(self, lookup: Lookup) -> None:
        masks = [
            (one.field, one.rows[lookup.ids[:, one.field]].to(lookup.leaf.device), one.columns) for one in self._kept
        ]

        def without_frozen(grad: Tensor) -> Tensor:
            grad = grad.clone()
            for field, rows, columns in masks:
                grad[:, field, :columns].masked_fill_(rows[:, None], 0.0)
            return grad

        lookup.leaf.register_hook(without_frozen)

    @torch.no_grad()
    def restore(self, lookup: Lookup) -> None:
        """After a step of an optimizer with L2."""
        for field, table, rows, columns, values in self._kept:
            if values is None:
                continue
            if self._optimizer.l2_kind == "dense":
                table[rows, :columns] = values[rows]
                continue
            touched = lookup.ids[:, field]
            touched = touched[rows[touched]]
            table[touched, :columns] = values[touched]

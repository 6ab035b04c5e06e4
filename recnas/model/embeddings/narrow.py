"""Tables of different widths: a backend's tables for every group of fields, read and trained as one.

Memory is that of the columns the fields keep; fields without a table have none. Initial values are those that tables of
full width would have in the same columns, so with optimizers that go value by value a training with narrow tables is the training
with full ones whose further columns nobody reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from recnas.model.embeddings.base import Embeddings, Lookup, Scale, TableReader
from recnas.model.embeddings.columns import FieldColumns
from recnas.model.embeddings.plain import normal_parts
from recnas.model.embeddings.row_map import RowMap
from recnas.model.embeddings.row_optim import TableOptimizer


class NarrowReader(TableReader):
    """Lookups in the tables of all groups.

    Args:
        stacks, row_maps: of each group. row_map: of all fields.
    """

    def __init__(
        self, stacks: Sequence[Tensor], row_maps: Sequence[RowMap], layout: FieldColumns, row_map: RowMap
    ) -> None:
        self.stacks, self.row_map = tuple(stacks), row_map
        self._row_maps, self._layout = tuple(row_maps), layout

    @property
    def are_tables(self) -> tuple[bool, ...]:
        return tuple(one for row_map in self._row_maps for one in (True, *(False for _ in row_map.attentive)))

    def read(self, stacks: Sequence[Tensor], ids: Tensor) -> Tensor:
        found = []
        place = 0
        for group, row_map in zip(self._layout.groups, self._row_maps):
            stack, *attention = stacks[place : place + 1 + len(row_map.attentive)]
            found.append(row_map.vectors(stack, self.row_map.ids_of(ids, group.fields), attention))
            place += 1 + len(attention)
        return self._layout.spread(found, ids)


class NarrowEmbeddings(Embeddings):
    """Args:
    row_map: of all fields. parts: tables of each group of `layout`, without initial values.
    """

    def __init__(
        self,
        row_map: RowMap,
        layout: FieldColumns,
        parts: Sequence[Embeddings],
        optimizer: TableOptimizer,
        lr: float,
        device: torch.device,
    ) -> None:
        super().__init__(row_map, layout.width, optimizer, lr, device)
        self.backend = parts[0].backend if parts else "plain"
        self.layout, self._parts = layout, tuple(parts)
        holder = {name: part for part in parts for name in part.weights}
        for name in row_map.names:
            if name in holder:
                self.weights[name] = holder[name].weights[name]
                for what, tables in self.state.items():
                    tables[name] = holder[name].state[what][name]

    @torch.no_grad()
    def fill(self, seed: int, std: float | None, start_scale: float) -> None:
        """Initial values; weights of ids, and columns that only fill up, start at zero."""
        for name, field in zip(self.row_map.names, self.row_map.owners):
            columns = self.layout.columns[field]
            if not columns:
                continue
            table, kept = self.weights[name].zero_(), columns - self.layout.own
            for start, values in normal_parts(len(table), self.width, seed, name, std):
                table[start : start + len(values), :kept] = values[:, :kept] * start_scale
        for part in self._parts:
            if part.attention is not None:
                part.attention.fill(seed)

    def _open(self, ids: Tensor) -> tuple[Tensor, Any]:
        opened = [part._open(mine) for part, mine in zip(self._parts, self._split(ids))]
        return self.layout.spread([values.detach() for values, _ in opened], ids), opened

    def _split(self, ids: Tensor) -> list[Tensor]:
        return [self.row_map.ids_of(ids, group.fields) for group in self.layout.groups]

    def _update(self, lookup: Lookup, scale: Scale) -> None:
        assert lookup.leaf.grad is not None
        grads = self.layout.gathered(lookup.leaf.grad, [part.width for part in self._parts])
        for number, (part, ids, grad) in enumerate(zip(self._parts, self._split(lookup.ids), grads)):
            values, kept = part._open(ids) if lookup._kept is None else lookup._kept[number]
            own = Lookup(part, ids, values, kept)
            own.leaf.grad = grad
            own.apply(scale)

    def _attention(self) -> list[Tensor]:
        return [weights for part in self._parts for weights in part._attention()]

    def _attention_state(self) -> dict[str, dict[str, Tensor]]:
        found: dict[str, dict[str, Tensor]] = {}
        for part in self._parts:
            for name, tensors in part._attention_state().items():
                found.setdefault(name, {}).update(tensors)
        return found

    def _row_gradients(self, ids: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """As if the tables of all groups stood one after the other, filled up with zeros to one width."""
        if not self.row_map.bags:
            return super()._row_gradients(ids, grad)
        widths, first = [part.width for part in self._parts], 0
        rows, grads = [ids.new_zeros(0)], [grad.new_zeros(0, max(widths, default=0))]
        of_weights: list[Tensor] = []
        for part, mine, own in zip(self._parts, self._split(ids), self.layout.gathered(grad, widths)):
            some, of_rows, more = part._row_gradients(mine, own)
            of_weights += more
            rows.append(some + first)
            grads.append(F.pad(of_rows, (0, max(widths) - part.width)))
            first += part.row_map.total
        return torch.cat(rows), torch.cat(grads), of_weights

    def _stack(self) -> Tensor:
        raise NotImplementedError("tables of different widths have no common block of memory")

    @torch.no_grad()
    def lookup(self, ids: Tensor) -> Tensor:
        reader = self.reader()
        return reader.read(reader.stacks, self._fold(ids)).to(self.device)

    def reader(self) -> NarrowReader:
        stacks = [one for part in self._parts for one in (part._stack().detach(), *part._attention())]
        return NarrowReader(stacks, [part.row_map for part in self._parts], self.layout, self.row_map)

    def share_memory_(self) -> None:
        for part in self._parts:
            part.share_memory_()

    def set_lr(self, lr: float) -> None:
        self.lr = lr
        for part in self._parts:
            part.set_lr(lr)

    @property
    def steps(self) -> int:
        return self._parts[0].steps if self._parts else 0

    def set_steps(self, steps: int) -> None:
        for part in self._parts:
            part.set_steps(steps)

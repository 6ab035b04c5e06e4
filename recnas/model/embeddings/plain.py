"""Embedding tables in plain torch: one stacked table, and an optimizer on the rows a batch touched.

The readable twin of the fused backend, and the one for platforms without its libraries. Also here: the initial
values of every backend's tables.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recnas.model.embeddings.attention import AttentionWeights
from recnas.model.embeddings.base import Embeddings, Lookup, Scale, scaled
from recnas.model.embeddings.row_map import RowMap
from recnas.model.embeddings.row_optim import RowOptimizer, TableOptimizer

_FILL_ROWS = 2**16  # rows drawn at a time: the same pieces on every device, so the same random numbers


class PlainEmbeddings(Embeddings):
    """`stack [sum of rows, D]`: table after table; a row is addressed by id plus the table's start."""

    backend = "plain"

    def __init__(
        self,
        row_map: RowMap,
        width: int,
        optimizer: TableOptimizer,
        lr: float,
        device: torch.device,
        home: torch.device,
    ) -> None:
        super().__init__(row_map, width, optimizer, lr, device)
        self._table = _empty((row_map.total, width), home)
        self._rows = RowOptimizer(optimizer, row_map.total, width, lambda shape: _empty(shape, home))
        for name, start, rows in zip(row_map.names, row_map.starts, row_map.rows):
            self.weights[name] = self._table[start : start + rows]
            for part, tensor in self._rows.state.items():
                self.state[part][name] = tensor[start : start + rows]
        if attentive := row_map.attentive:
            names, lengths = zip(*((row_map.columns[bag.columns.start], row_map.length(bag)) for bag in attentive))
            self.attention = AttentionWeights(names, lengths, width, optimizer, home)

    def _open(self, ids: Tensor) -> tuple[Tensor, Any]:
        return self.row_map.vectors(self._table, ids, self._attention()), None

    def _update(self, lookup: Lookup, scale: Scale) -> None:
        rows, grad = lookup._sums()
        self._rows.step(self._table, rows, scaled(grad, scale), self.lr)
        if self.attention is not None:
            self.attention.step([scaled(one, scale) for one in lookup._of_attention], self.lr)

    @property
    def steps(self) -> int:
        return self._rows.steps

    def set_steps(self, steps: int) -> None:
        self._rows.steps = steps
        if self.attention is not None:
            self.attention.set_steps(steps)

    def _stack(self) -> Tensor:
        return self._table

    def set_lr(self, lr: float) -> None:
        self.lr = lr


def _empty(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """Memory for random access. On Linux numpy asks for huge pages and torch does not: with small ones, a step
    on gigabytes of tables spends a third of its time finding the pages."""
    if device.type != "cpu":
        return torch.empty(shape, device=device)
    return torch.from_numpy(np.empty(shape, dtype=np.float32))


def fill_normal(table: Tensor, seed: int, name: str, std: float | None = None) -> None:
    """Normal initial values, Xavier's unless `std` is given; a table's numbers depend on seed, name and shape, not on
    the backend."""
    if table.is_meta:
        return
    rows, width = table.shape
    in_place = table.device.type == "cpu"
    with torch.no_grad():
        for start, values in normal_parts(rows, width, seed, name, std, table if in_place else None):
            if not in_place:
                table[start : start + len(values)].copy_(values)


def normal_parts(
    rows: int, width: int, seed: int, name: str, std: float | None = None, table: Tensor | None = None
) -> Iterator[tuple[int, Tensor]]:
    """First row and values of one stretch of a table after the other, drawn in place if there is a table."""
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest) >> 1)
    if std is None:
        std = math.sqrt(2.0 / (rows + width))
    for start in range(0, rows, _FILL_ROWS):
        stop = min(start + _FILL_ROWS, rows)
        part = torch.empty(stop - start, width) if table is None else table[start:stop]
        yield start, part.normal_(0.0, std, generator=generator)

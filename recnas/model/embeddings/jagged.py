"""Ids of a batch as torchrec's jagged tensors: one id of a single field, as many as there are of a bag.

Its kernels add up the vectors of a bag, each times a weight: of a mean, its share. What else there is, the plain backend does.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from recnas.data.schema import MISSING_ID, Schema
from recnas.errors import ConfigError
from recnas.model.embeddings.row_map import RowMap


def kernels_can(schema: Schema) -> str | None:
    """Why they cannot pool the bags of a schema, or None."""
    for field in schema.bags:
        if field.bag and field.bag.pool not in ("sum", "mean"):
            return f"{field.name} is pooled by {field.bag.pool}"
    return None


def check_kernels_can(schema: Schema, backend: str, instead: str) -> None:
    if (why := kernels_can(schema)) is not None:
        raise ConfigError(f"The {backend} embedding backend cannot read these data: {why}.", instead)


class JaggedIds:
    """How the ids of a data set are given to torchrec, which knows tables as t0, t1 ... since names may hold dots."""

    def __init__(self, kernels: Any, row_map: RowMap) -> None:
        self._kernels, self._row_map = kernels, row_map
        self.tables = [f"t{i}" for i in range(len(row_map.names))]
        # A feature of torchrec per field; the one that owns the table has its name.
        self.keys = [
            self.tables[table] if field in row_map.owners else f"{self.tables[table]}-{field}"
            for field, table in enumerate(row_map.table_of)
        ]
        self.weighted = any(bag.pool == "mean" for bag in row_map.bags)
        self._ends = torch.empty(0, dtype=torch.int64)
        self._order: Tensor | None = None

    def table_of(self, key: str) -> str:
        """The table that a feature reads."""
        return key.partition("-")[0]

    def features(self) -> list[list[str]]:
        """Of every table, the fields that read it."""
        return [
            [key for key, mine in zip(self.keys, self._row_map.table_of) if mine == table]
            for table in range(len(self.tables))
        ]

    def of(self, ids: Tensor) -> Any:
        """A KeyedJaggedTensor of folded ids."""
        batch, singles = len(ids), self._row_map.singles
        values = ids[:, :singles].t().flatten()
        if not self._row_map.bags:
            return self._kernels.jagged(
                keys=self.keys, values=values, offsets=self._one_id_per_bag(batch, ids.device), stride=batch
            )
        parts, lengths, weights = [values], [torch.ones_like(values)], [torch.ones(len(values), device=ids.device)]
        for bag in self._row_map.bags:
            places = ids[:, bag.columns]
            there = places != MISSING_ID
            parts.append(places[there])
            counts = there.sum(1)
            lengths.append(counts)
            share = (1.0 / counts if bag.pool == "mean" else torch.ones(batch, device=ids.device)).float()
            weights.append(share.repeat_interleave(counts))
        return self._kernels.jagged(
            keys=self.keys,
            values=torch.cat(parts),
            weights=torch.cat(weights) if self.weighted else None,
            lengths=torch.cat(lengths),
            stride=batch,
        )

    def _one_id_per_bag(self, batch: int, device: torch.device) -> Tensor:
        size = batch * len(self.keys) + 1
        if len(self._ends) != size:
            self._ends = torch.arange(size, device=device)
        return self._ends

    def in_order(self, values: Tensor, keys: list[str]) -> Tensor:
        """`[B, F, D]` of what came back for `keys`, tables with their fields one after the other, in the order of the schema."""
        if keys == self.keys:
            return values
        if self._order is None:
            place = {key: i for i, key in enumerate(keys)}
            self._order = torch.tensor([place[key] for key in self.keys], device=values.device)
        return values.index_select(1, self._order)

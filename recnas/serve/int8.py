"""Tables of 8-bit numbers with one factor per row: a quarter of the memory, and what that costs in log loss.

A row is rounded to 127 steps of its largest value. Layers stay as they are: they are a small part of a click model, and with
numbers of their inputs rounded by batch, the probability of a row would depend on the rows beside it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from recnas.data.prepared import PreparedData
from recnas.serve.load import TrainedModel
from recnas.train.metrics import metrics_of

STEPS = 127
ROWS = 200_000  # validation rows on which the loss is measured: a batch more at most


@dataclass(frozen=True)
class Int8Rows:
    """A table that is read as one of floats is: by `index_select` along its rows."""

    values: Tensor  # [rows, width] int8
    factors: Tensor  # [rows, 1]

    @classmethod
    def of(cls, table: Tensor) -> Int8Rows:
        factors = table.abs().amax(1, keepdim=True) / STEPS
        factors = torch.where(factors > 0, factors, torch.ones_like(factors))
        return cls((table / factors).round_().clamp_(-STEPS, STEPS).to(torch.int8), factors)

    @property
    def shape(self) -> torch.Size:
        return self.values.shape

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.factors.nbytes

    def index_select(self, dim: int, rows: Tensor) -> Tensor:
        return self.values.index_select(dim, rows).float() * self.factors.index_select(dim, rows)

    def floats(self) -> Tensor:
        return self.values.float() * self.factors


def rounded(model: TrainedModel) -> TrainedModel:
    """The model with the tables that 8-bit ones stand for: what a program with those is compared with."""
    tables = copy.copy(model.tables)
    tables.stacks = tuple(
        Int8Rows.of(stack).floats() if small else stack for stack, small in zip(tables.stacks, tables.are_tables)
    )
    return replace(model, tables=tables)


def cost(model: TrainedModel, int8: TrainedModel, data: PreparedData, split: str) -> dict[str, Any]:
    """Memory of the tables, and log loss and AUC of both on the first rows of a split."""
    stacks = [stack for stack, small in zip(model.tables.stacks, model.tables.are_tables) if small]
    rows, (before, after) = _measured((model, int8), data, split)
    return {
        "tables": {
            "bytes_before": sum(stack.nbytes for stack in stacks),
            "bytes": sum(Int8Rows.of(stack).nbytes for stack in stacks),
        },
        "split": split,
        "rows": rows,
        **{name: {"before": before[name], "after": after[name]} for name in ("logloss", "auc")},
    }


def _measured(models: Sequence[TrainedModel], data: PreparedData, split: str) -> tuple[int, list[dict[str, Any]]]:
    metrics, rows = [metrics_of(data.schema) for _ in models], 0
    for batch in data.batches(split, models[0].settings.eval_batch_size):
        for model, found in zip(models, metrics):
            found.update(model.logits(batch.dense, batch.ids).float().cpu(), batch.label, batch.weight)
        rows += len(batch)
        if rows >= ROWS:
            break
    return rows, [found.result() for found in metrics]

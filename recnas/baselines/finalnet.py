"""FinalNet: layers that multiply one half of their outputs by the other; two such blocks side by side.

J. Zhu et al.: FINAL: Factorized Interaction Layer for CTR Prediction. SIGIR 2023. A layer splits W x + b into
halves a and c and gives [a, a * c], so each layer doubles the degree. `blocks: 1` and `2` are the paper's 1B
and 2B; the logit of two blocks is the mean of theirs. The field gate g_i = sum_j G_ij v_j + b_i gives the first
block v_i * g_i behind the vectors.

The paper trains 2B with two more terms, in which each block learns the mean prediction (self-distillation).
Training here knows no loss of a model's own, so these terms are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from recnas.baselines.base import Baseline, DeepSettings, InputShape, joined
from recnas.baselines.layers import Linear, NormKind, norms
from recnas.model.dropout import Draws, Dropout


class FinalNetSettings(DeepSettings):
    hidden: tuple[int, ...] = Field((400, 400), min_length=1)  # widths of the first block, even numbers
    blocks: Literal[1, 2] = 2
    second: tuple[int, ...] | None = None  # widths of the second block; null: those of the first
    second_dropout: float | None = Field(None, ge=0, lt=1)  # of the second block; null: that of the first
    field_gate: bool = True  # the first block also sees the vectors gated by all fields

    @model_validator(mode="after")
    def _two_halves(self) -> FinalNetSettings:
        for width in (*self.hidden, *(self.second or ())):
            if width < 2 or width % 2:
                raise ValueError(f"the width {width} has no two halves; use even numbers")
        return self


class Block(nn.Module):
    """`[B, width]` to `[B, hidden[-1]]`."""

    def __init__(self, width: int, hidden: Sequence[int], draws: Draws, dropout: float, norm: NormKind) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Linear(a, b) for a, b in pairwise([width, *hidden]))
        self.norms = norms(norm, hidden)
        self.dropout = Dropout(dropout, draws)

    def forward(self, x: Tensor) -> Tensor:
        for i, layer in enumerate(self.layers):
            first, second = layer(x).chunk(2, 1)
            x = torch.cat((first, first * second), 1)
            if self.norms is not None:
                x = self.norms[i](x)
            x = self.dropout(F.relu(x, inplace=True))
        return x


class FieldGate(nn.Module):
    """`[B, F, D]` to the same, each vector multiplied by a mixture of all. Starts as the identity."""

    def __init__(self, fields: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(fields, fields))
        self.bias = nn.Parameter(torch.ones(fields))

    def forward(self, vectors: Tensor) -> Tensor:
        mixed = F.linear(vectors.transpose(1, 2), self.weight, self.bias)
        return vectors * mixed.transpose(1, 2)


class FinalNet(Baseline):
    def __init__(self, shape: InputShape, settings: FinalNetSettings) -> None:
        super().__init__(shape)
        self.gate = FieldGate(shape.n_sparse) if settings.field_gate else None
        gated = shape.n_sparse * shape.width if settings.field_gate else 0
        second_dropout = settings.dropout if settings.second_dropout is None else settings.second_dropout
        plans = [
            (shape.flat + gated, settings.hidden, settings.dropout),
            (shape.flat, settings.second or settings.hidden, second_dropout),
        ][: settings.blocks]
        self.blocks = nn.ModuleList(
            Block(width, hidden, self.draws, dropout, settings.norm) for width, hidden, dropout in plans
        )
        self.heads = nn.ModuleList(nn.Linear(hidden[-1], shape.labels, bias=False) for _, hidden, _ in plans)
        self.bias = nn.Parameter(torch.zeros(shape.labels))

    @property
    def output_bias(self) -> nn.Parameter:
        return self.bias

    def forward(self, dense: Tensor, embedded: Tensor) -> Tensor:
        vectors = self.only_vectors(embedded)
        x = joined(vectors, dense)
        first = x if self.gate is None else torch.cat((x, self.gate(vectors).flatten(1)), 1)
        logits = [head(block(given)) for head, block, given in zip(self.heads, self.blocks, (first, x))]
        if self.shape.labels > 1:
            return torch.stack(logits, 1).mean(1) + self.bias
        return torch.cat(logits, 1).mean(1) + self.bias

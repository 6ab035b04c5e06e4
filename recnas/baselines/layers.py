"""Parts that several hand-crafted models share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recnas.model.dropout import Draws, Dropout
from recnas.model.kernels import linear, needs_plain_operations
from recnas.model.products import is_large

NormKind = Literal["none", "batch", "layer"]


class BatchNorm(nn.BatchNorm1d):
    """As usual, but a training batch of one row, which an epoch may end with, is normalised as in evaluation.

    Its own variance is zero: it would say nothing about the row, and torch refuses it.
    """

    def forward(self, x: Tensor) -> Tensor:
        if self.training and x.shape[0] == 1:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        return super().forward(x)


def norms(kind: NormKind, widths: Sequence[int]) -> nn.ModuleList | None:
    """One normalisation per width, or None."""
    if kind == "none":
        return None
    return nn.ModuleList(BatchNorm(width) if kind == "batch" else nn.LayerNorm(width) for width in widths)


class Linear(nn.Linear):
    """As usual, by the faster library where the product is large (`recnas.model.products`)."""

    def forward(self, x: Tensor) -> Tensor:
        if needs_plain_operations() or x.ndim != 2 or not is_large(x, self.weight):
            return super().forward(x)
        return linear((x,), (self.weight,), self.bias)


def as_logits(out: Tensor) -> Tensor:
    """`[B, L]`, or `[B]` of a single label."""
    return out.squeeze(1) if out.shape[1] == 1 else out


class Factors(nn.Module):
    """A term without weights, `[B]`, for every label: each has a factor of its own, which starts at 1."""

    def __init__(self, labels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(labels)) if labels > 1 else None

    def forward(self, term: Tensor) -> Tensor:
        return term if self.weight is None else term.unsqueeze(1) * self.weight


class Mlp(nn.Module):
    """Linear, normalisation (if asked for), ReLU, dropout, per width in `hidden`; then a logit per label if `head`."""

    def __init__(
        self,
        width: int,
        hidden: Sequence[int],
        draws: Draws,
        dropout: float = 0.0,
        norm: NormKind = "none",
        head: bool = True,
        labels: int = 1,
    ) -> None:
        super().__init__()
        widths = [width, *hidden]
        self.layers = nn.ModuleList(Linear(a, b) for a, b in pairwise(widths))
        self.norms = norms(norm, hidden)
        self.dropout = Dropout(dropout, draws)
        self.out = nn.Linear(widths[-1], labels) if head else None

    @property
    def output_bias(self) -> nn.Parameter:
        """Of the logit."""
        assert self.out is not None
        return self.out.bias

    def forward(self, x: Tensor) -> Tensor:
        """`[B, width]` to logits, or to `[B, hidden[-1]]` without a head."""
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if self.norms is not None:
                x = self.norms[i](x)
            x = self.dropout.after_relu(x)
        return x if self.out is None else as_logits(self.out(x))


class FirstOrder(nn.Module):
    """The linear term: bias, one weight per dense column, and the ids' own weights from the tables."""

    def __init__(self, n_dense: int, labels: int = 1) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(labels))
        self.weight = nn.Parameter(torch.zeros(labels, n_dense)) if n_dense else None

    def forward(self, dense: Tensor, weights: Tensor) -> Tensor:
        """`dense [B, I]` and the ids' weights `[B, F]` or `[B, F, L]` to logits."""
        total = weights.sum(1)
        if self.weight is None:
            return total + self.bias
        return total + as_logits(F.linear(dense, self.weight, self.bias))


class DenseFields(nn.Module):
    """Every dense column as one more field: its number times a vector of the column."""

    def __init__(self, n_dense: int, width: int, scale: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_dense, width) * (scale / math.sqrt(n_dense * width)))

    def forward(self, vectors: Tensor, dense: Tensor) -> Tensor:
        """`[B, F, D]` and `[B, I]` to `[B, F + I, D]`."""
        return torch.cat((vectors, dense.unsqueeze(-1) * self.weight), 1)


def pairs(n: int) -> tuple[Tensor, Tensor]:
    """First and second members of the n (n - 1) / 2 pairs, in row order."""
    first, second = torch.triu_indices(n, n, offset=1)
    return first, second


def squares_of_sums(vectors: Tensor) -> Tensor:
    """Sum over pairs of fields of <v_i, v_j>, `[B, F, D]` to `[B]`, in F D steps (Rendle 2010, eq. 5)."""
    total = vectors.sum(1)
    return 0.5 * (total.square().sum(1) - vectors.square().sum((1, 2)))

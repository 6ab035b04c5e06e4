"""Wukong: a stack of layers, each a factorization machine block beside a linear compression, then a perceptron.

B. Zhang et al.: Wukong: Towards a Scaling Law for Large-Scale Recommendation. ICML 2024, sections 3.2-3.5. With
the rows X `[n, D]` of one example, a layer computes

    FMB(X) = reshape(MLP(LayerNorm(flatten(X X^T Y))))     Y `[n, rank]`, as X (X^T Y)
    LCB(X) = L X                                           L `[linear_rows, n]`
    X'     = LayerNorm([FMB(X), LCB(X)] + X)

where the residual is R X, with a matrix R, if the number of rows changes. Each layer doubles the degree. Dense
columns are one row each, x_m v_m.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn

from recnas.baselines.base import Baseline, DeepSettings, InputShape
from recnas.baselines.layers import DenseFields, Linear, Mlp
from recnas.model.dropout import Draws


class WukongSettings(DeepSettings):
    layers: int = Field(3, ge=1)
    fm_rows: int = Field(16, ge=1)  # rows that the factorization machine block of a layer gives
    linear_rows: int = Field(16, ge=1)  # rows that the linear compression gives
    rank: int = Field(8, ge=1)  # columns of Y
    fm_hidden: tuple[int, ...] = Field((128,), min_length=1)  # widths of the block's perceptron before its output


class Rows(nn.Module):
    """Mixes rows: `[B, before, D]` to `[B, after, D]`."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(after, before) * before**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        return torch.matmul(self.weight, x)


class FactorizationBlock(nn.Module):
    """`[B, n, D]` to `[B, fm_rows, D]`."""

    def __init__(self, n: int, width: int, settings: WukongSettings, draws: Draws) -> None:
        super().__init__()
        self.project = nn.Parameter(torch.randn(n, settings.rank) * n**-0.5)  # Y
        self.norm = nn.LayerNorm(n * settings.rank)
        self.deep = Mlp(n * settings.rank, settings.fm_hidden, draws, settings.dropout, settings.norm, head=False)
        self.out = Linear(settings.fm_hidden[-1], settings.fm_rows * width)

    def forward(self, x: Tensor) -> Tensor:
        products = torch.bmm(x, torch.matmul(x.transpose(1, 2), self.project))  # X (X^T Y), [B, n, rank]
        rows = self.out(self.deep(self.norm(products.flatten(1))))
        return rows.view(x.shape[0], -1, x.shape[2])


class Layer(nn.Module):
    def __init__(self, n: int, width: int, settings: WukongSettings, draws: Draws) -> None:
        super().__init__()
        after = settings.fm_rows + settings.linear_rows
        self.machine = FactorizationBlock(n, width, settings, draws)
        self.compress = Rows(n, settings.linear_rows)
        self.residual = Rows(n, after) if n != after else None
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        new = torch.cat((self.machine(x), self.compress(x)), 1)
        return self.norm(new + (x if self.residual is None else self.residual(x)))


class Wukong(Baseline):
    def __init__(self, shape: InputShape, settings: WukongSettings) -> None:
        super().__init__(shape)
        self.fields = DenseFields(shape.n_dense, shape.width) if shape.n_dense else None
        after = settings.fm_rows + settings.linear_rows
        rows = [shape.n_sparse + shape.n_dense] + [after] * (settings.layers - 1)
        self.layers = nn.ModuleList(Layer(n, shape.width, settings, self.draws) for n in rows)
        self.deep = Mlp(
            after * shape.width, settings.hidden, self.draws, settings.dropout, settings.norm, labels=shape.labels
        )

    @property
    def output_bias(self) -> nn.Parameter:
        return self.deep.output_bias

    def forward(self, dense: Tensor, embedded: Tensor) -> Tensor:
        vectors = self.only_vectors(embedded)
        x = vectors if self.fields is None else self.fields(vectors, dense)
        for layer in self.layers:
            x = layer(x)
        return self.deep(x.flatten(1))

"""DCN-V2: cross layers with a full (or low-rank) matrix, beside or below a multi-layer perceptron.

R. Wang et al.: DCN V2: Improved Deep & Cross Network. WWW 2021, eq. 1 and 2:
x_{l+1} = x_0 * (W_l x_l + b_l) + x_l, with W_l = U_l V_l^T if `rank` is set.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from recnas.baselines.base import Baseline, DeepSettings, InputShape, joined
from recnas.baselines.layers import Linear, Mlp, as_logits


class DCNv2Settings(DeepSettings):
    crosses: int = Field(3, ge=1)  # cross layers
    rank: int | None = Field(None, ge=1)  # of their matrices; null: full
    structure: Literal["parallel", "stacked"] = "parallel"


class DCNv2(Baseline):
    def __init__(self, shape: InputShape, settings: DCNv2Settings) -> None:
        super().__init__(shape)
        n, rank = shape.flat, settings.rank
        self.crosses = nn.ModuleList(
            Linear(n, n) if rank is None else nn.Sequential(Linear(n, rank, bias=False), Linear(rank, n))
            for _ in range(settings.crosses)
        )
        self.deep = Mlp(n, settings.hidden, self.draws, settings.dropout, settings.norm, labels=shape.labels)
        self.head = nn.Linear(n, shape.labels, bias=False) if settings.structure == "parallel" else None

    @property
    def output_bias(self) -> nn.Parameter:
        return self.deep.output_bias

    def forward(self, dense: Tensor, embedded: Tensor) -> Tensor:
        start = x = joined(self.only_vectors(embedded), dense)
        for cross in self.crosses:
            x = torch.addcmul(x, start, cross(x))
        if self.head is None:
            return self.deep(x)
        return as_logits(self.head(x)) + self.deep(start)

"""GDCN: cross layers whose new terms pass a gate, beside or below a multi-layer perceptron.

F. Wang et al.: Towards Deeper, Lighter and Interpretable Cross Network for CTR Prediction. CIKM 2023, eq. 3:
x_{l+1} = x_0 * (W_l x_l + b_l) * sigmoid(G_l x_l) + x_l. `stacked` is its GDCN-S, `parallel` its GDCN-P.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from recnas.baselines.base import Baseline, DeepSettings, InputShape, joined
from recnas.baselines.layers import Linear, Mlp, as_logits


class GDCNSettings(DeepSettings):
    crosses: int = Field(3, ge=1)  # gated cross layers
    structure: Literal["parallel", "stacked"] = "parallel"


class GatedCross(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.cross = Linear(width, width)
        self.gate = Linear(width, width, bias=False)

    def forward(self, start: Tensor, x: Tensor) -> Tensor:
        return torch.addcmul(x, start * self.cross(x), torch.sigmoid(self.gate(x)))


class GDCN(Baseline):
    def __init__(self, shape: InputShape, settings: GDCNSettings) -> None:
        super().__init__(shape)
        n = shape.flat
        self.crosses = nn.ModuleList(GatedCross(n) for _ in range(settings.crosses))
        self.deep = Mlp(n, settings.hidden, self.draws, settings.dropout, settings.norm, labels=shape.labels)
        self.head = nn.Linear(n, shape.labels, bias=False) if settings.structure == "parallel" else None

    @property
    def output_bias(self) -> nn.Parameter:
        return self.deep.output_bias

    def forward(self, dense: Tensor, embedded: Tensor) -> Tensor:
        start = x = joined(self.only_vectors(embedded), dense)
        for cross in self.crosses:
            x = cross(start, x)
        if self.head is None:
            return self.deep(x)
        return as_logits(self.head(x)) + self.deep(start)

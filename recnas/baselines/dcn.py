"""Deep & Cross: a cross network and a multi-layer perceptron side by side.

R. Wang et al.: Deep & Cross Network for Ad Click Predictions. ADKDD 2017, eq. 3:
x_{l+1} = x_0 (x_l . w_l) + b_l + x_l.

By induction x_l = a_l x_0 + c_l with one number a_l per row and c_l = b_0 + ... + b_{l-1}, and
a_{l+1} = a_l (1 + x_0 . w_l) + c_l . w_l. The logit h . x_L is a_L (x_0 . h) + c_L . h. So all layers and
their head need one product of x_0 with a matrix of L + 1 columns; the same function, no x_l is written.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from recnas.baselines.base import Baseline, DeepSettings, InputShape, joined
from recnas.baselines.layers import Mlp


class DCNSettings(DeepSettings):
    crosses: int = Field(3, ge=1)  # cross layers


class DCN(Baseline):
    def __init__(self, shape: InputShape, settings: DCNSettings) -> None:
        super().__init__(shape)
        n, spread = shape.flat, (1 / shape.flat) ** 0.5
        self.cross = nn.Parameter(torch.randn(settings.crosses, n) * spread)  # w_l
        self.bias = nn.Parameter(torch.zeros(settings.crosses, n))  # b_l
        self.head = nn.Parameter(torch.randn(shape.labels, n) * spread)
        self.deep = Mlp(n, settings.hidden, self.draws, settings.dropout, settings.norm, labels=shape.labels)

    @property
    def output_bias(self) -> nn.Parameter:
        return self.deep.output_bias

    def forward(self, dense: Tensor, embedded: Tensor) -> Tensor:
        x = joined(self.only_vectors(embedded), dense)
        along = F.linear(x, torch.cat((self.cross, self.head)))  # [B, layers + L]
        offsets = self.bias.cumsum(0)  # c_1, c_2, ...
        shifts = (offsets[:-1] * self.cross[1:]).sum(1)  # c_l . w_l; c_0 is zero
        scale = 1 + along[:, 0]
        for layer in range(1, len(self.cross)):
            scale = scale * (1 + along[:, layer]) + shifts[layer - 1]
        heads = along[:, len(self.cross) :]
        if self.shape.labels > 1:
            return scale.unsqueeze(1) * heads + self.head @ offsets[-1] + self.deep(x)
        crossed = scale * heads[:, 0] + (offsets[-1] * self.head[0]).sum()
        return crossed + self.deep(x)

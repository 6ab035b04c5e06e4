"""FinalMLP: two perceptrons on differently gated inputs, fused by a bilinear form.

K. Mao et al.: FinalMLP: An Enhanced Two-Stream MLP Model for CTR Prediction. AAAI 2023, eq. 5-10. A stream
gates its input by 2 sigmoid(MLP(context)). The paper takes user or item columns as context where a data set
has them; recnas does not know which columns those are and uses its other form, a learned context.
"""

from __future__ import annotations

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from recnas.baselines.base import Baseline, DeepSettings, InputShape, joined
from recnas.baselines.layers import Mlp


class FinalMLPSettings(DeepSettings):
    second: tuple[int, ...] | None = None  # widths of the second stream; null: those of the first
    gate_width: int = Field(64, ge=1)
    fusion_heads: int = Field(4, ge=1)  # divides the last width of both streams

    @model_validator(mode="after")
    def _heads_divide(self) -> FinalMLPSettings:
        for last in (self.hidden[-1], (self.second or self.hidden)[-1]):
            if last % self.fusion_heads:
                raise ValueError(f"fusion_heads {self.fusion_heads} does not divide the last width {last}")
        return self


class Gate(nn.Module):
    """One factor per input, between 0 and 2."""

    def __init__(self, context: int, hidden: int, width: int) -> None:
        super().__init__()
        self.context = nn.Parameter(torch.randn(1, context))
        self.hidden, self.out = nn.Linear(context, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        return x * (2 * torch.sigmoid(self.out(torch.relu(self.hidden(self.context)))))


class FinalMLP(Baseline):
    def __init__(self, shape: InputShape, settings: FinalMLPSettings) -> None:
        super().__init__(shape)
        widths = settings.hidden, settings.second or settings.hidden
        self.gates = nn.ModuleList(Gate(shape.width, settings.gate_width, shape.flat) for _ in widths)
        self.streams = nn.ModuleList(
            Mlp(shape.flat, hidden, self.draws, settings.dropout, settings.norm, head=False) for hidden in widths
        )
        last = [hidden[-1] for hidden in widths]
        self.linear = nn.Linear(sum(last), 1)
        k = settings.fusion_heads
        spread = (last[0] * last[1]) ** -0.5
        self.bilinear = nn.Parameter(torch.randn(k, last[0] // k, last[1] // k) * spread)

    @property
    def output_bias(self) -> nn.Parameter:
        return self.linear.bias

    def forward(self, dense: Tensor, embedded: Tensor) -> Tensor:
        x = joined(self.only_vectors(embedded), dense)
        one, two = (stream(gate(x)) for stream, gate in zip(self.streams, self.gates))
        k = len(self.bilinear)
        per_head = one.view(x.shape[0], k, -1).transpose(0, 1)  # [k, B, d1]
        crossed = torch.bmm(per_head, self.bilinear).transpose(0, 1).reshape(x.shape[0], -1)  # [B, k d2]
        return self.linear(torch.cat((one, two), 1)).squeeze(1) + (crossed * two).sum(1)

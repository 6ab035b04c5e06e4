"""FinalMLP: two perceptrons on differently gated inputs, fused by a bilinear form.

K. Mao et al.: FinalMLP: An Enhanced Two-Stream MLP Model for CTR Prediction. AAAI 2023, eq. 5-10. A stream
gates its input by 2 sigmoid(MLP(context)). The context is the vector of a column (in the paper user, item or
position), whose place among the categorical columns has to be named, or else a learned vector. The paper
looks a context up in tables of its own; here it is the vector that the streams see too.
"""

from __future__ import annotations

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from recnas.baselines.base import Baseline, DeepSettings, InputShape, joined
from recnas.baselines.layers import Factors, Linear, Mlp, as_logits
from recnas.errors import ConfigError


class FinalMLPSettings(DeepSettings):
    second: tuple[int, ...] | None = None  # widths of the second stream; null: those of the first
    second_dropout: float | None = Field(None, ge=0, lt=1)  # of the second stream; null: that of the first
    use_gates: bool = True  # gate the input of each stream
    gate_width: int = Field(64, ge=1)
    first_context: int | None = Field(None, ge=0)  # categorical column, from 0, that gates; null: a learned vector
    second_context: int | None = Field(None, ge=0)  # that of the second stream
    fusion_heads: int = Field(4, ge=1)  # divides the last width of both streams

    @model_validator(mode="after")
    def _heads_divide(self) -> FinalMLPSettings:
        for last in (self.hidden[-1], (self.second or self.hidden)[-1]):
            if last % self.fusion_heads:
                raise ValueError(f"fusion_heads {self.fusion_heads} does not divide the last width {last}")
        return self


class Gate(nn.Module):
    """One factor per input, between 0 and 2."""

    def __init__(self, shape: InputShape, hidden: int, column: int | None) -> None:
        super().__init__()
        if column is not None and column >= shape.n_sparse:
            raise ConfigError(
                f"column {column} cannot be the context of a gate: the data have {shape.n_sparse} categorical columns.",
                f"Name one from 0 to {shape.n_sparse - 1}, or none.",
            )
        self.column = column
        self.context = nn.Parameter(torch.randn(1, shape.width)) if column is None else None
        self.hidden, self.out = Linear(shape.width, hidden), Linear(hidden, shape.flat)

    def forward(self, x: Tensor, vectors: Tensor) -> Tensor:
        context = vectors[:, self.column] if self.context is None else self.context
        return x * (2 * torch.sigmoid(self.out(torch.relu(self.hidden(context)))))


class FinalMLP(Baseline):
    def __init__(self, shape: InputShape, settings: FinalMLPSettings) -> None:
        super().__init__(shape)
        widths = settings.hidden, settings.second or settings.hidden
        dropouts = (
            settings.dropout,
            settings.dropout if settings.second_dropout is None else settings.second_dropout,
        )
        contexts = (settings.first_context, settings.second_context) if settings.use_gates else ()
        self.gates = nn.ModuleList(Gate(shape, settings.gate_width, column) for column in contexts)
        self.streams = nn.ModuleList(
            Mlp(shape.flat, hidden, self.draws, dropout, settings.norm, head=False)
            for hidden, dropout in zip(widths, dropouts)
        )
        last = [hidden[-1] for hidden in widths]
        self.linear = nn.Linear(sum(last), shape.labels)
        self.factors = Factors(shape.labels)
        k = settings.fusion_heads
        spread = (last[0] * last[1]) ** -0.5
        self.bilinear = nn.Parameter(torch.randn(k, last[0] // k, last[1] // k) * spread)

    @property
    def output_bias(self) -> nn.Parameter:
        return self.linear.bias

    def forward(self, dense: Tensor, embedded: Tensor) -> Tensor:
        vectors = self.only_vectors(embedded)
        x = joined(vectors, dense)
        given = [gate(x, vectors) for gate in self.gates] or [x, x]
        one, two = (stream(part) for stream, part in zip(self.streams, given))
        k = len(self.bilinear)
        per_head = one.view(x.shape[0], k, -1).transpose(0, 1)  # [k, B, d1]
        crossed = torch.bmm(per_head, self.bilinear).transpose(0, 1).reshape(x.shape[0], -1)  # [B, k d2]
        return as_logits(self.linear(torch.cat((one, two), 1))) + self.factors((crossed * two).sum(1))

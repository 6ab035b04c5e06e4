"""FinalMLP: two perceptrons on differently gated inputs, fused by a bilinear form.

K. Mao et al.: FinalMLP: An Enhanced Two-Stream MLP Model for CTR Prediction. AAAI 2023, eq. 5-10. A stream
gates its input by 2 sigmoid(MLP(context)). The context is the vector of a column (in the paper user, item or
position), whose place among the categorical columns has to be named, or else a learned vector. The published
code looks a context up in a table of its own (`own_contexts`): here further columns of that field's table, which the
streams do not see. Otherwise it is the vector that they see too.

    columns 0 .. D-1   the vector       columns D .. 2D-1   the context (of a second gate on the same field: 2D .. 3D-1)
"""

from __future__ import annotations

from collections import Counter

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from recnas.baselines.base import Baseline, DeepSettings, InputShape, joined
from recnas.baselines.layers import Factors, Linear, Mlp, as_logits
from recnas.errors import ConfigError
from recnas.model.embeddings import FieldColumns


class FinalMLPSettings(DeepSettings):
    second: tuple[int, ...] | None = None  # widths of the second stream; null: those of the first
    second_dropout: float | None = Field(None, ge=0, lt=1)  # of the second stream; null: that of the first
    use_gates: bool = True  # gate the input of each stream
    gate_width: int = Field(64, ge=1)
    first_context: int | None = Field(None, ge=0)  # categorical column, from 0, that gates; null: a learned vector
    second_context: int | None = Field(None, ge=0)  # that of the second stream
    own_contexts: bool = False  # contexts that are columns have tables of their own, which the streams do not see
    fusion_heads: int = Field(4, ge=1)  # divides the last width of both streams

    @model_validator(mode="after")
    def _heads_divide(self) -> FinalMLPSettings:
        for last in (self.hidden[-1], (self.second or self.hidden)[-1]):
            if last % self.fusion_heads:
                raise ValueError(f"fusion_heads {self.fusion_heads} does not divide the last width {last}")
        return self

    @model_validator(mode="after")
    def _own_contexts_are_columns(self) -> FinalMLPSettings:
        if self.own_contexts and (not self.use_gates or self.first_context is self.second_context is None):
            raise ValueError("own_contexts gives tables to columns that gate: set first_context or second_context too")
        return self


class Gate(nn.Module):
    """One factor per input, between 0 and 2.

    Args:
        column: that is the context; None: a learned vector. place: of its first value in the table row.
    """

    def __init__(self, shape: InputShape, hidden: int, column: int | None, place: int) -> None:
        super().__init__()
        if column is not None and column >= shape.n_sparse:
            raise ConfigError(
                f"column {column} cannot be the context of a gate: the data have {shape.n_sparse} categorical columns.",
                f"Name one from 0 to {shape.n_sparse - 1}, or none.",
            )
        self.column, self.values = column, slice(place, place + shape.width)
        self.context = nn.Parameter(torch.randn(1, shape.width)) if column is None else None
        self.hidden, self.out = Linear(shape.width, hidden), Linear(hidden, shape.flat)

    def forward(self, x: Tensor, embedded: Tensor) -> Tensor:
        context = embedded[:, self.column, self.values] if self.context is None else self.context
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
        self.further: Counter[int] = Counter()  # contexts in a field's table, beside its vector
        self.gates = nn.ModuleList()
        for column in contexts:
            if settings.own_contexts and column is not None:
                self.further[column] += 1
            self.gates.append(Gate(shape, settings.gate_width, column, self._own_place(column)))
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

    def _own_place(self, column: int | None) -> int:
        """Of the newest context in this field's table; 0 without any: that of the vector."""
        return 0 if column is None else self.further[column] * self.shape.width

    def table_width(self, width: int) -> int:
        return width * (1 + max(self.further.values(), default=0))

    @property
    def field_columns(self) -> FieldColumns | None:
        width = self.shape.width
        if not self.further:
            return None
        return FieldColumns(
            self.table_width(width), 0, tuple(width * (1 + self.further[f]) for f in range(self.shape.n_sparse))
        )

    @property
    def output_bias(self) -> nn.Parameter:
        return self.linear.bias

    def forward(self, dense: Tensor, embedded: Tensor) -> Tensor:
        vectors = self.only_vectors(embedded)
        x = joined(vectors, dense)
        given = [gate(x, embedded) for gate in self.gates] or [x, x]
        one, two = (stream(part) for stream, part in zip(self.streams, given))
        k = len(self.bilinear)
        per_head = one.view(x.shape[0], k, -1).transpose(0, 1)  # [k, B, d1]
        crossed = torch.bmm(per_head, self.bilinear).transpose(0, 1).reshape(x.shape[0], -1)  # [B, k d2]
        return as_logits(self.linear(torch.cat((one, two), 1))) + self.factors((crossed * two).sum(1))

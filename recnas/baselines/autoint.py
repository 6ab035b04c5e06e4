"""AutoInt+: self-attention between fields, beside a multi-layer perceptron.

W. Song et al.: AutoInt: Automatic Feature Interaction Learning via Self-Attentive Neural Networks. CIKM
2019, eq. 5-8 (attention is not scaled there); the plus is its section 5.5, a perceptron beside it. Dense
columns are fields, x_m v_m (eq. 4). Published leaderboards add scaling, a residual that is the plain input
where widths allow, and LayerNorm before the activation: all three are settings.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from recnas.baselines.base import Baseline, DeepSettings, InputShape, joined
from recnas.baselines.layers import DenseFields, Mlp, as_logits
from recnas.model.dropout import Draws, Dropout
from recnas.model.kernels import attention


class AutoIntSettings(DeepSettings):
    layers: int = Field(3, ge=1)  # of attention
    heads: int = Field(2, ge=1)
    head_width: int = Field(16, ge=1)
    residual: Literal["linear", "plain", "none"] = "linear"  # plain: without a matrix where widths are equal
    scaled: bool = False  # divide scores by the root of head_width
    attention_norm: bool = False  # LayerNorm before the activation of each attention layer
    attention_dropout: float = Field(0.0, ge=0, lt=1)  # of what attention adds to the residual
    dense_fields: bool = True  # dense columns take part in attention


class Attention(nn.Module):
    """One interacting layer: `[width, B, n]` to `[heads head_width, B, n]`.

    Components come first and fields last: then queries, keys and values are one product, and its parts are
    contiguous. The attention itself is the supernet's kernel.
    """

    unscale: Tensor

    def __init__(self, width: int, settings: AutoIntSettings, draws: Draws) -> None:
        super().__init__()
        self.heads, out = settings.heads, settings.heads * settings.head_width
        self.project = nn.Linear(width, 3 * out, bias=False)  # queries, keys, values
        with_matrix = settings.residual == "linear" or (settings.residual == "plain" and width != out)
        self.residual = nn.Linear(width, out, bias=False) if with_matrix else None
        self.plain = settings.residual == "plain" and width == out
        self.norm = nn.LayerNorm(out) if settings.attention_norm else None
        self.dropout = Dropout(settings.attention_dropout, draws)
        # The kernel divides scores by this, the paper does not.
        unscale = torch.ones(3 * out, 1)
        if not settings.scaled:
            unscale[:out] = math.sqrt(settings.head_width)
        self.register_buffer("unscale", unscale, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        width, batch, n = x.shape
        flat = x.reshape(width, batch * n)
        three = (self.project.weight * self.unscale) @ flat
        mixed = self.dropout(attention(three.view(-1, batch, n), self.heads).reshape(-1, batch * n))
        if self.residual is not None:
            mixed = torch.addmm(mixed, self.residual.weight, flat)
        elif self.plain:
            mixed = mixed + flat
        if self.norm is not None:
            mixed = self.norm(mixed.t()).t()
        return torch.relu(mixed).reshape(-1, batch, n)


class AutoInt(Baseline):
    def __init__(self, shape: InputShape, settings: AutoIntSettings) -> None:
        super().__init__(shape)
        with_dense = settings.dense_fields and shape.n_dense > 0
        self.fields = DenseFields(shape.n_dense, shape.width) if with_dense else None
        n, out = shape.n_sparse + shape.n_dense * with_dense, settings.heads * settings.head_width
        self.attention = nn.Sequential(
            *(Attention(shape.width if i == 0 else out, settings, self.draws) for i in range(settings.layers))
        )
        self.head = nn.Linear(n * out, shape.labels)
        self.deep = Mlp(shape.flat, settings.hidden, self.draws, settings.dropout, settings.norm, labels=shape.labels)

    @property
    def output_bias(self) -> nn.Parameter:
        return self.head.bias

    def forward(self, dense: Tensor, embedded: Tensor) -> Tensor:
        vectors = self.only_vectors(embedded)
        fields = vectors if self.fields is None else self.fields(vectors, dense)
        attended = self.attention(fields.permute(2, 0, 1)).permute(1, 2, 0).flatten(1)
        return as_logits(self.head(attended)) + self.deep(joined(vectors, dense))

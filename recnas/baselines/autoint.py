"""AutoInt+: self-attention between fields, beside a multi-layer perceptron.

W. Song et al.: AutoInt: Automatic Feature Interaction Learning via Self-Attentive Neural Networks. CIKM
2019, eq. 5-8 (attention is not scaled there); the plus is its section 5.5, a perceptron beside it. Dense
columns are fields, x_m v_m (eq. 4).
"""

from __future__ import annotations

import math

import torch
from pydantic import Field
from torch import Tensor, nn

from recnas.baselines.base import Baseline, DeepSettings, InputShape, joined
from recnas.baselines.layers import DenseFields, Mlp
from recnas.model.kernels import attention


class AutoIntSettings(DeepSettings):
    layers: int = Field(3, ge=1)  # of attention
    heads: int = Field(2, ge=1)
    head_width: int = Field(16, ge=1)
    dense_fields: bool = True  # dense columns take part in attention


class Attention(nn.Module):
    """One interacting layer: `[width, B, n]` to `[heads head_width, B, n]`.

    Components come first and fields last: then queries, keys and values are one product, and its parts are
    contiguous. The attention itself is the supernet's kernel.
    """

    unscale: Tensor

    def __init__(self, width: int, heads: int, head_width: int) -> None:
        super().__init__()
        self.heads, out = heads, heads * head_width
        self.project = nn.Linear(width, 3 * out, bias=False)  # queries, keys, values
        self.residual = nn.Linear(width, out, bias=False)
        # The kernel divides scores by this, the paper does not.
        unscale = torch.ones(3 * out, 1)
        unscale[:out] = math.sqrt(head_width)
        self.register_buffer("unscale", unscale, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        width, batch, n = x.shape
        flat = x.reshape(width, batch * n)
        three = (self.project.weight * self.unscale) @ flat
        mixed = attention(three.view(-1, batch, n), self.heads)
        out = torch.addmm(mixed.reshape(-1, batch * n), self.residual.weight, flat)
        return torch.relu_(out).view(-1, batch, n)


class AutoInt(Baseline):
    def __init__(self, shape: InputShape, settings: AutoIntSettings) -> None:
        super().__init__(shape)
        with_dense = settings.dense_fields and shape.n_dense > 0
        self.fields = DenseFields(shape.n_dense, shape.width) if with_dense else None
        n, out = shape.n_sparse + shape.n_dense * with_dense, settings.heads * settings.head_width
        self.attention = nn.Sequential(
            *(
                Attention(shape.width if i == 0 else out, settings.heads, settings.head_width)
                for i in range(settings.layers)
            )
        )
        self.head = nn.Linear(n * out, 1)
        self.deep = Mlp(shape.flat, settings.hidden, self.draws, settings.dropout, settings.norm)

    @property
    def output_bias(self) -> nn.Parameter:
        return self.head.bias

    def forward(self, dense: Tensor, embedded: Tensor) -> Tensor:
        vectors = self.only_vectors(embedded)
        fields = vectors if self.fields is None else self.fields(vectors, dense)
        attended = self.attention(fields.permute(2, 0, 1)).permute(1, 2, 0).flatten(1)
        return self.head(attended).squeeze(1) + self.deep(joined(vectors, dense))

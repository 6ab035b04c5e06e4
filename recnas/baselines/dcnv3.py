"""DCNv3: two cross networks without a perceptron, of exponentially and of linearly growing degree.

H. Li et al.: DCNv3: Towards Next Generation Deep Cross Network for Click-Through Rate Prediction.
arXiv:2407.13349, 2024 (later called FCN). With c = W_l x_l, half as long as x_l, and the self-mask
m = c * relu(LayerNorm(c)), the layers are

    exponential   x_{l+1} = x_l * ([c, m] + b_l) + x_l
    linear        x_{l+1} = x_0 * ([c, m] + b_l) + x_l

and the logit is the mean of both networks' logits. The input is in two views: the first half of every vector,
then the second half of every vector. Dense columns are fields, x_m v_m. If vectors have an odd width, the
second view is one number per field shorter, and m is cut to it.

The paper also trains each network on its own logit (Tri-BCE). Training here knows no loss of a model's own, so
these terms are left out.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn

from recnas.baselines.base import Baseline, InputShape, ModelSettings
from recnas.baselines.layers import DenseFields, Linear, as_logits
from recnas.model.dropout import Draws, Dropout


class DCNv3Settings(ModelSettings):
    exponential: int = Field(4, ge=1)  # layers of the exponential cross network
    linear: int = Field(4, ge=1)  # layers of the linear cross network
    dropout: float = Field(0.0, ge=0, lt=1)  # after each layer of the exponential one
    linear_dropout: float | None = Field(None, ge=0, lt=1)  # of the linear one; null: the same
    mask_norm: bool = True  # LayerNorm within the self-mask


class MaskedCross(nn.Module):
    """[c, m] + b of one layer: `[B, length]` to the same."""

    def __init__(self, length: int, first: int, mask_norm: bool) -> None:
        super().__init__()
        self.second = length - first  # length of the second view
        self.weight = Linear(length, first, bias=False)
        self.bias = nn.Parameter(torch.zeros(length))
        self.norm = nn.LayerNorm(first) if mask_norm else None

    def forward(self, x: Tensor) -> Tensor:
        c = self.weight(x)
        mask = torch.relu(c if self.norm is None else self.norm(c))
        return torch.cat((c, (c * mask)[:, : self.second]), 1) + self.bias


class CrossNetwork(nn.Module):
    """`[B, length]` to `[B, L]`."""

    def __init__(
        self, layers: nn.ModuleList, length: int, exponential: bool, dropout: float, draws: Draws, labels: int
    ) -> None:
        super().__init__()
        self.layers, self.exponential = layers, exponential
        self.dropout = Dropout(dropout, draws)
        self.head = nn.Linear(length, labels, bias=False)

    def forward(self, start: Tensor) -> Tensor:
        x = start
        for layer in self.layers:
            x = self.dropout(torch.addcmul(x, x if self.exponential else start, layer(x)))
        return self.head(x)


class DCNv3(Baseline):
    def __init__(self, shape: InputShape, settings: DCNv3Settings) -> None:
        super().__init__(shape)
        self.fields = DenseFields(shape.n_dense, shape.width) if shape.n_dense else None
        n = shape.n_sparse + shape.n_dense
        self.first_half = (shape.width + 1) // 2
        length, first = n * shape.width, n * self.first_half
        other = settings.dropout if settings.linear_dropout is None else settings.linear_dropout

        def network(layers: int, exponential: bool, dropout: float) -> CrossNetwork:
            made = nn.ModuleList(MaskedCross(length, first, settings.mask_norm) for _ in range(layers))
            return CrossNetwork(made, length, exponential, dropout, self.draws, shape.labels)

        self.exponential = network(settings.exponential, True, settings.dropout)
        self.linear = network(settings.linear, False, other)
        self.bias = nn.Parameter(torch.zeros(shape.labels))

    @property
    def output_bias(self) -> nn.Parameter:
        return self.bias

    def forward(self, dense: Tensor, embedded: Tensor) -> Tensor:
        vectors = self.only_vectors(embedded)
        fields = vectors if self.fields is None else self.fields(vectors, dense)
        x = torch.cat((fields[..., : self.first_half].flatten(1), fields[..., self.first_half :].flatten(1)), 1)
        return as_logits(0.5 * (self.exponential(x) + self.linear(x))) + self.bias

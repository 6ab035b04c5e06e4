"""xDeepFM: linear term, compressed interaction network (CIN), multi-layer perceptron.

J. Lian et al.: xDeepFM: Combining Explicit and Implicit Feature Interactions. KDD 2018, eq. 6-9; of each
layer but the last, half of the maps go on to the next layer and half to the logit, as in the authors' code.

A map of layer k is x^k_h = sum_ij W^h_ij (x^{k-1}_i * x^0_j), and the logit sees its sum over the D
components. CIN has no activation (the paper's choice), so for maps that only the logit sees, the sum can be
taken first: sum_d x^k_h = sum_ij W^h_ij <x^{k-1}_i, x^0_j>. That is a Gram matrix per row, D times less
work, and no tensor of size B H F D. In the first layer the products are symmetric: half of them suffice.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from recnas.baselines.base import Baseline, DeepSettings, InputShape, joined
from recnas.baselines.layers import DenseFields, FirstOrder, Mlp, as_logits


class XDeepFMSettings(DeepSettings):
    cin: tuple[int, ...] = Field((128, 128), min_length=1)  # maps per layer
    dense_fields: bool = False  # dense columns take part in the CIN

    @model_validator(mode="after")
    def _something_goes_on(self) -> XDeepFMSettings:
        if min(self.cin) < 1 or min(self.cin[:-1], default=2) < 2:
            raise ValueError("a layer before the last needs at least 2 maps: one to go on, one for the logit")
        return self


class Cin(nn.Module):
    """`[B, n, D]` to pooled maps `[B, sum of direct maps]`.

    Maps that go on are computed as `[maps, products] @ [products, D B]`: with the rows of data innermost,
    products of fields are products of long contiguous rows.
    """

    upper: Tensor

    def __init__(self, n: int, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.register_buffer("upper", torch.triu_indices(n, n), persistent=False)
        self.hidden = nn.ParameterList()  # [maps, products]: what goes on
        self.direct = nn.ParameterList()  # [maps, products]: what the logit sees
        self.widths: list[int] = []
        products = n * (n + 1) // 2
        for k, size in enumerate(sizes):
            going_on = size // 2 if k + 1 < len(sizes) else 0
            self.direct.append(_weight(size - going_on, products))
            self.widths.append(size - going_on)
            if going_on:
                self.hidden.append(_weight(going_on, products))
            products = going_on * n

    def forward(self, fields: Tensor) -> Tensor:
        batch, n, width = fields.shape
        first, second = self.upper
        across = fields.transpose(1, 2)
        gram = torch.bmm(fields, across).flatten(1).index_select(1, first * n + second)
        pooled = [F.linear(gram, self.direct[0])]
        if not self.hidden:
            return pooled[0]
        raw = fields.permute(1, 2, 0).reshape(n, width * batch)
        products = raw.index_select(0, first) * raw.index_select(0, second)
        for k, weight in enumerate(self.hidden):
            maps = weight @ products  # [maps, D B]
            by_row = maps.view(-1, width, batch).permute(2, 0, 1)
            pooled.append(F.linear(torch.bmm(by_row, across).flatten(1), self.direct[k + 1]))
            if k + 1 < len(self.hidden):
                products = (maps.unsqueeze(1) * raw).flatten(0, 1)
        return torch.cat(pooled, 1)


def _weight(maps: int, products: int) -> nn.Parameter:
    bound = math.sqrt(6 / (maps + products))
    return nn.Parameter(torch.empty(maps, products).uniform_(-bound, bound))


class XDeepFM(Baseline):
    first_order = True

    def __init__(self, shape: InputShape, settings: XDeepFMSettings) -> None:
        super().__init__(shape)
        self.first = FirstOrder(shape.n_dense, shape.labels)
        with_dense = settings.dense_fields and shape.n_dense > 0
        self.fields = DenseFields(shape.n_dense, shape.width) if with_dense else None
        self.cin = Cin(shape.n_sparse + shape.n_dense * with_dense, settings.cin)
        self.pool = nn.Linear(sum(self.cin.widths), shape.labels, bias=False)
        self.deep = Mlp(shape.flat, settings.hidden, self.draws, settings.dropout, settings.norm, labels=shape.labels)

    @property
    def output_bias(self) -> nn.Parameter:
        return self.first.bias

    def forward(self, dense: Tensor, embedded: Tensor) -> Tensor:
        vectors, weights = self.split(embedded)
        fields = vectors if self.fields is None else self.fields(vectors, dense)
        explicit = as_logits(self.pool(self.cin(fields)))
        return self.first(dense, weights) + explicit + self.deep(joined(vectors, dense))

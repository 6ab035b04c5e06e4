"""FiBiNET: fields reweighted by squeeze-and-excitation, bilinear interactions of all pairs, a perceptron.

T. Huang, Z. Zhang, J. Zhang: FiBiNET: Combining Feature Importance and Bilinear feature Interaction for
Click-Through Rate Prediction. RecSys 2019, eq. 3-9. The pair (i, j) gives (v_i W) * v_j, for the vectors as
they are and once more for the reweighted ones, with W common to both.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from recnas.baselines.base import Baseline, DeepSettings, InputShape
from recnas.baselines.layers import DenseFields, FirstOrder, Mlp, pairs


class FiBiNETSettings(DeepSettings):
    reduction: int = Field(3, ge=1)  # fields per unit of the squeeze
    bilinear: Literal["all", "each", "interaction"] = "all"  # one W, one per first field, one per pair
    dense_fields: bool = False  # dense columns are fields too


class FiBiNET(Baseline):
    left: Tensor
    right: Tensor
    first_order = True

    def __init__(self, shape: InputShape, settings: FiBiNETSettings) -> None:
        super().__init__(shape)
        with_dense = settings.dense_fields and shape.n_dense > 0
        self.fields = DenseFields(shape.n_dense, shape.width) if with_dense else None
        n, d = shape.n_sparse + shape.n_dense * with_dense, shape.width
        squeezed = max(1, n // settings.reduction)
        self.squeeze, self.excite = nn.Linear(n, squeezed, bias=False), nn.Linear(squeezed, n, bias=False)
        first, second = pairs(n)
        self.register_buffer("left", first, persistent=False)
        self.register_buffer("right", second, persistent=False)
        self.bilinear = settings.bilinear
        matrices = {"all": (), "each": (n,), "interaction": (len(first),)}[settings.bilinear]
        self.weight = nn.Parameter(torch.randn(*matrices, d, d) / d**0.5)
        self.first = FirstOrder(shape.n_dense, shape.labels)
        width = 2 * len(first) * d + shape.n_dense
        self.deep = Mlp(width, settings.hidden, self.draws, settings.dropout, settings.norm, labels=shape.labels)

    @property
    def output_bias(self) -> nn.Parameter:
        return self.first.bias

    def forward(self, dense: Tensor, embedded: Tensor) -> Tensor:
        vectors, weights = self.split(embedded)
        fields = vectors if self.fields is None else self.fields(vectors, dense)
        importance = torch.relu(self.excite(torch.relu(self.squeeze(fields.mean(2)))))  # [B, n]
        products = [self._pairs(x).flatten(1) for x in (fields, fields * importance.unsqueeze(2))]
        return self.first(dense, weights) + self.deep(torch.cat((*products, dense), 1))

    def _pairs(self, x: Tensor) -> Tensor:
        """`[B, n, D]` to `[B, pairs, D]`."""
        if self.bilinear == "all":
            left = (x @ self.weight).index_select(1, self.left)
        elif self.bilinear == "each":
            left = torch.bmm(x.transpose(0, 1), self.weight).index_select(0, self.left).transpose(0, 1)
        else:
            left = torch.bmm(x.transpose(0, 1).index_select(0, self.left), self.weight).transpose(0, 1)
        return left * x.index_select(1, self.right)

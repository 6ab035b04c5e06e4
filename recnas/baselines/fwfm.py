"""Field-weighted factorization machine: r_ij <v_i, v_j>, one strength per pair of fields.

J. Pan et al.: Field-weighted Factorization Machines for CTR Prediction in Display Advertising. WWW 2018,
eq. 5. The linear term is the paper's preferred one: <v_i, w_i> with one vector w_i per field (FwFM_FiLV).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recnas.baselines.base import Baseline, InputShape, ModelSettings
from recnas.baselines.layers import DenseFields, Factors


class FwFMSettings(ModelSettings):
    dense_fields: bool = True  # dense columns take part in the pairs


class FwFM(Baseline):
    start_scale = 0.1
    upper: Tensor

    def __init__(self, shape: InputShape, settings: FwFMSettings) -> None:
        super().__init__(shape)
        with_dense = settings.dense_fields and shape.n_dense > 0
        self.fields = DenseFields(shape.n_dense, shape.width, self.start_scale) if with_dense else None
        n = shape.n_sparse + shape.n_dense * with_dense
        self.strength = nn.Parameter(torch.ones(n * (n - 1) // 2))  # 1 is a plain factorization machine
        several = (shape.labels,) if shape.labels > 1 else ()
        self.linear = nn.Parameter(torch.randn(*several, n, shape.width) / (n * shape.width) ** 0.5)
        self.factors = Factors(shape.labels)
        self.bias = nn.Parameter(torch.zeros(shape.labels))
        self.register_buffer("upper", torch.triu_indices(n, n, offset=1), persistent=False)
        self.n = n

    @property
    def output_bias(self) -> nn.Parameter:
        return self.bias

    def forward(self, dense: Tensor, embedded: Tensor) -> Tensor:
        vectors = self.only_vectors(embedded)
        if self.fields is not None:
            vectors = self.fields(vectors, dense)
        # Sum over i < j of r_ij <v_i, v_j> = sum_j <v_j, (v R)_j> with R the upper triangle of strengths.
        first, second = self.upper
        strengths = vectors.new_zeros(self.n, self.n).index_put((first, second), self.strength)
        weighted = (vectors.transpose(1, 2) @ strengths).transpose(1, 2)
        if self.shape.labels > 1:
            return (
                self.factors((weighted * vectors).sum((1, 2)))
                + torch.einsum("bnd,lnd->bl", vectors, self.linear)
                + self.bias
            )
        return ((weighted + self.linear) * vectors).sum((1, 2)) + self.bias

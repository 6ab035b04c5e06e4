"""Factorization machine: a linear term and <v_i, v_j> for every pair of fields.

S. Rendle: Factorization Machines. ICDM 2010, eq. 1. Dense columns are fields too, x_i v_i, as there.
"""

from __future__ import annotations

from torch import Tensor, nn

from recnas.baselines.base import Baseline, InputShape, ModelSettings
from recnas.baselines.layers import DenseFields, Factors, FirstOrder, squares_of_sums


class FMSettings(ModelSettings):
    dense_fields: bool = True  # dense columns take part in the pairs


class FM(Baseline):
    first_order = True
    start_scale = 0.1

    def __init__(self, shape: InputShape, settings: FMSettings) -> None:
        super().__init__(shape)
        self.first = FirstOrder(shape.n_dense, shape.labels)
        self.fields = (
            DenseFields(shape.n_dense, shape.width, self.start_scale)
            if settings.dense_fields and shape.n_dense
            else None
        )
        self.factors = Factors(shape.labels)

    @property
    def output_bias(self) -> nn.Parameter:
        return self.first.bias

    def forward(self, dense: Tensor, embedded: Tensor) -> Tensor:
        vectors, weights = self.split(embedded)
        if self.fields is not None:
            vectors = self.fields(vectors, dense)
        return self.first(dense, weights) + self.factors(squares_of_sums(vectors))

"""DeepFM: a factorization machine and a multi-layer perceptron on the same vectors.

H. Guo et al.: DeepFM: A Factorization-Machine based Neural Network for CTR Prediction. IJCAI 2017, eq. 1-4.
"""

from __future__ import annotations

from torch import Tensor, nn

from recnas.baselines.base import Baseline, DeepSettings, InputShape, joined
from recnas.baselines.layers import DenseFields, FirstOrder, Mlp, squares_of_sums


class DeepFMSettings(DeepSettings):
    dense_fields: bool = True  # dense columns take part in the pairs


class DeepFM(Baseline):
    first_order = True
    start_scale = 0.3

    def __init__(self, shape: InputShape, settings: DeepFMSettings) -> None:
        super().__init__(shape)
        self.first = FirstOrder(shape.n_dense)
        self.fields = (
            DenseFields(shape.n_dense, shape.width, self.start_scale)
            if settings.dense_fields and shape.n_dense
            else None
        )
        self.deep = Mlp(shape.flat, settings.hidden, self.draws, settings.dropout, settings.norm)

    @property
    def output_bias(self) -> nn.Parameter:
        return self.first.bias

    def forward(self, dense: Tensor, embedded: Tensor) -> Tensor:
        vectors, weights = self.split(embedded)
        fields = vectors if self.fields is None else self.fields(vectors, dense)
        second = squares_of_sums(fields)
        return self.first(dense, weights) + second + self.deep(joined(vectors, dense))

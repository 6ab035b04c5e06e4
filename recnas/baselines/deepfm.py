"""DeepFM: a factorization machine and a multi-layer perceptron on the same vectors.

H. Guo et al.: DeepFM: A Factorization-Machine based Neural Network for CTR Prediction. IJCAI 2017, eq. 1-4.
"""

from __future__ import annotations

from torch import Tensor

from recnas.baselines.base import DeepSettings, InputShape, joined
from recnas.baselines.fm import FM, FMSettings
from recnas.baselines.layers import Mlp


class DeepFMSettings(FMSettings, DeepSettings):
    pass


class DeepFM(FM):
    start_scale = 0.3

    def __init__(self, shape: InputShape, settings: DeepFMSettings) -> None:
        super().__init__(shape, settings)
        self.deep = Mlp(shape.flat, settings.hidden, self.draws, settings.dropout, settings.norm, labels=shape.labels)

    def forward(self, dense: Tensor, embedded: Tensor) -> Tensor:
        vectors, _ = self.split(embedded)
        return super().forward(dense, embedded) + self.deep(joined(vectors, dense))

"""A multi-layer perceptron over all vectors and numbers of a row.

P. Covington, J. Adams, E. Sargin: Deep Neural Networks for YouTube Recommendations. RecSys 2016.
"""

from __future__ import annotations

from torch import Tensor, nn

from recnas.baselines.base import Baseline, DeepSettings, InputShape, joined
from recnas.baselines.layers import Mlp


class DNNSettings(DeepSettings):
    pass


class DNN(Baseline):
    def __init__(self, shape: InputShape, settings: DNNSettings) -> None:
        super().__init__(shape)
        self.deep = Mlp(shape.flat, settings.hidden, self.draws, settings.dropout, settings.norm, labels=shape.labels)

    @property
    def output_bias(self) -> nn.Parameter:
        return self.deep.output_bias

    def forward(self, dense: Tensor, embedded: Tensor) -> Tensor:
        return self.deep(joined(self.only_vectors(embedded), dense))

"""Wide & Deep: a linear model and a multi-layer perceptron, trained jointly.

H.-T. Cheng et al.: Wide & Deep Learning for Recommender Systems. DLRS 2016, eq. 3. The wide part holds the
raw ids; the paper's hand-picked crosses belong to its own app store and are left out, as is usual.
"""

from __future__ import annotations

from torch import Tensor, nn

from recnas.baselines.base import Baseline, DeepSettings, InputShape, joined
from recnas.baselines.layers import FirstOrder, Mlp


class WideDeepSettings(DeepSettings):
    pass


class WideDeep(Baseline):
    first_order = True

    def __init__(self, shape: InputShape, settings: WideDeepSettings) -> None:
        super().__init__(shape)
        self.wide = FirstOrder(shape.n_dense, shape.labels)
        self.deep = Mlp(shape.flat, settings.hidden, self.draws, settings.dropout, settings.norm, labels=shape.labels)

    @property
    def output_bias(self) -> nn.Parameter:
        return self.wide.bias

    def forward(self, dense: Tensor, embedded: Tensor) -> Tensor:
        vectors, weights = self.split(embedded)
        return self.wide(dense, weights) + self.deep(joined(vectors, dense))

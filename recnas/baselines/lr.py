"""Logistic regression: one weight per id and per dense column. The floor of every comparison.

M. Richardson, E. Dominowska, R. Ragno: Predicting Clicks. WWW 2007.
"""

from __future__ import annotations

from torch import Tensor, nn

from recnas.baselines.base import Baseline, InputShape, ModelSettings
from recnas.baselines.layers import FirstOrder


class LRSettings(ModelSettings):
    """Nothing to choose."""


class LR(Baseline):
    """Reads tables of width 1: no vectors, only weights."""

    vectors = False
    first_order = True

    def __init__(self, shape: InputShape, settings: LRSettings) -> None:
        super().__init__(shape._replace(width=0))
        self.first = FirstOrder(shape.n_dense, shape.labels)

    @property
    def output_bias(self) -> nn.Parameter:
        return self.first.bias

    def forward(self, dense: Tensor, embedded: Tensor) -> Tensor:
        return self.first(dense, self.split(embedded)[1])

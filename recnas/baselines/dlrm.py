"""DLRM: dense columns through a bottom perceptron, dot products of all pairs, a top perceptron.

M. Naumov et al.: Deep Learning Recommendation Model for Personalization and Recommendation Systems.
arXiv:1906.00091, 2019. Without dense columns there is no bottom part, only pairs of fields.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recnas.baselines.base import Baseline, DeepSettings, InputShape
from recnas.baselines.layers import Mlp, pairs


class DLRMSettings(DeepSettings):
    bottom: tuple[int, ...] = (256, 64)  # widths before the last, which is the embedding width


class DLRM(Baseline):
    pairs: Tensor

    def __init__(self, shape: InputShape, settings: DLRMSettings) -> None:
        super().__init__(shape)
        rest = settings.dropout, settings.norm
        self.bottom = (
            Mlp(shape.n_dense, (*settings.bottom, shape.width), self.draws, *rest, head=False)
            if shape.n_dense
            else None
        )
        n = shape.n_sparse + (self.bottom is not None)
        first, second = pairs(n)
        self.register_buffer("pairs", first * n + second, persistent=False)
        width = len(first) + (shape.width if self.bottom is not None else 0)
        self.top = Mlp(width, settings.hidden, self.draws, *rest)

    @property
    def output_bias(self) -> nn.Parameter:
        return self.top.output_bias

    def forward(self, dense: Tensor, embedded: Tensor) -> Tensor:
        vectors = self.only_vectors(embedded)
        if self.bottom is None:
            return self.top(self._dots(vectors))
        number = self.bottom(dense)
        everything = torch.cat((number.unsqueeze(1), vectors), 1)
        return self.top(torch.cat((number, self._dots(everything)), 1))

    def _dots(self, vectors: Tensor) -> Tensor:
        return torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1).index_select(1, self.pairs)

"""DLRM: dense columns through a bottom perceptron, dot products of all pairs, a top perceptron.

M. Naumov et al.: Deep Learning Recommendation Model for Personalization and Recommendation Systems.
arXiv:1906.00091, 2019. Without dense columns there is no bottom part, only pairs of fields. With `cat`, the
other interaction of the paper, the top perceptron sees the vectors themselves instead of their products.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from recnas.baselines.base import Baseline, DeepSettings, InputShape
from recnas.baselines.layers import Mlp, pairs


class DLRMSettings(DeepSettings):
    bottom: tuple[int, ...] = (256, 64)  # widths before the last, which is the embedding width
    bottom_dropout: float | None = Field(None, ge=0, lt=1)  # null: that of the top
    interaction: Literal["dot", "cat"] = "dot"  # what the top sees: products of all pairs, or the vectors


class DLRM(Baseline):
    pairs: Tensor

    def __init__(self, shape: InputShape, settings: DLRMSettings) -> None:
        super().__init__(shape)
        below = settings.dropout if settings.bottom_dropout is None else settings.bottom_dropout
        self.bottom = (
            Mlp(shape.n_dense, (*settings.bottom, shape.width), self.draws, below, settings.norm, head=False)
            if shape.n_dense
            else None
        )
        n = shape.n_sparse + (self.bottom is not None)
        first, second = pairs(n)
        self.register_buffer("pairs", first * n + second, persistent=False)
        self.cat = settings.interaction == "cat"
        dots = len(first) + (shape.width if self.bottom is not None else 0)
        width = n * shape.width if self.cat else dots
        self.top = Mlp(width, settings.hidden, self.draws, settings.dropout, settings.norm, labels=shape.labels)

    @property
    def output_bias(self) -> nn.Parameter:
        return self.top.output_bias

    def forward(self, dense: Tensor, embedded: Tensor) -> Tensor:
        vectors = self.only_vectors(embedded)
        if self.bottom is None:
            return self.top(vectors.flatten(1) if self.cat else self._dots(vectors))
        number = self.bottom(dense)
        everything = torch.cat((number.unsqueeze(1), vectors), 1)
        if self.cat:
            return self.top(everything.flatten(1))
        return self.top(torch.cat((number, self._dots(everything)), 1))

    def _dots(self, vectors: Tensor) -> Tensor:
        return torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1).index_select(1, self.pairs)

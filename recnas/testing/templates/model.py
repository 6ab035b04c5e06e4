"""A hand-crafted model of your own: `recnas compare --data DIR --models dlrm MINE --out RUN --plugin FILE`.

`forward(dense [B, I], embedded [B, F, D])` gives logits `[B]`. Tables, training, tuning, early stopping, prediction and
export are recnas's; recnas/baselines/ has more layers and 18 models to look at.
"""

import torch
from pydantic import Field
from torch import Tensor, nn

from recnas.baselines.base import Baseline, DeepSettings, InputShape, joined
from recnas.baselines.layers import Mlp
from recnas.baselines.zoo import DEEP, Entry, register


class MineSettings(DeepSettings):
    """Options of the model, besides `hidden`, `dropout` and `norm` of its perceptron."""

    width: int = Field(8, ge=1)  # of the vector that the fields are summed up to


class Mine(Baseline):
    """A perceptron over all vectors and numbers of a row, and over the gated sum of its vectors."""

    def __init__(self, shape: InputShape, settings: MineSettings) -> None:
        super().__init__(shape)
        self.gate = nn.Linear(shape.width, 1)
        self.sum = nn.Linear(shape.width, settings.width)
        self.deep = Mlp(shape.flat + settings.width, settings.hidden, self.draws, settings.dropout, settings.norm)

    @property
    def output_bias(self) -> nn.Parameter:
        return self.deep.output_bias

    def forward(self, dense: Tensor, embedded: Tensor) -> Tensor:
        vectors = self.only_vectors(embedded)
        pooled = (vectors * self.gate(vectors).sigmoid()).sum(1)
        return self.deep(torch.cat((joined(vectors, dense), self.sum(pooled)), 1))


# The last argument is what --tune may change besides how the model is trained.
register("MINE", Entry("Mine", Mine, MineSettings, {**DEEP, "width": (8, 16)}))

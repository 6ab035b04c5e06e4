"""What every hand-crafted model is: `forward(dense [B, I], embedded [B, F, W]) -> logits [B]`, of several labels `[B, L]`.

Embedding tables are no part of a network. A model that needs one weight per id (the linear term of LR, FM,
Wide&Deep ...) asks for a wider table instead: of each row the first D columns are the vector, and column D
is the id's own weight. So first-order weights are stored, looked up, trained and saved with the vectors, by
the same sparse update. They start at zero (`start_tables`), as a linear model's should.

    columns 0 .. D-1   the vector               (D = 0 for LR)
    column D           the first-order weight   (only if `first_order`; L columns of L labels)
    further columns    padding a backend may need; never read

Shape letters: B batch, I dense fields, F sparse fields, D embedding width, W width of a table row.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from recnas.baselines.layers import NormKind
from recnas.config import Settings
from recnas.data.schema import Schema
from recnas.model.dropout import Draws
from recnas.model.embeddings import Embeddings, FieldColumns


class InputShape(NamedTuple):
    """What a network is given: numbers of columns, and the embedding width D."""

    n_dense: int
    n_sparse: int
    width: int
    labels: int = 1  # L: how many logits a row has

    @classmethod
    def of(cls, schema: Schema, width: int) -> InputShape:
        return cls(schema.n_dense, schema.n_sparse, width, schema.n_labels)

    @property
    def flat(self) -> int:
        """Length of all vectors and numbers of a row behind each other."""
        return self.n_sparse * self.width + self.n_dense


class ModelSettings(Settings):
    """Options of a model; the learning rate and the tables' options belong to the training settings."""


class DeepSettings(ModelSettings):
    """Options of a model with a multi-layer perceptron."""

    hidden: tuple[int, ...] = Field((400, 400, 400), min_length=1)  # widths of the layers
    dropout: float = Field(0.0, ge=0, lt=1)  # after each layer
    norm: NormKind = "none"  # before each activation of the perceptron


class Baseline(nn.Module):
    """Base of the zoo. Subclasses build their layers after `super().__init__` and define `forward`.

    Attributes:
        vectors: whether the model reads vectors at all. first_order: whether it reads one weight per id.
        start_scale: factor on the vectors' initial values. Tables start at a scale that suits a layer of
            weights above them; a model that adds up products of vectors would start from loud noise.
    """

    vectors: ClassVar[bool] = True
    first_order: ClassVar[bool] = False
    start_scale: ClassVar[float] = 1.0

    def __init__(self, shape: InputShape) -> None:
        super().__init__()
        self.shape = shape
        self.draws = Draws()

    def table_width(self, width: int) -> int:
        """Columns of a table row when vectors are `width` wide."""
        return (width if self.vectors else 0) + self.first_order * self.shape.labels

    @property
    def field_columns(self) -> FieldColumns | None:
        """What each field's table holds, where they are not all as wide as `table_width` says."""
        return None

    @property
    def output_bias(self) -> nn.Parameter:
        """The parameter `[L]` that is added to every logit: training starts it at the click rate."""
        raise NotImplementedError

    def begin_step(self, step: int) -> None:
        """Dropout of a training step depends on seed and step alone, so a resumed training repeats it."""
        self.draws.begin(step)

    def split(self, embedded: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors `[B, F, D]` and first-order weights `[B, F]`, of several labels `[B, F, L]`, of table rows `[B, F, W]`."""
        labels = self.shape.labels
        width = self.table_width(self.shape.width) - labels
        parts = embedded.split([width, labels, embedded.shape[-1] - width - labels], dim=-1)
        return parts[0], parts[1].squeeze(-1) if labels == 1 else parts[1]

    def only_vectors(self, embedded: Tensor) -> Tensor:
        width = self.shape.width
        return embedded if embedded.shape[-1] == width else embedded[..., :width]


def start_layers(network: nn.Module) -> None:
    """Draw the layers' weights as those of searched networks are drawn and as published boards do: Xavier's variance,
    biases at zero. torch's own start has a third of the variance or less, and ended .0007 of AUC lower on Frappe_x1."""
    for module in network.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_normal_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


@torch.no_grad()
def start_tables(embeddings: Embeddings, network: nn.Module, width: int) -> None:
    """Make new tables start as the network wants: first-order weights (and padding) at zero, vectors scaled.

    `network` is any that has `table_width`, `first_order` and `start_scale`; tables for others stay as they are.
    """
    wants: Any = network
    if not hasattr(wants, "table_width"):
        return
    vectors = wants.table_width(width) - wants.first_order * wants.shape.labels
    for first, piece in embeddings.pieces():
        until = max(0, vectors - first)
        piece[:, until:].zero_()
        if wants.start_scale != 1:
            piece[:, :until].mul_(wants.start_scale)


def joined(vectors: Tensor, dense: Tensor) -> Tensor:
    """`[B, F, D]` and `[B, I]` as one `[B, F D + I]`."""
    flat = vectors.flatten(1)
    return torch.cat((flat, dense), 1) if dense.shape[1] else flat

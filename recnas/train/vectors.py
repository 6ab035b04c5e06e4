"""Tables that begin with pre-trained vectors, and those of their rows that training leaves as they are."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from recnas.data.prepared import PreparedData
from recnas.data.schema import Schema
from recnas.errors import ConfigError
from recnas.model.embeddings import Embeddings
from recnas.model.embeddings.frozen import FrozenRows
from recnas.model.embeddings.narrow import NarrowEmbeddings
from recnas.train.distributed import current_ranks
from recnas.train.settings import TrainSettings


class ReadsTables(Protocol):
    """A hand-crafted or searched network, or a supernet."""

    shape: Any
    first_order: Any

    def table_width(self, width: int) -> int: ...


@torch.no_grad()
def use_vectors(embeddings: Embeddings, data: PreparedData, network: Any, settings: TrainSettings) -> None:
    """Write the vectors that the data bring into new tables, and freeze them where they are not to be trained.

    Ids without a vector, unknown and missing ones among them, stay as they were drawn and are trained; so is the weight that an id
    has of its own beside its vector.
    """
    how = settings.embeddings.vectors
    if not data.vectors or how == "off":
        return
    if current_ranks().several:
        raise ConfigError(
            "pre-trained vectors are for tables in one process, and there are several.",
            "Train in one process, or without them: embeddings.vectors=off",
        )
    if settings.embeddings.hash_rows is not None:
        raise ConfigError(
            "embeddings.hash_rows lets several values share a row, and pre-trained vectors are of one value each.",
            "Use embeddings.cap, or embeddings.vectors=off",
        )
    shape = network.shape
    own = int(network.first_order) * shape.labels
    width = network.table_width(shape.width) - own
    frozen = FrozenRows(embeddings)
    for name, about in data.vectors.items():
        table = embeddings.weights.get(name)
        if table is None or width == 0:  # a field without a table, a model that reads no vectors
            continue
        kept = width
        if isinstance(embeddings, NarrowEmbeddings):
            kept = embeddings.layout.columns[[field.name for field in data.schema.sparse].index(name)] - own
        rows, basis = data.read_vectors(name)
        values = _fitted(torch.from_numpy(rows[: len(table)]), torch.from_numpy(basis), width)[:, :kept]
        known = ~values.isnan().any(1).to(table.device)
        table[known, :kept] = values.to(table.device)[known]
        if how == "frozen" or (how == "as-prepared" and not about["train"]):
            _check_single(data.schema, name)
            frozen.add(name, known, kept)
    embeddings.frozen = frozen if frozen else None


def _check_single(schema: Schema, name: str) -> None:
    """Gradients of frozen rows are left out where a field has one of them a row."""
    several = [bag.name for bag in schema.bags if bag.table == name]
    if several:
        raise ConfigError(
            f"the vectors of {name} cannot be frozen: {', '.join(several)}, with several values in a cell, reads their table.",
            "Train them: embeddings.vectors=trained",
        )


def _fitted(rows: Tensor, basis: Tensor, width: int) -> Tensor:
    """Vectors `[n, V]` as `[n, D]`: along the D strongest directions, or filled up with zeros."""
    given = rows.shape[1]
    if given > width:
        return (rows.double() @ basis[:, :width].double()).float()
    filled = torch.zeros(len(rows), width)
    filled[:, :given] = rows
    return filled

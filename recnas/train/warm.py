"""A training that goes on from the weights of another: the network's, and of every table the rows it had.

Ids keep their meaning where data were prepared with `--like` or `--extend`, so a row of a table is copied to its place; rows
behind those, of values that are new, stay as they were drawn. The optimizer starts anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from recnas.errors import ConfigError
from recnas.model.embeddings import Embeddings


@dataclass(frozen=True)
class WarmStart:
    """Weights by name: `network/...` and `embeddings/weights/COLUMN`, as checkpoints hold them.

    Attributes:
        facts: which training they are of, for the manifest of the one that goes on.
    """

    tensors: Mapping[str, Tensor]
    facts: dict[str, Any]

    @torch.no_grad()
    def fill(self, network: nn.Module, embeddings: Embeddings) -> None:
        for name, mine in {**dict(network.named_parameters()), **dict(network.named_buffers())}.items():
            saved = self.tensors.get(f"network/{name}")
            if saved is None or saved.shape != mine.shape:
                raise self._other(name, mine, saved)
            mine.copy_(saved)
        for name, table in embeddings.state_dict()["weights"].items():
            saved = self.tensors.get(f"embeddings/weights/{name}")
            if saved is None or saved.shape[1] != table.shape[1] or len(saved) > len(table):
                raise self._other(f"the table of {name}", table, saved)
            table[: len(saved)].copy_(saved)

    def _other(self, what: str, mine: Tensor, saved: Tensor | None) -> ConfigError:
        theirs = "nothing of that name" if saved is None else f"{list(saved.shape)}"
        return ConfigError(
            f"{what} is {list(mine.shape)} here, and {self.facts['run']} has {theirs}: weights of another network or of other "
            "tables cannot be taken over.",
            "Leave out the architecture and the settings that change sizes (embeddings.width, embeddings.cap, layernorm): "
            "without them they are those of the run.",
        )

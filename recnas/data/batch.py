"""One mini-batch, the only thing a network ever receives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import torch


@dataclass(frozen=True)
class Batch:
    """Rows of a prepared data set.

    dense: `[B, I]` float32, transformed. ids: `[B, F]` int64, each below its table's rows: never
    floats, which are exact only up to 2^24. Where fields have several values, `[B, n_ids]` instead: see
    `Schema.id_columns` and `data.bags`. label: `[B]` float32, 0 or 1; of several labels `[B, L]`. weight: `[B]`
    float32, or None if all rows count alike. label_weights: `[L]` float32, what the loss of each label counts; None
    for one.
    """

    dense: torch.Tensor
    ids: torch.Tensor
    label: torch.Tensor
    weight: torch.Tensor | None = None
    label_weights: torch.Tensor | None = None

    def __len__(self) -> int:
        return self.label.shape[0]

    def tensors(self) -> list[torch.Tensor]:
        every = (self.dense, self.ids, self.label, self.weight, self.label_weights)
        return [tensor for tensor in every if tensor is not None]

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Self:
        return self._each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        return self._each(torch.Tensor.pin_memory)

    def _each(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Self:
        return replace(
            self,
            dense=change(self.dense),
            ids=change(self.ids),
            label=change(self.label),
            weight=None if self.weight is None else change(self.weight),
            label_weights=None if self.label_weights is None else change(self.label_weights),
        )

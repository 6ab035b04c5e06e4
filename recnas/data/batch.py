"""One mini-batch, the only thing a network ever receives."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Batch:
    """Rows of a prepared data set.

    dense: `[B, I]` float32, transformed. ids: `[B, F]` int64, each below its table's rows: never
    floats, which are exact only up to 2^24. label: `[B]` float32, 0 or 1.
    """

    dense: torch.Tensor
    ids: torch.Tensor
    label: torch.Tensor

    def __len__(self) -> int:
        return self.label.shape[0]

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Batch:
        return Batch(
            self.dense.to(device, non_blocking=non_blocking),
            self.ids.to(device, non_blocking=non_blocking),
            self.label.to(device, non_blocking=non_blocking),
        )

    def pin_memory(self) -> Batch:
        return Batch(self.dense.pin_memory(), self.ids.pin_memory(), self.label.pin_memory())

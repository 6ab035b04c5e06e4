"""What a proxy needs to know about a network, CTR or vision alike.

A network is parameters by name and a function of them; the tensors in `params` are leaves that require
gradients and may be views into shared weights. `forward` must be a pure function: no buffers change, no
random numbers are drawn, and batch statistics are always those of the batch at hand. It reports its layers
to `recnas.model.observe` when somebody listens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class ScoringBatch:
    """One batch as every proxy reads it: real-valued inputs (tables already looked up), and labels.

    `labels` are clicks (float, `[B]`) or classes (int64, `[B]`); `weights` (`[B]`) say how much an example counts in
    the loss, None that all count alike.
    """

    inputs: tuple[Tensor, ...]
    labels: Tensor
    weights: Tensor | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device | str) -> ScoringBatch:
        weights = None if self.weights is None else self.weights.to(device)
        return ScoringBatch(tuple(x.to(device) for x in self.inputs), self.labels.to(device), weights)


class ScoredNetwork(Protocol):
    """Parameters by name and a pure function of them."""

    @property
    def params(self) -> Mapping[str, Tensor]: ...

    def forward(self, params: Mapping[str, Tensor], inputs: Sequence[Tensor]) -> Tensor:
        """Logits: `[B]` for clicks, `[B, C]` for classes."""
        ...


def sample_losses(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of each example, `[B]`."""
    if logits.dim() == 1:
        return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="none")
    return F.cross_entropy(logits, labels, reduction="none")


def mean_loss(logits: Tensor, batch: ScoringBatch) -> Tensor:
    """Mean over the examples, or over their weights; 0 where no example has any weight."""
    losses = sample_losses(logits, batch.labels)
    if batch.weights is None:
        return losses.mean()
    weights = batch.weights.to(losses.dtype)
    return (losses * weights).sum() / weights.sum().clamp_min(torch.finfo(losses.dtype).tiny)


def true_logits(logits: Tensor, labels: Tensor) -> Tensor:
    """The logit of the true class of each example, `[B]`; for clicks, the logit with the sign of the label."""
    if logits.dim() == 1:
        return torch.where(labels > 0.5, logits, -logits)
    return logits.gather(1, labels.unsqueeze(1)).squeeze(1)

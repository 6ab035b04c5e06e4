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

    `labels` are clicks (float, `[B]`), several labels (float, `[B, L]`) or classes (int64, `[B]`); `weights` (`[B]`) say
    how much an example counts in the loss, None that all count alike; `label_weights` (`[L]`) how much each label does.
    """

    inputs: tuple[Tensor, ...]
    labels: Tensor
    weights: Tensor | None = None
    label_weights: Tensor | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device | str) -> ScoringBatch:
        weights, label_weights = (None if one is None else one.to(device) for one in (self.weights, self.label_weights))
        return ScoringBatch(tuple(x.to(device) for x in self.inputs), self.labels.to(device), weights, label_weights)

    @property
    def classes(self) -> Tensor:
        """Which examples are alike, `[B]`: of several labels those with the same."""
        if self.labels.dim() == 1:
            return self.labels
        places = torch.arange(self.labels.shape[1], dtype=self.labels.dtype, device=self.labels.device)
        return self.labels @ 2.0**places


class ScoredNetwork(Protocol):
    """Parameters by name and a pure function of them."""

    @property
    def params(self) -> Mapping[str, Tensor]: ...

    def forward(self, params: Mapping[str, Tensor], inputs: Sequence[Tensor]) -> Tensor:
        """Logits: `[B]` for clicks, `[B, L]` for several labels, `[B, C]` for classes."""
        ...


def sample_losses(logits: Tensor, labels: Tensor, label_weights: Tensor | None = None) -> Tensor:
    """Cross-entropy of each example, `[B]`; of several labels the weighted sum."""
    if labels.dim() == 2:
        losses = F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="none")
        return losses.sum(1) if label_weights is None else losses @ label_weights.to(logits.dtype)
    if logits.dim() == 1:
        return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="none")
    return F.cross_entropy(logits, labels, reduction="none")


def mean_loss(logits: Tensor, batch: ScoringBatch) -> Tensor:
    """Mean over the examples, or over their weights; 0 where no example has any weight."""
    losses = sample_losses(logits, batch.labels, batch.label_weights)
    if batch.weights is None:
        return losses.mean()
    weights = batch.weights.to(losses.dtype)
    return (losses * weights).sum() / weights.sum().clamp_min(torch.finfo(losses.dtype).tiny)


def true_logits(logits: Tensor, labels: Tensor, label_weights: Tensor | None = None) -> Tensor:
    """The logit of the true class of each example, `[B]`; for clicks, the logit with the sign of the label, of several
    labels the weighted sum of those."""
    if labels.dim() == 2:
        signed = torch.where(labels > 0.5, logits, -logits)
        return signed.sum(1) if label_weights is None else signed @ label_weights.to(logits.dtype)
    if logits.dim() == 1:
        return torch.where(labels > 0.5, logits, -logits)
    return logits.gather(1, labels.unsqueeze(1)).squeeze(1)

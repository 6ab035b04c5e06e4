"""The loss of click models: binary cross entropy, a mean over rows or over their weights."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def click_loss(
    logits: Tensor, label: Tensor, weight: Tensor | None = None, label_weights: Tensor | None = None
) -> Tensor:
    """Mean loss of `logits [B]`; with `weight [B]`, sum(w l) / sum(w), and 0 where no row has any weight.

    Of several labels, `[B, L]`, a row's loss is the sum of theirs, each times its `label_weights [L]`.
    """
    if label_weights is not None and weight is None:
        return _row_losses(logits, label, label_weights).mean()
    if weight is None:
        return F.binary_cross_entropy_with_logits(logits, label)
    return click_loss_sum(logits, label, weight, label_weights) / weight.sum().clamp_min(torch.finfo(weight.dtype).tiny)


def click_loss_sum(
    logits: Tensor, label: Tensor, weight: Tensor | None = None, label_weights: Tensor | None = None
) -> Tensor:
    """The sum that `click_loss` divides, for processes that each have a part of the rows."""
    if label_weights is not None:
        losses = _row_losses(logits, label, label_weights)
        return (losses if weight is None else losses * weight).sum()
    return F.binary_cross_entropy_with_logits(logits, label, weight, reduction="sum")


def _row_losses(logits: Tensor, label: Tensor, label_weights: Tensor) -> Tensor:
    """`[B]` of `[B, L]`."""
    return F.binary_cross_entropy_with_logits(logits, label, reduction="none") @ label_weights

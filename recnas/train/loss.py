"""The loss of click models: binary cross entropy, a mean over rows or over their weights."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def click_loss(logits: Tensor, label: Tensor, weight: Tensor | None = None) -> Tensor:
    """Mean loss of `logits [B]`; with `weight [B]`, sum(w l) / sum(w), and 0 where no row has any weight."""
    if weight is None:
        return F.binary_cross_entropy_with_logits(logits, label)
    return click_loss_sum(logits, label, weight) / weight.sum().clamp_min(torch.finfo(weight.dtype).tiny)


def click_loss_sum(logits: Tensor, label: Tensor, weight: Tensor | None = None) -> Tensor:
    """The sum that `click_loss` divides, for processes that each have a part of the rows."""
    return F.binary_cross_entropy_with_logits(logits, label, weight, reduction="sum")

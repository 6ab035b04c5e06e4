"""The figure NASI climbs: T(A), the squared norm of a batch's gradient, and its own gradient by alpha.

T depends on alpha through a Gumbel straight-through sample: the forward pass runs the drawn architecture, and
derivatives are those of the softmax (Jang, Gu and Poole, 2017). As T is made of a gradient already, its
derivative is of second order. Weights stay as they were drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from recnas.model.cell_supernet import CellSupernet, Gates

Batch = tuple[Tensor, Tensor]  # images, labels


def straight_through(alpha: Tensor, noise: Tensor, temperature: float = 1.0) -> Tensor:
    """One-hot of the greatest `alpha + noise`, with the derivative of their softmax."""
    logits = alpha + noise
    soft = (logits / temperature).softmax(0)
    hard = torch.zeros_like(soft)
    hard[logits.argmax()] = 1.0
    return hard + (soft - soft.detach())


def trace(supernet: CellSupernet, gates: Gates, batch: Batch, differentiable: bool = False) -> Tensor:
    """T under any gates."""
    images, labels = batch
    params = supernet.params
    loss = F.cross_entropy(supernet(params, gates, images), labels)
    found = torch.autograd.grad(loss, list(params.values()), create_graph=differentiable, allow_unused=True)
    parts = [gradient.square().sum() for gradient in found if gradient is not None]
    return torch.stack(parts).sum()


def trace_gradient(
    supernet: CellSupernet, noise: Sequence[np.ndarray], batch: Batch, temperature: float = 1.0
) -> tuple[float, np.ndarray]:
    """T of the architecture that `noise` draws at alpha = 0, and dT / d alpha, one decision after the other."""
    dtype = batch[0].dtype
    alphas = [torch.zeros(len(part), dtype=dtype, requires_grad=True) for part in noise]
    names = [decision.name for decision in supernet.plan.decisions]
    picks = {
        name: straight_through(alpha, torch.as_tensor(part, dtype=dtype), temperature)
        for name, alpha, part in zip(names, alphas, noise, strict=True)
    }
    value = trace(supernet, supernet.plan.gates(picks), batch, differentiable=True)
    if not value.requires_grad:  # nothing that can be chosen reaches the logits
        return value.item(), np.zeros(sum(len(part) for part in noise))
    found = torch.autograd.grad(value, alphas, allow_unused=True)
    flat = [torch.zeros_like(alpha) if gradient is None else gradient for alpha, gradient in zip(alphas, found)]
    return value.item(), torch.cat(flat).double().numpy()

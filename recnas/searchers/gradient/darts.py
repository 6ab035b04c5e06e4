"""DARTS: weights and the mixture of operations trained in turns, the mixture on images the weights do not see.

Liu, Simonyan and Yang, "DARTS: Differentiable Architecture Search" (2019). The gradient by alpha is

    first order    that of L_valid(w, alpha)
    second order   that of L_valid(w', alpha) with w' = w - xi grad_w L_train(w, alpha), equation 7:
                   grad_alpha L_valid(w', alpha) - xi (d^2 L_train / d alpha d w) grad_w' L_valid(w', alpha)

The product with the second derivatives is a difference of two gradients, as published (`hessian="difference"`,
equation 8), or exact by differentiating twice. w' is the plain step of the equation; momentum and weight decay
are left to the step that the weights really take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from recnas.searchers.gradient.settings import Hessian

Tensors = Mapping[str, Tensor]
Loss = Callable[[Tensors, Tensors], Tensor]  # of (weights, alphas)
REACH = 0.01  # as published


def alpha_gradient(
    train_loss: Loss,
    valid_loss: Loss,
    weights: Tensors,
    alphas: Tensors,
    xi: float,
    order: int = 2,
    hessian: Hessian = "difference",
    reach: float = REACH,
) -> tuple[dict[str, Tensor], float]:
    """The gradient by alpha, and the validation loss under the weights it was taken at; nothing is changed.

    Args:
        train_loss, valid_loss: pure functions of (weights, alphas), each on its own batch.
        weights, alphas: where; neither needs to be a leaf.
        xi: length of the step to w'; without effect at the first order.
        reach: how far to each side the difference looks. It crosses kinks of ReLUs, so that on small networks the
            published 0.01 can be far from the derivative.
    """
    weights, alphas = _leaves(weights), _leaves(alphas)
    if order == 1:
        loss = valid_loss({name: leaf.detach() for name, leaf in weights.items()}, alphas)
        return _gradient(loss, alphas), loss.item()
    step = _gradient(train_loss(weights, {name: leaf.detach() for name, leaf in alphas.items()}), weights)
    ahead = _leaves({name: leaf - xi * step[name] for name, leaf in weights.items()})
    loss = valid_loss(ahead, alphas)
    both = _gradient(
        loss, {f"w {name}": leaf for name, leaf in ahead.items()} | {f"a {name}": leaf for name, leaf in alphas.items()}
    )
    vector = {name: both[f"w {name}"] for name in weights}
    if hessian == "exact":
        product = _exact(train_loss, weights, alphas, vector)
    else:
        product = _difference(train_loss, weights, alphas, vector, reach)
    return {name: both[f"a {name}"] - xi * product[name] for name in alphas}, loss.item()


def _exact(train_loss: Loss, weights: Tensors, alphas: Tensors, vector: Tensors) -> dict[str, Tensor]:
    loss = train_loss(weights, alphas)
    found = torch.autograd.grad(loss, list(weights.values()), create_graph=True, allow_unused=True)
    parts = [(gradient * vector[name]).sum() for name, gradient in zip(weights, found) if gradient is not None]
    return _gradient(torch.stack(parts).sum(), alphas)


def _difference(
    train_loss: Loss, weights: Tensors, alphas: Tensors, vector: Tensors, reach: float
) -> dict[str, Tensor]:
    """Equation 8: gradients by alpha at two points along the vector, `reach` to each side."""
    norm = torch.stack([part.square().sum() for part in vector.values()]).sum().sqrt().item()
    if norm == 0:
        return {name: torch.zeros_like(leaf) for name, leaf in alphas.items()}
    size = reach / norm
    ends = []
    for sign in (1, -1):
        moved = {name: (leaf + sign * size * vector[name]).detach() for name, leaf in weights.items()}
        ends.append(_gradient(train_loss(moved, alphas), alphas))
    return {name: (ends[0][name] - ends[1][name]) / (2 * size) for name in alphas}


def _leaves(tensors: Tensors) -> dict[str, Tensor]:
    return {name: tensor.detach().requires_grad_() for name, tensor in tensors.items()}


def _gradient(loss: Tensor, by: Tensors) -> dict[str, Tensor]:
    """By name; zeros for what the loss does not depend on."""
    found = torch.autograd.grad(loss, list(by.values()), allow_unused=True)
    return {name: torch.zeros_like(leaf) if part is None else part for (name, leaf), part in zip(by.items(), found)}

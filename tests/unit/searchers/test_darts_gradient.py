"""DARTS's gradients by alpha against differences of the function they are said to be gradients of."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from recnas.model.supernets.supernet import build_supernet
from recnas.searchers.gradient.darts import alpha_gradient

W, A, XI = np.array([0.3, -1.2, 0.7]), np.array([0.5, 0.9, -0.4]), 0.3


def train_loss(weights, alphas):
    w, a = weights["w"], alphas["a"]
    return torch.sin(w * a).sum() + 0.5 * (w**2).sum()


def valid_loss(weights, alphas):
    w, a = weights["w"], alphas["a"]
    return (torch.cos(w) * a**2).sum() + (w[0] * a[1])


def unrolled(a: np.ndarray, xi: float) -> float:
    """L_valid after one step on L_train, the step's gradient written out by hand."""
    w = W - xi * (a * np.cos(W * a) + W)
    return float((np.cos(w) * a**2).sum() + w[0] * a[1])


def differences(function, at: np.ndarray, step: float = 1e-6) -> np.ndarray:
    found = np.zeros_like(at)
    for place in range(len(at)):
        move = np.zeros_like(at)
        move[place] = step
        found[place] = (function(at + move) - function(at - move)) / (2 * step)
    return found


def gradient(order: int, hessian: str = "exact", xi: float = XI) -> tuple[np.ndarray, float]:
    weights, alphas = {"w": torch.from_numpy(W)}, {"a": torch.from_numpy(A)}
    found, loss = alpha_gradient(train_loss, valid_loss, weights, alphas, xi, order, hessian)  # type: ignore[arg-type]
    return found["a"].numpy(), loss


def test_second_order_is_the_gradient_of_the_unrolled_step():
    found, loss = gradient(2)
    np.testing.assert_allclose(found, differences(lambda a: unrolled(a, XI), A), rtol=1e-7)
    assert loss == pytest.approx(unrolled(A, XI))
    np.testing.assert_allclose(gradient(2, "difference")[0], found, rtol=1e-3)


def test_first_order_is_that_of_a_step_of_no_length():
    found, loss = gradient(1)
    np.testing.assert_allclose(found, differences(lambda a: unrolled(a, 0.0), A), rtol=1e-7)
    assert loss == pytest.approx(unrolled(A, 0.0))
    np.testing.assert_allclose(gradient(2, xi=0.0)[0], found)
    assert np.abs(gradient(2)[0] - found).max() > 0.05, "the step matters here"


@pytest.mark.parametrize(
    ("name", "sizes"), [("mlp", {"layers": 4, "width": 5}), ("nasbench201", {"channels": 2, "cells": 1})]
)
def test_on_a_supernet(name, sizes):
    """Second order on real mixtures: nothing is changed, and the gradient is that of the unrolled step."""
    supernet = build_supernet(name, classes=3, image=4, seed=0, **sizes).double()
    rng = np.random.default_rng(0)
    batches = [
        (torch.from_numpy(rng.standard_normal((6, 3, 4, 4))), torch.from_numpy(rng.integers(3, size=6)))
        for _ in range(2)
    ]
    alphas = {d.name: torch.from_numpy(rng.standard_normal(d.size)) for d in supernet.plan.relaxed}
    before = {n: p.detach().clone() for n, p in supernet.params.items()}

    def loss_on(number):
        def loss(weights, alphas):
            gates = supernet.plan.relaxed_gates({n: a.softmax(0) for n, a in alphas.items()})
            return F.cross_entropy(supernet(weights, gates, batches[number][0]), batches[number][1])

        return loss

    found, _ = alpha_gradient(loss_on(0), loss_on(1), supernet.params, alphas, 0.05, 2, "exact")
    near, _ = alpha_gradient(loss_on(0), loss_on(1), supernet.params, alphas, 0.05, 2, "difference", reach=1e-6)
    assert all(torch.equal(before[n], p) for n, p in supernet.params.items())

    def after_a_step(flat: np.ndarray) -> float:
        at, moved = 0, {}
        for n, a in alphas.items():
            moved[n] = torch.from_numpy(flat[at : at + len(a)])
            at += len(a)
        weights = {n: p.detach().clone().requires_grad_() for n, p in supernet.params.items()}
        step = torch.autograd.grad(loss_on(0)(weights, moved), list(weights.values()), allow_unused=True)
        ahead = {n: w.detach() if g is None else (w - 0.05 * g).detach() for (n, w), g in zip(weights.items(), step)}
        return loss_on(1)(ahead, moved).item()

    flat = np.concatenate([a.numpy() for a in alphas.values()])
    mine, close = (np.concatenate([part[n].numpy() for n in alphas]) for part in (found, near))
    np.testing.assert_allclose(mine, differences(after_a_step, flat, 1e-5), rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(close, mine, rtol=1e-3, atol=1e-6)

"""Dropout: the share that is dropped, what is kept, and that it depends on seed and step alone."""

from __future__ import annotations

import pytest
import torch

from recnas.model.dropout import Draws, Dropout


def dropped(share: float, shape: tuple[int, ...] = (500, 401), seed: int = 1, step: int = 0) -> torch.Tensor:
    draws = Draws(seed)
    draws.begin(step)
    return Dropout(share, draws)(torch.ones(shape))


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.9])
def test_the_share_is_dropped_everywhere_alike_and_the_mean_stays(share: float):
    y = dropped(share)
    n = y.numel()
    zeros = int((y == 0).sum())
    assert abs(zeros - share * n) < 5 * (share * (1 - share) * n) ** 0.5
    assert y[y != 0].unique().tolist() == pytest.approx([1 / (1 - share)], rel=1e-4)
    # Four numbers come from one draw: none of the four places may be special, nor may neighbours move together.
    flat = (y.flatten()[: n // 4 * 4] == 0).float().view(-1, 4)
    spread = (share * (1 - share) / len(flat)) ** 0.5
    assert (flat.mean(0) - share).abs().max() < 5 * spread
    pairs = torch.stack([flat[:, i] * flat[:, j] for i in range(4) for j in range(i)]).mean(1)
    assert (pairs - share**2).abs().max() < 5 * (share**2 / len(flat)) ** 0.5


def test_seed_and_step_decide_and_calls_of_one_step_differ():
    assert torch.equal(dropped(0.3), dropped(0.3))
    assert not torch.equal(dropped(0.3), dropped(0.3, step=1))
    assert not torch.equal(dropped(0.3), dropped(0.3, seed=2))
    draws = Draws(1)
    draws.begin(0)
    layer = Dropout(0.3, draws)
    assert not torch.equal(layer(torch.ones(50, 3)), layer(torch.ones(50, 3)))


def test_gradients_pass_where_values_do_and_evaluation_drops_nothing():
    x = torch.randn(64, 33, requires_grad=True)
    layer = Dropout(0.4, Draws(3))
    y = layer(x)
    y.sum().backward()
    assert torch.equal(x.grad == 0, y == 0)
    assert layer.eval()(x) is x

"""Measuring how long networks take leaves nothing behind that a training stumbles over."""

from __future__ import annotations

import torch

from recnas.baselines.base import InputShape
from recnas.baselines.zoo import build
from recnas.model import kernels
from recnas.train.latency import answer_times


def test_a_network_can_be_trained_after_it_was_timed():
    kernels._triangle.cache_clear()  # what it keeps is made while the network is timed
    network = build("dlrm", InputShape(3, 4, 8), {})
    times = answer_times(network, 3, 4, 8, 0.0, 2, (1, 4))
    assert {size: len(some) for size, some in times.items()} == {1: 2, 4: 2}
    network.train()(torch.rand(4, 3), torch.rand(4, 4, 8).requires_grad_()).sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())

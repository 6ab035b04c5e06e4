"""The second device itself: it must catch what a GPU would, or what is proven with it means nothing."""

from __future__ import annotations

import pytest
import torch

from tests.unit.device.second import SecondTensor, second_device


def test_it_computes_what_the_cpu_computes_gradients_included():
    weight, x = torch.randn(4, 3), torch.randn(5, 3)
    mine = weight.clone().requires_grad_()
    (x @ mine.t()).relu().square().sum().backward()
    with second_device() as device:
        there = weight.to(device.name).requires_grad_()
        (x.to(device.name) @ there.t()).relu().square().sum().backward()
        assert isinstance(there.grad, SecondTensor)
        assert there.grad.device == device.name
        assert torch.equal(there.grad.inner, mine.grad)


def test_views_share_memory_and_modules_move():
    with second_device() as device:
        whole = torch.zeros(3, 3, device=device.name)
        whole[1:, 1:].add_(1)
        assert float(whole.sum()) == 4
        network = torch.nn.Linear(3, 2).to(device.name)
        assert isinstance(network(whole), SecondTensor)


@pytest.mark.parametrize(
    "mix",
    [
        lambda here, there: here + there,
        lambda here, there: there @ here,
        lambda here, there: torch.stack([here.norm(), there.norm()]),
        lambda here, there: there.index_select(0, torch.tensor([0])),
        lambda here, there: there.normal_(generator=torch.Generator().manual_seed(0)),
        lambda here, there: there.numpy(),
    ],
)
def test_it_refuses_what_a_gpu_refuses(mix):
    here = torch.ones(2, 2)
    with second_device() as device:
        there = here.to(device.name)
        with pytest.raises((RuntimeError, TypeError)):
            mix(here, there)


@pytest.mark.parametrize(
    ("read", "name"),
    [
        (lambda x: float(x.sum()), "_local_scalar_dense"),
        (lambda x: bool((x > 0).any()), "_local_scalar_dense"),
        (lambda x: x.cpu(), "_to_copy"),
        (lambda x: torch.empty(2, 2).copy_(x), "copy_"),
        (lambda x: x[x > 0], "index"),
        (lambda x: x.unique(), "_unique2"),
        (lambda x: x.tolist(), "_to_copy"),
    ],
)
def test_it_notes_what_makes_the_host_wait(read, name):
    with second_device() as device:
        x = torch.ones(2, 2, device=device.name)
        assert not device.reads
        read(x)
        assert [one.split(" at ")[0] for one in device.reads] == [name]


def test_a_generator_of_the_device_draws_there():
    with second_device() as device:
        x = torch.empty(3, device=device.name).normal_(generator=torch.Generator(device.name).manual_seed(3))
        assert float(x.abs().sum()) > 0

"""Optimizers on slices: equal to torch's on whole parameters, silent outside the slices."""

from __future__ import annotations

import copy

import pytest
import torch
from numpy.random import default_rng

from recnas.errors import RunError
from recnas.model.nasrec.subnet import Subnet
from recnas.model.nasrec.supernet import Supernet
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.layers import NetShape
from recnas.train import slice_optim
from recnas.train.slice_optim import SliceAdagrad, SliceAdamW, clip_scale, global_norm, gradients

SPACE = NasrecSpace("nasrec-full", blocks=3, dense_dims=(16, 32), sparse_dims=(8, 16))
SHAPE = NetShape(5, 7)


def loss_of(network, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    dense, embedded = torch.rand(8, 5, generator=generator), torch.rand(8, 7, 16, generator=generator)
    return (network(dense, embedded) - torch.rand(8, generator=generator)).square().mean()


@pytest.mark.parametrize("kind", ["adagrad", "adamw"])
def test_whole_parameters_follow_torch(kind, monkeypatch):
    monkeypatch.setattr(slice_optim, "_ELEMENTS_AT_A_TIME", 64)  # walk large tensors in several pieces
    mine = Subnet(SPACE.sample(default_rng(0)), SHAPE, torch.Generator().manual_seed(0))
    theirs = copy.deepcopy(mine)
    storages = dict(mine.named_parameters())
    if kind == "adagrad":
        optimizer, reference = (
            SliceAdagrad(storages),
            torch.optim.Adagrad(theirs.parameters(), lr=0.1, eps=1e-2),
        )
    else:
        optimizer = SliceAdamW(storages, weight_decay=0.01)
        reference = torch.optim.AdamW(theirs.parameters(), lr=0.1, weight_decay=0.01)
    for step in range(4):
        loss_of(mine, step).backward()
        slices = mine.slices()
        optimizer.step(slices, lr=0.1, scale=clip_scale(gradients(slices), 0.1))
        reference.zero_grad()
        loss_of(theirs, step).backward()
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), 0.1)
        reference.step()
    for a, b in zip(mine.parameters(), theirs.parameters()):
        assert a.grad is None
        torch.testing.assert_close(a, b, rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize("make", [SliceAdagrad, SliceAdamW])
def test_only_the_used_slices_change(make):
    supernet = Supernet(SPACE, SHAPE, torch.Generator().manual_seed(0))
    optimizer = make(supernet.storages)
    rng = default_rng(1)
    for step in range(6):
        candidate = supernet.candidate(SPACE.sample(rng))
        loss_of(candidate, step).backward()
        before = copy.deepcopy((supernet.storages, optimizer.state_dict()))
        optimizer.step(candidate.slices(), lr=0.1)
        used = {name: torch.zeros_like(storage, dtype=torch.bool) for name, storage in supernet.storages.items()}
        for name, region in candidate.plan.regions.values():
            used[name][region] = True
        after = (supernet.storages, optimizer.state_dict())
        changed = 0
        for old, new in [(before[0], after[0]), *zip(_tables(before[1]), _tables(after[1]))]:
            for name, mask in used.items():
                assert torch.equal(old[name][~mask], new[name][~mask]), f"{name} changed outside its slice"
                changed += int((old[name] != new[name]).sum())
        assert changed > 0


def _tables(state: dict) -> list[dict]:
    return [table for key, table in sorted(state.items()) if key != "steps"]


@pytest.mark.parametrize("make", [SliceAdagrad, SliceAdamW])
def test_resuming_gives_the_same_bits(make):
    def train(supernet, optimizer, steps):
        for step in steps:
            candidate = supernet.candidate(SPACE.sample(default_rng(step)))
            loss_of(candidate, step).backward()
            optimizer.step(candidate.slices(), lr=0.1)

    whole = Supernet(SPACE, SHAPE, torch.Generator().manual_seed(0))
    train(whole, make(whole.storages), range(6))

    first = Supernet(SPACE, SHAPE, torch.Generator().manual_seed(0))
    optimizer = make(first.storages)
    train(first, optimizer, range(3))
    second = Supernet(SPACE, SHAPE, torch.Generator().manual_seed(9))
    second.load_state_dict(first.state_dict())
    resumed = make(second.storages)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    train(second, resumed, range(3, 6))
    assert all(torch.equal(storage, second.storages[name]) for name, storage in whole.storages.items())


def test_clip_scale():
    grads = [torch.tensor([3.0, 0.0]), torch.tensor([[4.0]])]
    assert global_norm(grads) == pytest.approx(5.0)
    assert clip_scale(grads, 10.0) == 1.0
    assert clip_scale(grads, 2.5) == pytest.approx(0.5, rel=1e-5)
    assert clip_scale([], 1.0) == 1.0


def test_state_of_other_weights_is_refused():
    optimizer = SliceAdagrad({"a": torch.zeros(3)})
    with pytest.raises(RunError, match="other weights"):
        optimizer.load_state_dict(SliceAdagrad({"a": torch.zeros(4)}).state_dict())

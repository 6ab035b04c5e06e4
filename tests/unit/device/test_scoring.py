"""Scoring on a second device: every proxy, on networks of clicks and of images, says there what it says on the CPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from recnas.model.blueprint import Network
from recnas.model.nasrec.scorable import ScoredNasrec
from recnas.model.nasrec.supernet import Supernet
from recnas.proxies.engine import score
from recnas.proxies.network import ScoringBatch
from recnas.proxies.registry import get_proxies, proxy_names
from recnas.space.nasbench201.arch import Nb201Arch
from recnas.space.nasbench201.skeleton import Nb201Blueprint, Nb201Skeleton
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.layers import NetShape
from tests.unit.device.second import NAME, second_device

CPU = torch.device("cpu")
DIRECT = [name for name in proxy_names() if not name.startswith("hnas_")] + ["hnas_ntk_trace"]


def clicks(device: torch.device) -> tuple[ScoredNasrec, list[ScoringBatch]]:
    space = NasrecSpace("nasrec-small", blocks=2, dense_dims=(16, 32), sparse_dims=(8, 16))
    tensors = Supernet(space, NetShape(4, 5, 16), torch.Generator().manual_seed(1)).storages
    supernet = Supernet(space, NetShape(4, 5, 16), tensors={name: t.detach().to(device) for name, t in tensors.items()})
    network = ScoredNasrec.of(supernet.candidate(space.sample(np.random.default_rng(11))))
    draw = torch.Generator().manual_seed(4)
    batches = [
        ScoringBatch(
            (torch.randn(6, 4, generator=draw), torch.randn(6, 5, 16, generator=draw)),
            torch.arange(6).float() % 2,
            torch.rand(6, generator=draw),
        )
        for _ in range(2)
    ]
    return network, [batch.to(device) for batch in batches]


def images(device: torch.device) -> tuple[Network, list[ScoringBatch]]:
    plan = Nb201Blueprint.of(Nb201Arch.from_number(4711), Nb201Skeleton(channels=2, cells=1))
    draw = torch.Generator().manual_seed(4)
    batches = [ScoringBatch((torch.randn(6, 3, 8, 8, generator=draw),), torch.arange(6) % 3) for _ in range(2)]
    return Network(plan, 0, device), [batch.to(device) for batch in batches]


@pytest.mark.parametrize("make", [clicks, images])
def test_every_proxy_says_on_the_device_what_it_says_on_the_cpu(make: Any):
    here = score(*make(CPU), get_proxies(DIRECT))
    with second_device():
        there = score(*make(NAME), get_proxies(DIRECT))
    for name in DIRECT:
        assert there[name].value == pytest.approx(here[name].value, rel=1e-9), name
        assert there[name].reason == here[name].reason, name
        assert math.isfinite(here[name].value)


def reads(make: Any, names: Sequence[str], batches: int) -> list[str]:
    with second_device() as device:
        network, some = make(NAME)
        device.reads.clear()
        score(network, (some * batches)[:batches], get_proxies(names))
        return device.reads


@pytest.mark.parametrize("make", [clicks, images])
@pytest.mark.parametrize("names", [["sigeo"], ["grad_norm", "snip", "knas", "nasi_trace"]])
def test_the_host_waits_once_for_all_batches_and_parameters(make: Any, names: list[str]):
    """Nothing is read while batches are passed through; what is read of all parameters is read at once."""
    few, many = (reads(make, names, batches) for batches in (2, 5))
    assert few == many
    assert len(few) == (1 if names == ["sigeo"] else 4), few

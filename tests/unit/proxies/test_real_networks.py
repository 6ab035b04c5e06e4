"""Every proxy on NASRec candidates and NAS-Bench-201 cells, dead cells included."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from recnas.baselines.base import InputShape
from recnas.baselines.encoded import encode
from recnas.model.blueprint import Network
from recnas.model.kernels import plain_kernels
from recnas.model.nasrec.scorable import ScoredNasrec
from recnas.model.nasrec.subnet import new_subnet
from recnas.model.nasrec.supernet import Supernet
from recnas.proxies.base import Stats
from recnas.proxies.engine import score
from recnas.proxies.gram import ExactNtk, LogitGram
from recnas.proxies.network import ScoringBatch
from recnas.proxies.registry import get_proxies, proxy_names
from recnas.space.nasbench201.arch import Nb201Arch
from recnas.space.nasbench201.skeleton import Nb201Blueprint, Nb201Skeleton
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.layers import NetShape
from recnas.testing.proxy_suite import ScoredNetworkConformance
from tests.unit.proxies.networks import row_by_row


def nb201_network(arch: Nb201Arch, skeleton: Nb201Skeleton | None = None, seed: int = 0) -> Network:
    return Network(Nb201Blueprint.of(arch, skeleton), seed)


SHAPE = NetShape(n_dense=4, n_sparse=5, width=16)
NUMBERS = (11, 4711, 10427, 15624)


def clicks(number: int, name: str, dtype: torch.dtype = torch.float64) -> ScoredNasrec:
    space = NasrecSpace(name, blocks=3, dense_dims=(16, 32, 64), sparse_dims=(8, 16))
    supernet = Supernet(space, SHAPE, torch.Generator().manual_seed(1)).to(dtype)
    return ScoredNasrec.of(supernet.candidate(space.sample(np.random.default_rng(number))))


def click_batches(dtype: torch.dtype, count: int = 3, m: int = 6) -> list[ScoringBatch]:
    generator = torch.Generator().manual_seed(4)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(dtype)

    return [ScoringBatch((draw(m, 4), draw(m, 5, 16)), torch.arange(m).to(dtype) % 2) for _ in range(count)]


def cell(number: int, dtype: torch.dtype = torch.float64) -> Network:
    return nb201_network(Nb201Arch.from_number(number), Nb201Skeleton(channels=2, cells=1)).to(dtype)


def images(dtype: torch.dtype, count: int = 2, m: int = 6) -> list[ScoringBatch]:
    generator = torch.Generator().manual_seed(4)
    return [
        ScoringBatch((torch.randn(m, 3, 8, 8, generator=generator).to(dtype),), torch.arange(m) % 3)
        for _ in range(count)
    ]


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("name", ["nasrec-small", "nasrec-full"])
class TestNasrec(ScoredNetworkConformance):
    @pytest.fixture(autouse=True)
    def _choose(self, name: str, number: int) -> None:
        self._net = clicks(number, name)

    def case(self):
        return self._net, click_batches(torch.float64)[0]

    def test_gram_matrix(self):
        """LayerNorm does not couple examples, so the one-backward matrix is that of single gradients."""
        network, batch = self.case()
        rows = row_by_row(network, batch, "logit", skip=".norm.")
        torch.testing.assert_close(Stats(network, [batch]).get(LogitGram).matrix, rows @ rows.T)

    def test_hand_written_kernels_have_the_same_second_derivatives(self):
        network, batch = self.case()
        ours = score(network, [batch], get_proxies(["grasp"]))["grasp"]
        with plain_kernels():
            assert score(network, [batch], get_proxies(["grasp"]))["grasp"].value == pytest.approx(ours.value)

    def test_every_proxy(self):
        found = score(self._net, click_batches(torch.float64), get_proxies(proxy_names()))
        assert {name: s.reason for name, s in found.items() if s.reason} == {}


@pytest.mark.parametrize("number", NUMBERS)
class TestNasbench201(ScoredNetworkConformance):
    @pytest.fixture(autouse=True)
    def _choose(self, number: int) -> None:
        self._net = cell(number)

    def case(self):
        return self._net, images(torch.float64)[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_proxy_on_a_live_cell(dtype: torch.dtype):
    found = score(cell(10427, dtype), images(dtype), get_proxies(proxy_names()))
    assert {name: s.reason for name, s in found.items() if s.reason} == {}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_proxy_on_a_dead_cell(dtype: torch.dtype):
    dead = cell(0, dtype)
    proxies = get_proxies(proxy_names())
    found = score(dead, images(dtype), proxies)
    alive = {p.name for p in proxies if found[p.name].reason is None}
    # What does not look at the path from the inputs, and what compares gradients of the head alone.
    assert alive <= {
        "params",
        "flops",
        "l2_norm",
        "hnas_l2_norm",
        "train_loss",
        "sigeo",
        "zico",
        "fisher_rao",
        "sigeo_released_vision",
    }
    for proxy in proxies:
        if found[proxy.name].reason:
            assert found[proxy.name].value == proxy.worst


@pytest.mark.parametrize("model", ["xdeepfm", "dcn-v2"])
def test_hand_crafted_models_report_what_each_example_did(model: str):
    """The kernel from reported layers is the one from a backward pass per example, where all weights are layers'."""
    shape = InputShape(n_dense=0, n_sparse=4, width=4)
    small = {"hidden": (6, 5)} | ({"cin": (6, 4)} if model == "xdeepfm" else {})
    network = new_subnet(encode(model, shape, small), NetShape(0, 4, 4), seed=1)
    rng = torch.Generator().manual_seed(2)
    inputs = torch.rand(6, 0), torch.randn(6, 4, network.table_width(4), generator=rng)
    labels = torch.tensor([0.0, 1, 1, 0, 1, 0])
    stats = Stats(ScoredNasrec.of(network), [ScoringBatch(inputs, labels)])
    found, exact = stats.get(LogitGram).matrix, stats.get(ExactNtk).matrix
    if model == "xdeepfm":  # its second bias belongs to no layer
        exact = exact - torch.outer(2 * labels - 1, 2 * labels - 1)
    assert torch.allclose(found, exact, rtol=1e-4, atol=1e-6)

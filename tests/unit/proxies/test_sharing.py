"""Metrics share their passes: one forward and three backward passes for all that read the first batch."""

from __future__ import annotations

import pytest
import torch

from recnas.proxies.base import Stats
from recnas.proxies.engine import score
from recnas.proxies.gram import LogitGram, LossGram
from recnas.proxies.recorded_pass import FirstGradient, RecordedPass
from recnas.proxies.registry import get_proxies, proxy_names
from tests.unit.proxies.networks import Clicks, batches, make


class Counted(Clicks):
    forwards = 0

    def forward(self, params, inputs):
        self.forwards += 1
        return super().forward(params, inputs)


@pytest.fixture
def backwards(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls: list[int] = []
    real = torch.autograd.grad

    def grad(*args, **options):
        calls.append(1)
        return real(*args, **options)

    monkeypatch.setattr(torch.autograd, "grad", grad)
    return calls


def test_one_forward_and_three_backward_passes(backwards: list[int]):
    names = [p.name for p in get_proxies(proxy_names()) if RecordedPass in p.needs]
    names = [name for name in names if name not in ("hnas_grasp", "hnas_synflow", "hnas_exact_ntk_trace")]
    assert len(names) >= 20
    net = Counted()
    score(net, batches(net, count=3), get_proxies(names))
    assert (net.forwards, len(backwards)) == (1, 3)


def test_gradient_moments_cost_one_pass_per_batch(backwards: list[int]):
    net = Counted()
    score(net, batches(net, count=3), get_proxies(["sigeo", "zico", "fisher_rao", "train_loss"]))
    assert (net.forwards, len(backwards)) == (3, 3)


@pytest.mark.parametrize(
    ("name", "passes"), [("flops", 0), ("naswot", 0), ("jacob_cov", 1), ("ntk_cond", 1), ("snip", 1)]
)
def test_only_what_is_needed_is_run(name: str, passes: int, backwards: list[int]):
    net = Counted()
    score(net, batches(net), get_proxies([name]))
    assert (net.forwards, len(backwards)) == (1, passes)


def test_sums_and_matrices_outlive_the_tape():
    net = make("conv")
    stats = Stats(net, batches(net))
    kept = [stats.get(kind) for kind in (FirstGradient, LogitGram, LossGram)]
    stats.drop(RecordedPass)
    assert [stats.get(kind) for kind in (FirstGradient, LogitGram, LossGram)] == kept

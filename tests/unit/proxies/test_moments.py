"""Gradient moments, SiGeo and ZiCo against two passes in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from recnas.proxies.base import ProxyError, Stats
from recnas.proxies.engine import score
from recnas.proxies.gradients import GradientMoments
from recnas.proxies.network import ScoringBatch, sample_losses
from recnas.proxies.registry import get_proxies
from recnas.proxies.sigeo import NOTHING_VARIES, Lambdas
from tests.unit.proxies.networks import Mlp, Net, batches, loss_gradient, make

KINDS = ("mlp", "clicks", "conv")


def two_pass(net: Net, found: list[ScoringBatch]) -> dict[str, float | np.ndarray]:
    """All gradients kept, then numpy."""
    kept = [loss_gradient(net, batch) for batch in found]
    groups = getattr(net, "groups", {name: name for name in net.params})
    ratios: dict[str, float] = {}
    dots = np.zeros(len(found))
    for name, theta in net.params.items():
        rows = np.stack([g[name].numpy().ravel() for g in kept]).astype(np.float64)
        mean, std = np.abs(rows).mean(0), rows.std(0)
        varies = std > 1e-6 * mean
        ratios[groups[name]] = ratios.get(groups[name], 0.0) + float((mean[varies] / std[varies]).sum())
        dots += rows @ theta.detach().numpy().ravel()
    weights = {groups[name] for name, p in net.params.items() if p.dim() > 1}
    losses = [sample_losses(net.forward(net.params, b.inputs), b.labels).mean().item() for b in found]
    return {
        "sigeo_zico": sum(math.log(r) for r in ratios.values() if r > 0),
        "zico": sum(math.log(r) for name, r in ratios.items() if r > 0 and name in weights),
        "fr": math.log((dots**2).mean()),
        "loss": float(np.mean(losses)),
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [2, 4])
def test_terms(kind: str, count: int):
    net = make(kind)
    found = batches(net, count=count)
    twin = two_pass(net, found)
    scores = score(
        net, found, get_proxies(["sigeo", "zico", "fisher_rao", "train_loss"], lambdas=Lambdas(2.0, 3.0, 5.0))
    )
    assert scores["sigeo"].terms == pytest.approx({"zico": twin["sigeo_zico"], "fr": twin["fr"], "loss": twin["loss"]})
    assert scores["sigeo"].value == pytest.approx(2 * twin["sigeo_zico"] + 3 * twin["fr"] - 5 * twin["loss"])
    assert scores["zico"].value == pytest.approx(twin["zico"])
    assert scores["fisher_rao"].value == pytest.approx(twin["fr"])
    assert scores["train_loss"].value == pytest.approx(twin["loss"])


class Given(Net):
    """A linear "loss": the gradient of `w` is exactly what the batch holds (logit 0, slope -1/2 per unit)."""

    def __init__(self, n: int) -> None:
        self.params = {"w.weight": torch.zeros(1, n, requires_grad=True)}

    def forward(self, params, inputs):
        return (inputs[0] @ params["w.weight"].T).squeeze(1)


@pytest.mark.parametrize("spread", [1e-2, 1e-4])
def test_means_far_above_their_spread(spread: float):
    """Float32 gradients of 1 with a small spread: a difference of squares would have no digit left."""
    generator = torch.Generator().manual_seed(1)
    net = Given(300)
    rows = [1 + spread * torch.randn(1, 300, generator=generator) for _ in range(4)]
    found = [ScoringBatch((row,), torch.ones(1)) for row in rows]
    kept = np.stack([-0.5 * row.numpy().astype(np.float64)[0] for row in rows])
    expected = float((np.abs(kept).mean(0) / kept.std(0)).sum())
    (moments,) = Stats(net, found).get(GradientMoments).parameters
    assert moments.ratio == pytest.approx(expected, rel=1e-4)
    assert moments.varying == 300


def test_rounding_noise_is_not_a_spread():
    net = Given(2)
    rows = [torch.tensor([[1.0, 2.0 + step * 1e-7]]) for step in range(3)]
    found = [ScoringBatch((row,), torch.ones(1)) for row in rows]
    (moments,) = Stats(net, found).get(GradientMoments).parameters
    assert (moments.ratio, moments.varying) == (0.0, 0)
    result = score(net, found, get_proxies(["zico", "sigeo"]))
    assert {s.reason for s in result.values()} == {NOTHING_VARIES}
    assert {s.value for s in result.values()} == {-1e30}


def test_batch_order_does_not_matter():
    net = make("clicks")
    found = batches(net, count=4)
    proxies = get_proxies(["sigeo", "zico", "fisher_rao", "train_loss"])
    forward, backward = (score(net, order, proxies) for order in (found, found[::-1]))
    for name in forward:
        assert forward[name].value == pytest.approx(backward[name].value, rel=1e-9)


def test_lambdas_of_the_paper():
    assert Lambdas.for_case("ctr", warmed=False) == Lambdas(1, 1, 0)
    assert Lambdas.for_case("ctr", warmed=True) == Lambdas(1, 1, 1)
    assert Lambdas.for_case("vision", warmed=True) == Lambdas(1, 50, 1)


def test_weights_that_diverged_are_an_error_not_a_score():
    net = Mlp()
    with torch.no_grad():
        net.params["layer1.weight"][0, 0] = float("nan")
    for name in ("sigeo", "snip", "ntk_trace", "exact_ntk_trace", "grasp", "sigeo_released"):
        with pytest.raises(ProxyError, match="NaN"):
            score(net, batches(net, count=2), get_proxies([name]))

"""The public code's SiGeo on gradients small enough to work out by hand."""

from __future__ import annotations

import math
from itertools import islice

import pytest
import torch
from torch import tensor

from recnas.proxies.base import Stats
from recnas.proxies.engine import score
from recnas.proxies.network import sample_losses
from recnas.proxies.registry import get_proxies
from recnas.proxies.sigeo import Lambdas
from recnas.proxies.sigeo_released import (
    NO_GROUP,
    NO_SPREAD,
    _ClickStream,
    head_of,
    layer_kinds,
    merged_terms,
    released_rates,
    vision_terms,
)
from tests.unit.proxies.networks import Clicks, Mlp, batches, gradient, make


def test_only_the_first_varying_coordinate_counts():
    """Coordinate 0 is constant. Coordinate 1: |g| = 1, 3, mean 2; unbiased std sqrt(2). Coordinate 2 is ignored."""
    gradients = [{"w": tensor([5.0, 1.0, 100.0])}, {"w": tensor([5.0, 3.0, -7.0])}]
    terms = merged_terms(gradients, {"w": tensor([0.1, 0.5, 0.0])}, {"w": "Linear"})
    assert terms.zico == pytest.approx(math.log(2 / math.sqrt(2)))
    assert terms.fr == pytest.approx(math.log(10 * 0.1 + 4 * 0.5 + 1e-10))


def test_layers_that_look_alike_merge_and_pair_with_the_last():
    """One group of four rows 1, 3, 2, 6 in coordinate 0: mean 3, unbiased variance (4 + 0 + 1 + 9) / 3."""
    gradients = [
        {"a": tensor([1.0, 0.0]), "b": tensor([3.0, 0.0])},
        {"a": tensor([2.0, 0.0]), "b": tensor([6.0, 1.0])},
    ]
    thetas = {"a": tensor([1000.0, 1000.0]), "b": tensor([0.5, -2.0])}
    terms = merged_terms(gradients, thetas, {"a": "LayerNorm(2)", "b": "LayerNorm(2)"})
    assert terms.zico == pytest.approx(math.log(3 / math.sqrt(14 / 3)))
    assert terms.fr == pytest.approx(math.log(12 * 0.5 + 1 * -2.0))
    apart = merged_terms(gradients, thetas, {"a": "one", "b": "two"})
    assert apart.zico == pytest.approx(math.log(1.5 / math.sqrt(0.5)) + math.log(4.5 / math.sqrt(4.5)))
    assert apart.fr == pytest.approx(math.log(3000 + 9 * 0.5 - 2))


def test_same_kind_of_another_size_stays_apart():
    gradients = [
        {"l.weight": tensor([1.0, 2.0]), "l.bias": tensor([1.0])},
        {"l.weight": tensor([2.0, 2.0]), "l.bias": tensor([4.0])},
    ]
    thetas = {"l.weight": tensor([1.0, 1.0]), "l.bias": tensor([1.0])}
    terms = merged_terms(gradients, thetas, {"l.weight": "Linear", "l.bias": "Linear"})
    assert terms.zico == pytest.approx(math.log(1.5 / math.sqrt(0.5)) + math.log(2.5 / math.sqrt(4.5)))


def test_opposite_signs_cancel_in_the_fisher_term():
    gradients = [{"w": tensor([1.0])}, {"w": tensor([-1.0])}]
    assert merged_terms(gradients, {"w": tensor([3.0])}, {"w": "k"}).fr == pytest.approx(math.log(1e-10))


def test_where_the_public_code_stops():
    still = [{"w": tensor([1.0, 2.0])}] * 3
    assert merged_terms(still, {"w": tensor([1.0, 1.0])}, {"w": "k"}).reason == NO_SPREAD
    assert merged_terms([{}, {}], {}, {}).reason == NO_GROUP


def test_vision_terms_by_hand():
    """a: both coordinates, (2 / 1) + (3 / 1); b is constant. Products 4 * 0.5 + 0 * 1 = 2, and -6 * 1."""
    gradients = [
        {"a": tensor([[1.0, 3.0]]), "b": tensor([[-3.0]])},
        {"a": tensor([[3.0, -3.0]]), "b": tensor([[-3.0]])},
    ]
    thetas = {"a": tensor([[0.5, 1.0]]), "b": tensor([[1.0]])}
    terms = vision_terms(gradients, thetas)
    assert terms.zico == pytest.approx(math.log(2 / 1 + 3 / 3))
    assert terms.fr == pytest.approx(2 * math.log(2 + 6 + 1e-5))


def test_learning_rates():
    assert list(islice(released_rates(), 5)) == pytest.approx([1e-8, 1e-8, 8e-4, 1.6e-3, 2.4e-3])
    assert max(islice(released_rates(), 200)) == pytest.approx(0.04)


@pytest.mark.parametrize("kind", ["mlp", "clicks"])
def test_the_stream_is_torchs_adagrad_with_clipping(kind: str):
    net = make(kind)
    found = batches(net, count=4)
    for batch in found:
        batch.inputs[0].mul_(40)  # large gradients, so that clipping acts
    before = {name: p.detach().clone() for name, p in net.params.items()}
    mine = _ClickStream(Stats(net, found), list(net.params), move=True).run()
    twin = {name: p.detach().clone().requires_grad_() for name, p in net.params.items()}
    optimizer = torch.optim.Adagrad(list(twin.values()), lr=1.0)
    clipped = False
    for batch, rate, seen in zip(found, released_rates(), mine.gradients):
        loss = sample_losses(net.forward(twin, batch.inputs), batch.labels).mean()
        for name, g in gradient(loss, twin).items():
            twin[name].grad = g
        clipped |= float(torch.nn.utils.clip_grad_norm_(twin.values(), 5.0)) > 5
        for name in twin:
            torch.testing.assert_close(seen[name], twin[name].grad)
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
    assert clipped or kind == "clicks"  # a LayerNorm keeps those small
    assert mine.loss == pytest.approx(loss.item())
    for name in twin:
        torch.testing.assert_close(mine.thetas[name], twin[name].detach())
        assert torch.equal(net.params[name], before[name]), "the network's own weights moved"


def test_score_is_the_terms_of_the_stream():
    net = make("mlp")
    found = batches(net, count=3)
    streamed = _ClickStream(Stats(net, found), list(net.params), move=True).run()
    terms = merged_terms(streamed.gradients, streamed.thetas, layer_kinds(Stats(net, found)))
    result = score(net, found, get_proxies(["sigeo_released"], lambdas=Lambdas(2, 3, 5)))["sigeo_released"]
    assert result.terms == pytest.approx({"zico": terms.zico, "fr": terms.fr, "loss": streamed.loss})
    assert result.value == pytest.approx(2 * terms.zico + 3 * terms.fr - 5 * streamed.loss)


def test_last_layer_only_sees_two_groups():
    net = make("clicks")
    found = batches(net, count=4)
    assert head_of(net, net.params) == ("head.weight", "head.bias")
    result = score(net, found, get_proxies(["sigeo_released"], last_layer_only=True))["sigeo_released"]
    rows = _ClickStream(Stats(net, found), ("head.weight", "head.bias"), move=True).run().gradients
    expected = 0.0
    for name in ("head.weight", "head.bias"):
        first = torch.stack([row[name].flatten()[0] for row in rows])
        expected += math.log(float(first.abs().mean() / first.std()))
    assert result.terms["zico"] == pytest.approx(expected)
    net.head = ("mix.weight",)
    assert score(net, found, get_proxies(["sigeo_released"], last_layer_only=True))["sigeo_released"] != result


def test_what_counts_as_the_same_kind_of_layer():
    net = Clicks()
    kinds = layer_kinds(Stats(net, batches(net)))
    assert kinds["dense.norm.weight"] == kinds["dense.norm.bias"]
    assert kinds["mix.weight"] == kinds["mix.bias"] != kinds["head.weight"]
    assert kinds["rows.weight"].startswith("4 x 5"), "two pieces are one weight"
    net.layer_kinds = dict.fromkeys(kinds, "all")
    assert set(layer_kinds(Stats(net, batches(net))).values()) == {"all"}


def test_constant_batches_give_the_documented_worst():
    net = Mlp()
    (batch,) = batches(net)
    proxies = get_proxies(["sigeo_released"], steps=False)
    result = score(net, [batch] * 3, proxies)["sigeo_released"]
    assert (result.value, result.reason) == (-1e30, NO_SPREAD)


def test_vision_reading_steps_by_sgd_of_rate_one():
    net = make("conv")
    found = batches(net, count=2)
    twin = {name: p.detach().clone().requires_grad_(p.dim() > 1) for name, p in net.params.items()}
    rows = []
    for batch in found:
        loss = sample_losses(net.forward(twin, batch.inputs), batch.labels).mean()
        g = gradient(loss, {name: p for name, p in twin.items() if p.requires_grad})
        rows.append(g)
        twin.update({name: (twin[name].detach() - g[name]).requires_grad_() for name in g})
    terms = vision_terms(rows, {name: twin[name].detach() for name in rows[0]})
    result = score(net, found, get_proxies(["sigeo_released_vision"]))["sigeo_released_vision"]
    assert result.terms == pytest.approx({"zico": terms.zico, "fr": terms.fr, "loss": loss.item()})

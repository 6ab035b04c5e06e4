"""Metrics of the first batch's gradient, against the formulas written out."""

from __future__ import annotations

import math

import pytest
import torch

from recnas.model import observe
from recnas.proxies.base import ProxyError, Stats
from recnas.proxies.engine import score
from recnas.proxies.gram import LossGram
from recnas.proxies.network import sample_losses
from recnas.proxies.registry import get_proxies
from tests.unit.proxies.networks import Mlp, Net, batches, loss_gradient, make

KINDS = ("mlp", "clicks", "conv")


def by_weight(net: Net, tensors: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """Flat tensors of matrices and filters; pieces of one parameter joined."""
    groups = getattr(net, "groups", {name: name for name in tensors})
    joined: dict[str, list[torch.Tensor]] = {}
    for name, tensor in tensors.items():
        if tensor.dim() > 1:
            joined.setdefault(groups[name], []).append(tensor.detach().flatten())
    return [torch.cat(parts) for parts in joined.values()]


@pytest.mark.parametrize("kind", KINDS)
def test_sums_over_weights(kind: str):
    net = make(kind)
    found = batches(net, count=2)
    gradients = loss_gradient(net, found[0])
    g, w = by_weight(net, gradients), by_weight(net, net.params)
    scores = score(net, found, get_proxies(["grad_norm", "grad_norm_total", "snip", "plain", "l2_norm", "nasi_trace"]))
    everything = sum(float(x.square().sum()) for x in gradients.values())
    expected = {
        "grad_norm": sum(float(x.norm()) for x in g),
        "grad_norm_total": math.sqrt(everything),
        "nasi_trace": everything,
        "snip": sum(float((a * b).abs().sum()) for a, b in zip(g, w)),
        "plain": sum(float((a * b).sum()) for a, b in zip(g, w)),
        "l2_norm": sum(float(x.norm()) for x in w),
    }
    assert {name: s.value for name, s in scores.items()} == pytest.approx(expected)


@pytest.mark.parametrize("kind", KINDS)
def test_knas_is_the_mean_of_the_gram_matrix(kind: str):
    net = make(kind)
    found = batches(net)
    value = score(net, found, get_proxies(["knas"]))["knas"]
    assert value.value == pytest.approx(Stats(net, found).get(LossGram).mean)
    assert value.terms["root"] == pytest.approx(math.sqrt(value.value))


@pytest.mark.parametrize("kind", KINDS)
def test_fisher_by_loops(kind: str):
    net = make(kind)
    (batch,) = batches(net, m=5)
    observed = observe.Observed()
    with observe.listen(observed):
        loss = sample_losses(net.forward(net.params, batch.inputs), batch.labels).mean()
    total = 0.0
    for use in observed.layers:  # a channel's value counts once per weight, so uses that share an output add up
        (back,) = torch.autograd.grad(loss, use.output, retain_graph=True)
        product = use.output.detach() * back
        if isinstance(use, observe.LinearUse):
            product = product.movedim((use.batch_axis, use.axis), (0, 1))
        for c in range(product.shape[1]):
            channel = sum(float(product[n, c].sum()) ** 2 for n in range(5)) / 5 / 2
            total += channel * use.weight[c].numel()
    assert score(net, [batch], get_proxies(["fisher"]))["fisher"].value == pytest.approx(total)


def test_grasp_against_the_full_hessian():
    net = Mlp((3, 4, 2), smooth=True)
    (batch,) = batches(net, m=5)
    names = ["layer0.weight", "layer1.weight"]
    sizes = [net.params[name].numel() for name in names]

    def loss(theta: torch.Tensor) -> torch.Tensor:
        parts = theta.split(sizes)
        params = {**net.params, **{n: part.view_as(net.params[n]) for n, part in zip(names, parts)}}
        return sample_losses(net.forward(params, batch.inputs), batch.labels).mean()

    theta = torch.cat([net.params[name].detach().flatten() for name in names])
    hessian = torch.autograd.functional.hessian(loss, theta)
    gradient = torch.autograd.functional.jacobian(loss, theta)
    signed = -float(theta @ (hessian @ gradient))
    found = score(net, [batch], get_proxies(["grasp"]))["grasp"]
    assert found.terms["signed"] == pytest.approx(signed)
    assert found.value == pytest.approx(5 * abs(signed))


@pytest.mark.parametrize("kind", KINDS)
def test_grasp_by_finite_differences(kind: str):
    """-W.Hg is minus the slope of g.g' as the weights move along themselves: W.H.g = d/ds <g, grad(w + s W)>."""
    net = make(kind)
    (batch,) = batches(net)
    weights = [name for name, p in net.params.items() if p.dim() > 1]
    g = loss_gradient(net, batch)

    def along(s: float) -> float:
        moved = make(kind)
        for name in weights:
            moved.params[name] = (net.params[name].detach() * (1 + s)).requires_grad_()
        there = loss_gradient(moved, batch)
        return sum(float((g[name] * there[name]).sum()) for name in weights)

    signed = -(along(1e-5) - along(-1e-5)) / 2e-5
    assert score(net, [batch], get_proxies(["grasp"]))["grasp"].terms["signed"] == pytest.approx(signed, rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_multiply_adds_and_parameters(kind: str):
    net = make(kind)
    scores = score(net, batches(net), get_proxies(["flops", "params"]))
    expected = {
        "mlp": 5 * 7 + 7 * 6 + 6 * 3,
        # rows on 3 columns, two mixes of 4 rows, dense, head
        "clicks": 3 * 4 * 5 + 2 * 4 * 9 + 4 * 5 + 17,
        # 8x8 stem, 4x4 grouped and depthwise, 2x2 pointwise, head
        "conv": 64 * 4 * 27 + 16 * 6 * 18 + 16 * 6 * 9 + 4 * 5 * 6 + 20,
    }
    assert scores["flops"].value == expected[kind]
    assert scores["params"].value == sum(p.numel() for p in net.params.values())


def test_a_network_that_reports_the_wrong_tensor_is_told():
    class Wrong(Mlp):
        def forward(self, params, inputs):
            hidden = inputs[0] @ params["layer0.weight"].T
            observe.linear(params["layer0.weight"], inputs[0], hidden.view(-1, 7))
            return hidden @ params["layer1.weight"].T

    net = Wrong((5, 7, 3), bias=False)
    with pytest.raises(ProxyError, match=r"layer0\.weight"):
        score(net, batches(net), get_proxies(["snip"]))

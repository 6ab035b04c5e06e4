"""Gram matrices against one gradient per example."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from recnas.model import observe
from recnas.model.observe import LinearUse
from recnas.proxies import gram
from recnas.proxies.base import Stats
from recnas.proxies.engine import score
from recnas.proxies.gram import ExactNtk, LogitGram, LossGram
from recnas.proxies.network import sample_losses, true_logits
from recnas.proxies.ntk import SINGULAR
from recnas.proxies.registry import get_proxies
from tests.unit.proxies.networks import Conv, Mlp, Net, batches, make, row_by_row

UNCOUPLED = ("mlp", "clicks", "conv-free")  # networks whose examples do not see each other


def close(a: torch.Tensor, b: torch.Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance * float(b.abs().max()))


@pytest.fixture(params=["as chosen", "pairs", "rows"])
def route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of computing one layer, in pieces small enough that there are several."""
    if request.param == "as chosen":
        return
    monkeypatch.setattr(gram, "_PIECE", 100)
    monkeypatch.setattr(gram, "_PATCHES", 300)

    def forced(a, d):
        return (
            gram._by_pairs(gram._flat(a)[:, 0], d[:, 0])
            if request.param == "pairs" and a.shape[1] == 1
            else gram._by_rows(a, d)
        )

    monkeypatch.setattr(gram, "weight_gram", forced)


@pytest.mark.usefixtures("route")
@pytest.mark.parametrize("kind", UNCOUPLED)
def test_one_backward_gives_every_examples_own_gradient(kind: str):
    net = make(kind)
    (batch,) = batches(net)
    stats = Stats(net, [batch])
    rows = row_by_row(net, batch, "logit", skip="norm")
    close(stats.get(LogitGram).matrix, rows @ rows.T)
    rows = row_by_row(net, batch, "loss", skip="norm")
    close(stats.get(LossGram).matrix, rows @ rows.T)


def conv_rows(net: Conv, batch, loss: bool) -> torch.Tensor:
    """Activation times what comes back, example by example and pixel by pixel, for every layer."""
    observed = observe.Observed()
    with observe.listen(observed):
        logits = net.forward(net.params, batch.inputs)
    total = sample_losses(logits, batch.labels).sum() if loss else true_logits(logits, batch.labels).sum()
    rows = []
    for i in range(len(logits)):
        parts = []
        for use in observed.layers:
            (back,) = torch.autograd.grad(total, use.output, retain_graph=True)
            only = torch.zeros_like(back)
            only[i] = back[i]
            weight = use.weight.detach().requires_grad_()
            x = use.input.detach()
            out = (
                F.linear(x, weight)
                if isinstance(use, LinearUse)
                else F.conv2d(x, weight, None, use.stride, use.padding, use.dilation, use.groups)
            )
            parts.append(torch.autograd.grad(out, weight, only)[0].flatten())
            if use.bias is not None:
                parts.append(back[i].flatten(1).sum(1) if back.dim() > 2 else back[i])
        rows.append(torch.cat(parts))
    return torch.stack(rows)


@pytest.mark.usefixtures("route")
def test_with_batch_statistics_it_is_activation_times_backprop():
    net = make("conv")
    (batch,) = batches(net)
    stats = Stats(net, [batch])
    for kind, loss in ((LogitGram, False), (LossGram, True)):
        rows = conv_rows(net, batch, loss)
        close(stats.get(kind).matrix, rows @ rows.T)


@pytest.mark.parametrize("kind", ["mlp", "clicks", "conv"])
@pytest.mark.parametrize("rows_at_once", [None, 4])
def test_exact_kernel_has_the_coupling(kind: str, rows_at_once: int | None, monkeypatch: pytest.MonkeyPatch):
    net = make(kind)
    (batch,) = batches(net, m=7)
    if rows_at_once:
        monkeypatch.setattr(gram, "_ROWS", rows_at_once * sum(p.numel() for p in net.params.values()))
    rows = row_by_row(net, batch, "logit")
    close(Stats(net, [batch]).get(ExactNtk).matrix, rows @ rows.T)


def test_the_two_kernels_differ_under_batch_statistics_only():
    for kind, same in (("mlp", True), ("conv-free", True), ("conv", False)):
        net = make(kind)
        if kind == "conv-free":
            del net.params["norm.weight"], net.params["norm.bias"]
        stats = Stats(net, batches(net))
        assert torch.allclose(stats.get(LogitGram).matrix, stats.get(ExactNtk).matrix) == same


@pytest.mark.parametrize("kind", ["mlp", "clicks", "conv"])
def test_kernel_metrics_against_numpy(kind: str):
    net = make(kind)
    found = batches(net, m=5)
    names = [
        "ntk_trace",
        "ntk_cond",
        "ntk_min_eig",
        "exact_ntk_trace",
        "exact_ntk_cond",
        "exact_ntk_min_eig",
        "eigen_nas",
        "grad_norm_samples",
    ]
    scores = score(net, found, get_proxies(names))
    exact = row_by_row(net, found[0], "logit").numpy()
    rows = (
        conv_rows(net, found[0], False).numpy()
        if kind == "conv"
        else row_by_row(net, found[0], "logit", "norm").numpy()
    )
    for prefix, j in (("", rows), ("exact_", exact)):
        k = j @ j.T
        v = np.linalg.eigvalsh(k)
        assert scores[f"{prefix}ntk_trace"].value == pytest.approx(np.sqrt(np.trace(k) / 5))
        assert scores[f"{prefix}ntk_min_eig"].value == pytest.approx(v[0], rel=1e-6)
        assert scores[f"{prefix}ntk_cond"].value == pytest.approx(v[-1] / v[0], rel=1e-6)
    k = rows @ rows.T
    assert scores["eigen_nas"].value == pytest.approx(np.trace(k))
    assert scores["eigen_nas"].terms["frobenius"] == pytest.approx(np.linalg.norm(k))
    assert np.linalg.eigvalsh(k)[0] <= scores["eigen_nas"].terms["bound"] <= np.linalg.norm(k)
    losses = (
        conv_rows(net, found[0], True).numpy() if kind == "conv" else row_by_row(net, found[0], "loss", "norm").numpy()
    )
    assert scores["grad_norm_samples"].value == pytest.approx(np.linalg.norm(losses, axis=1).mean())


def test_two_equal_examples_make_the_kernel_singular():
    net = make("mlp", torch.float32)
    (batch,) = batches(net, m=6)
    batch.inputs[0][3] = batch.inputs[0][0]
    batch.labels[3] = batch.labels[0]
    scores = score(net, [batch], get_proxies(["ntk_cond", "ntk_min_eig", "exact_ntk_cond", "ntk_trace"]))
    for name in ("ntk_cond", "ntk_min_eig", "exact_ntk_cond"):
        assert scores[name].reason == SINGULAR
    assert scores["ntk_trace"].reason is None


def test_small_eigenvalues_survive_float32_gradients():
    """Two nearly equal examples: the smallest eigenvalue is 1e-9 of the largest and still has digits."""
    values = []
    for dtype in (torch.float32, torch.float64):
        net: Net = Mlp((4, 8, 2), seed=2, dtype=torch.float32)
        net.params = {n: p.detach().to(dtype).requires_grad_() for n, p in net.params.items()}
        (batch,) = batches(Mlp((4, 8, 2), seed=2, dtype=torch.float32), m=4)
        x = batch.inputs[0].clone()
        x[1] = x[0] * (1 + 2.0**-14)
        batch.labels[1] = batch.labels[0]
        found = score(net, [type(batch)((x.to(dtype),), batch.labels)], get_proxies(["ntk_cond"]))["ntk_cond"]
        assert found.value > 1e8
        values.append(found.value)
    assert values[0] == pytest.approx(values[1], rel=0.05)


def test_a_layer_without_inputs_adds_nothing():
    """As in data without sparse columns."""
    found = gram.weight_gram(torch.zeros(3, 1, 0, 2), torch.ones(3, 1, 4, 2))
    assert torch.equal(found, torch.zeros(3, 3, dtype=torch.float64))

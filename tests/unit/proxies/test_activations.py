"""NASWOT, the input Jacobian, SynFlow and Zen against brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from recnas.model import observe
from recnas.proxies.base import ProxyError
from recnas.proxies.engine import score
from recnas.proxies.jacobian import CONSTANT_ROW, correlation
from recnas.proxies.network import ScoringBatch
from recnas.proxies.registry import get_proxies
from tests.unit.proxies.networks import Conv, Mlp, Net, batches, make

KINDS = ("mlp", "clicks", "conv")


def one(net: Net, found: list[ScoringBatch], name: str, seed: int = 0):
    return score(net, found, get_proxies([name]), seed)[name]


@pytest.mark.parametrize("kind", KINDS)
def test_naswot_counts_equal_units(kind: str):
    net = make(kind)
    (batch,) = batches(net, m=5)
    observed = observe.Observed()
    with observe.listen(observed):
        net.forward(net.params, batch.inputs)
    same = np.zeros((5, 5))
    for before, axis in observed.before_relu:
        codes = (before.detach().movedim(axis, 0).flatten(1) > 0).tolist()
        for i in range(5):
            for j in range(5):
                same[i, j] += sum(a == b for a, b in zip(codes[i], codes[j]))
    sign, expected = np.linalg.slogdet(same)
    assert sign == 1
    assert one(net, [batch], "naswot").value == pytest.approx(expected)


def test_naswot_of_equal_codes_is_the_worst():
    net = make("mlp")
    (batch,) = batches(net, m=4)
    batch.inputs[0][1] = batch.inputs[0][0] * (1 + 1e-9)
    found = one(net, [batch], "naswot")
    assert found.reason
    assert found.value == get_proxies(["naswot"])[0].worst


@torch.no_grad()
def jacobian(net: Net, batch: ScoringBatch) -> np.ndarray:
    """Each input entry on its own, by central differences of the sum of all logits."""
    inputs = [x.clone() for x in batch.inputs]
    rows = [[] for _ in range(len(batch))]
    for x in inputs:
        for n in range(len(batch)):
            entry = x[n].view(-1)
            for k in range(entry.numel()):
                here = float(entry[k])
                values = []
                for step in (1e-6, -1e-6):
                    entry[k] = here + step
                    values.append(float(net.forward(net.params, inputs).sum()))
                entry[k] = here
                rows[n].append((values[0] - values[1]) / 2e-6)
    return np.array(rows)


@pytest.mark.parametrize("kind", ["mlp", "clicks"])
def test_jacobian_metrics_against_numpy(kind: str):
    net = make(kind)
    (batch,) = batches(net, m=5)
    j = jacobian(net, batch)
    v = np.linalg.eigvalsh(np.corrcoef(j))
    expected = -np.sum(np.log(v + 1e-5) + 1 / (v + 1e-5))
    assert one(net, [batch], "jacob_cov").value == pytest.approx(expected, rel=1e-3)
    labels = batch.labels.numpy()
    s = [np.log(np.abs(np.atleast_2d(np.corrcoef(j[labels == c]))) + 1e-5).sum() for c in np.unique(labels)]
    assert one(net, [batch], "epe_nas").value == pytest.approx(sum(map(abs, s)), rel=1e-4)


def test_epe_nas_of_many_classes_compares_classes():
    net = Mlp((5, 9, 101))
    (batch,) = batches(net, m=7)
    batch.labels.copy_(torch.tensor([3, 3, 3, 50, 50, 7, 100]))
    j, labels = jacobian(net, batch), batch.labels.numpy()
    s = [
        np.log(np.abs(np.atleast_2d(np.corrcoef(j[labels == c]))) + 1e-5).sum() / (labels == c).sum()
        for c in np.unique(labels)
    ]
    expected = np.mean([sum(abs(a - b) for b in s) for a in s])
    assert one(net, [batch], "epe_nas").value == pytest.approx(expected, rel=1e-4)


def test_correlation_is_numpys():
    rows = torch.randn(4, 9, dtype=torch.float64) + 100
    torch.testing.assert_close(correlation(rows), torch.from_numpy(np.corrcoef(rows.numpy())))
    rows[2] = 7.0
    assert correlation(rows) is None


def test_an_example_without_gradient_is_named():
    net = Mlp((5, 4, 2))
    (batch,) = batches(net, m=3)
    batch.inputs[0][1] = 0.0
    with torch.no_grad():
        net.params["layer0.bias"].fill_(-0.5)  # all ReLUs are off for the zero example
    assert one(net, [batch], "jacob_cov").reason == CONSTANT_ROW
    assert one(net, [batch], "epe_nas").reason == CONSTANT_ROW


def test_synflow_of_a_plain_network_is_depth_times_signal():
    """Without biases R is linear in each layer's weights, so each layer gives R."""
    net = Mlp((5, 7, 6, 3), bias=False, dtype=torch.float32)
    found = one(net, batches(net), "synflow")
    x = torch.ones(5, dtype=torch.float64)
    for weight in net.params.values():
        x = weight.detach().double().abs() @ x
    assert found.value == pytest.approx(3 * float(x.sum()), rel=1e-12)
    assert found.terms["log"] == pytest.approx(math.log(found.value))


@pytest.mark.parametrize("kind", KINDS)
def test_synflow_by_finite_differences(kind: str):
    net = make(kind)
    (batch,) = batches(net)
    inputs = [torch.ones_like(x[:1]) for x in batch.inputs]
    params = {name: p.detach().abs() for name, p in net.params.items()}

    def signal() -> float:
        with observe.without_norms():
            return float(net.forward(params, inputs).sum())

    total = 0.0
    for p in params.values():
        if p.dim() < 2:
            continue
        entries = p.view(-1)
        for k in range(entries.numel()):
            here = float(entries[k])
            values = []
            for step in (1e-6, -1e-6):
                entries[k] = here + step
                values.append(signal())
            entries[k] = here
            total += abs(here * (values[0] - values[1]) / 2e-6)
    assert one(net, [batch], "synflow").value == pytest.approx(total, rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_zen_step_by_step(kind: str):
    net = make(kind)
    found = batches(net, m=5)
    generator = torch.Generator().manual_seed(11)
    params = {}
    for name, p in net.params.items():
        if p.dim() > 1:
            params[name] = torch.randn(p.shape, generator=generator, dtype=p.dtype)
        else:
            params[name] = torch.zeros_like(p) if name.endswith("bias") else torch.ones_like(p)
    x = [torch.randn(i.shape, generator=generator, dtype=i.dtype) for i in found[0].inputs]
    e = [torch.randn(i.shape, generator=generator, dtype=i.dtype) for i in found[0].inputs]
    observed_all = []
    for inputs in (x, [a + 0.01 * b for a, b in zip(x, e)]):
        observed = observe.Observed()
        with observe.listen(observed):
            net.forward(params, inputs)
        observed_all.append(observed)
    change = (observed_all[1].features - observed_all[0].features).abs().flatten(1).sum(1).mean()
    scale = 0.0
    for use in observed_all[0].norms:
        data = use.input.numpy()
        variance = data.var(axis=(0, 2, 3)) if kind == "conv" else data.var(axis=1)
        scale += math.log(math.sqrt(variance.mean()))
    result = one(net, found, "zen", seed=11)
    assert result.value == pytest.approx(float(change.log()) + scale)
    assert one(net, found, "zen", seed=12).value != result.value


def test_zen_says_what_is_missing():
    class Silent(Conv):
        def forward(self, params, inputs):
            return inputs[0].mean((2, 3)) @ params["stem.weight"][:, :, 0, 0].T

    net = Silent()
    with pytest.raises(ProxyError, match="classifier"):
        one(net, batches(net), "zen")

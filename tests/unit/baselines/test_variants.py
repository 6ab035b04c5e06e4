"""Forms of the models that their settings choose, against loops and against published parameter counts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from recnas.baselines.base import InputShape
from recnas.baselines.counts import count_params
from recnas.baselines.zoo import build
from tests.unit.baselines import golden
from tests.unit.baselines.test_zoo import SHAPE, by_loop, inputs, shaken

SMALL = {"hidden": (6, 4)}


def assert_equals_loops(network, compute, shape: InputShape = SHAPE, **options) -> None:
    dense, embedded = inputs(network, shape=shape)
    with torch.no_grad():
        found = network(dense, embedded).numpy()
    np.testing.assert_allclose(found, by_loop(network, compute, dense, embedded, **options), rtol=2e-4, atol=2e-5)


def test_gdcn_stacked():
    settings = {**SMALL, "crosses": 2, "structure": "stacked"}
    assert_equals_loops(shaken("gdcn", settings), golden.gdcn, stacked=True)


@pytest.mark.parametrize("gated", [True, False])
def test_finalnet_of_one_block(gated: bool):
    network = shaken("finalnet", {**SMALL, "blocks": 1, "field_gate": gated})
    assert_equals_loops(network, golden.finalnet, blocks=1, gated=gated)


@pytest.mark.parametrize("norm", [True, False])
def test_dcnv3_mask_with_and_without_norm(norm: bool):
    network = shaken("dcnv3", {"exponential": 2, "linear": 3, "mask_norm": norm})
    assert_equals_loops(network, golden.dcnv3, norm=norm)


def test_dcnv3_with_vectors_of_odd_width():
    shape = SHAPE._replace(width=5)
    network = shaken("dcnv3", {"exponential": 2, "linear": 3}, shape)
    dense, embedded = inputs(network, shape=shape)
    parameters = {name: p.detach().double().numpy() for name, p in network.named_parameters()}
    expected = [golden.dcnv3(parameters, x, v, None) for x, v in zip(dense.double().numpy(), embedded.double().numpy())]
    np.testing.assert_allclose(network(dense, embedded).detach().numpy(), expected, rtol=2e-4, atol=2e-5)


def test_dlrm_may_see_the_vectors_themselves():
    def dlrm(p, x, v, w):
        return golden.mlp(p, "top", np.concatenate([golden.mlp(p, "bottom", x, 2, head=False), *v]), 2)

    assert_equals_loops(shaken("dlrm", {**SMALL, "bottom": (5,), "interaction": "cat"}), dlrm)


def finalmlp(p, x, v, w, gates, layers):
    """`gates`: the column that gates each stream, or None for no gates."""
    outs = []
    for k in range(2):
        given = golden.flat(x, v)
        if gates:
            hidden = np.maximum(0, golden.linear(p, f"gates.{k}.hidden", v[gates[k]]))
            given = given * 2 * golden.sigmoid(golden.linear(p, f"gates.{k}.out", hidden))
        outs.append(golden.mlp(p, f"streams.{k}", given, layers[k], head=False))
    total = float(golden.linear(p, "linear", np.concatenate(outs))[0])
    for h, (a, b) in enumerate(zip(np.split(outs[0], 2), np.split(outs[1], 2))):
        total += float(a @ p["bilinear"][h] @ b)
    return total


@pytest.mark.parametrize("gates", [(1, 4), None])
def test_finalmlp_gated_by_columns_or_not_at_all(gates):
    chosen = {"first_context": gates[0], "second_context": gates[1]} if gates else {"use_gates": False}
    settings = {**SMALL, "second": (8,), "fusion_heads": 2, "gate_width": 3, **chosen}
    network = shaken("finalmlp", settings)
    assert len(network.gates) == (2 if gates else 0)
    assert_equals_loops(network, finalmlp, gates=gates, layers=(2, 1))


def autoint(p, x, v, w, heads, width, residual, scaled, norm):
    fields = golden.with_dense(p, x, v)
    for k in range(2):
        name = f"attention.{k}."
        query, key, value = np.split(p[name + "project.weight"], 3)
        out = []
        for field in fields:
            mixed = []
            for h in range(heads):
                part = slice(h * width, (h + 1) * width)
                scores = np.array([(query[part] @ field) @ (key[part] @ other) for other in fields])
                scores = scores / np.sqrt(width) if scaled else scores
                weights = np.exp(scores) / np.exp(scores).sum()
                mixed.append(sum(a * (value[part] @ other) for a, other in zip(weights, fields)))
            total = np.concatenate(mixed)
            if residual == "plain":
                total = total + (p[name + "residual.weight"] @ field if k == 0 else field)
            if norm:
                total = golden.layer_norm(total, p[name + "norm.weight"], p[name + "norm.bias"])
            out.append(np.maximum(0, total))
        fields = np.stack(out)
    return float(golden.linear(p, "head", fields.ravel())[0]) + golden.dnn(p, x, v, w)


@pytest.mark.parametrize(("residual", "scaled", "norm"), [("plain", True, True), ("none", False, False)])
def test_autoint_as_leaderboards_have_it(residual: str, scaled: bool, norm: bool):
    options = {"residual": residual, "scaled": scaled}
    settings = {**SMALL, "layers": 2, "heads": 2, "head_width": 3, "attention_norm": norm, **options}
    network = shaken("autoint+", settings)
    assert_equals_loops(network, autoint, heads=2, width=3, norm=norm, **options)


# Settings and parameter counts of the runs published by the BARS leaderboard for Frappe_x1: 10 categorical
# columns, vectors of 10. The counts here leave out the tables (53,890 numbers in the runs of FuxiCTR 1, 53,990 in
# those of FuxiCTR 2) and, for DeepFM, 5,389 first-order weights.
FRAPPE = InputShape(n_dense=0, n_sparse=10, width=10)
DEEP = {"hidden": (400, 400, 400), "norm": "batch"}
PUBLISHED = [
    ("dlrm", {**DEEP, "interaction": "cat"}, 417_891 - 53_890),
    ("dcn", {**DEEP, "crosses": 3}, 418_591 - 53_890),
    ("dcn-v2", {**DEEP, "crosses": 4}, 458_391 - 53_890),
    ("deepfm", DEEP, 423_280 - 53_890 - 5_389 + 1),  # and a bias of the linear term
    (
        "autoint+",
        {**DEEP, "layers": 5, "heads": 4, "head_width": 32, "residual": "plain", "attention_norm": True},
        622_180 - 53_890,
    ),
    ("finalnet", {"hidden": (400, 400), "norm": "batch", "blocks": 1, "field_gate": False}, 256_791 - 53_990),
    # One bias for both blocks.
    ("finalnet", {"hidden": (400, 400), "second": (400,), "norm": "batch"}, 338_502 - 53_990 - 1),
    # One bias for both streams, and contexts from the tables there are instead of tables of their own.
    (
        "finalmlp",
        {
            "hidden": (400,),
            "second": (100,),
            "norm": "batch",
            "gate_width": 400,
            "fusion_heads": 5,
            "first_context": 0,
            "second_context": 1,
        },
        253_392 - 53_990 - 10 * (956 + 4084) - 1,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "settings", "expected"), PUBLISHED)
def test_published_settings_give_the_published_number_of_parameters(name: str, settings, expected: int):
    assert count_params(build(name, FRAPPE, settings)) == expected

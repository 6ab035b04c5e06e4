"""Forms of the models that their settings choose, against loops and against published parameter counts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from recnas.baselines.base import InputShape
from recnas.baselines.counts import count_params
from recnas.baselines.encoded import encode
from recnas.baselines.zoo import build
from recnas.bench.entrants import HandCrafted
from recnas.data.schema import Schema
from recnas.errors import ConfigError, SpaceError
from recnas.model.embeddings import build_embeddings
from recnas.train.settings import TrainSettings
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


def finalmlp(p, x, v, w, gates, layers, places=(0, 0)):
    """`gates`: the column that gates each stream, or None for no gates. `places`: of the contexts in table rows, in vectors."""
    outs, width = [], SHAPE.width
    for k in range(2):
        given = golden.flat(x, v[:, :width])
        if gates and gates[k] is None:
            hidden = np.maximum(0, golden.linear(p, f"gates.{k}.hidden", p[f"gates.{k}.context"][0]))
        elif gates:
            context = v[gates[k], places[k] * width : (places[k] + 1) * width]
            hidden = np.maximum(0, golden.linear(p, f"gates.{k}.hidden", context))
        if gates:
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


OWN = [
    ((1, 4), (1, 1), (4, 8, 4, 4, 8)),
    ((2, None), (1, 0), (4, 4, 8, 4, 4)),
    ((3, 3), (1, 2), (4, 4, 4, 12, 4)),  # two gates on one field
]


@pytest.mark.parametrize(("gates", "places", "columns"), OWN)
def test_finalmlp_with_contexts_of_their_own(gates, places, columns):
    given = {"first_context": gates[0], "second_context": gates[1], "own_contexts": True}
    network = shaken("finalmlp", {**SMALL, "fusion_heads": 2, "gate_width": 3, **given})
    assert network.field_columns.columns == columns
    assert network.field_columns.width == network.table_width(4) == max(columns)
    assert_equals_loops(network, finalmlp, gates=gates, places=places, layers=(2, 2))

    # What tables do not have is not read: it has no gradient. What they have has one.
    dense, embedded = inputs(network)
    embedded.requires_grad_()
    network(dense, embedded).square().sum().backward()
    read = embedded.grad.abs().sum(0) > 0
    assert read.tolist() == [[place < own for place in range(max(columns))] for own in columns]


def test_tables_of_own_contexts_are_trained_as_tables_beside_the_others_would_be():
    """The twin has the contexts as further fields, with tables of their own, and reads nothing else of them."""
    names = {"first_context": 0, "second_context": 2, "own_contexts": True}
    network = build("finalmlp", SHAPE, {**SMALL, "fusion_heads": 2, **names}, seed=1)
    twin = build("finalmlp", SHAPE, {**SMALL, "fusion_heads": 2, **names}, seed=1)
    kinds = {"lr": 0.05, "optimizer": "adam", "l2": 0.01, "l2_kind": "dense", "std": 0.1, "backend": "plain"}
    sizes = [9, 5, 7, 4, 6]
    tables = build_embeddings(Schema.of_shape(3, sizes), seed=2, layout=network.field_columns, **kinds)
    beside = build_embeddings(Schema.of_shape(3, [*sizes, 9, 7]), width=4, seed=3, **kinds)
    narrow, wide = list(tables.weights.values()), list(beside.weights.values())
    with torch.no_grad():
        for one, other in zip(narrow, wide):
            other.copy_(one[:, :4])
        for one, other in zip((narrow[0], narrow[2]), wide[5:]):
            other.copy_(one[:, 4:])
    generator = torch.Generator().manual_seed(4)
    for _ in range(5):
        ids = torch.stack([torch.randint(size, (16,), generator=generator) for size in sizes], 1)
        dense, label = torch.randn(16, 3, generator=generator), torch.rand(16, generator=generator).round()
        for model, held, given in ((network, tables, ids), (twin, beside, torch.cat((ids, ids[:, [0, 2]]), 1))):
            lookup = held.begin(given)
            rows = lookup.leaf
            if model is twin:
                none = torch.zeros(16, 4)
                further = torch.stack([rows[:, 5], none, rows[:, 6], none, none], 1)
                rows = torch.cat((rows[:, :5], further), 2)
            torch.nn.functional.binary_cross_entropy_with_logits(model(dense, rows), label).backward()
            lookup.apply(1.0)
    for one, other in zip(narrow, wide):
        torch.testing.assert_close(one[:, :4], other)
    for one, other in zip((narrow[0], narrow[2]), wide[5:]):
        torch.testing.assert_close(one[:, 4:], other)
        assert (one[:, 4:] - one[:, :4]).abs().max() > 1e-3


@pytest.mark.parametrize("settings", [{}, {"use_gates": False, "first_context": 1}])
def test_own_contexts_without_a_column_are_refused(settings):
    with pytest.raises(ConfigError, match="set first_context or second_context too"):
        build("finalmlp", SHAPE, {**settings, "own_contexts": True})


def test_nasrec_plus_has_no_contexts_of_their_own():
    with pytest.raises(SpaceError, match=r"(?s)another one in its gates.*set own_contexts to false"):
        encode("finalmlp", SHAPE, {"first_context": 1, "own_contexts": True})


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
    # One bias for both streams; the contexts' tables are left out like the others.
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
            "own_contexts": True,
        },
        253_392 - 53_990 - 10 * (956 + 4084) - 1,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "settings", "expected"), PUBLISHED)
def test_published_settings_give_the_published_number_of_parameters(name: str, settings, expected: int):
    assert count_params(build(name, FRAPPE, settings)) == expected


def test_finalmlp_as_published_with_its_tables():
    """53,990 numbers in the vectors' tables, 50,400 in those of the two contexts, and one bias for both streams."""
    (name, options, _) = PUBLISHED[-1]
    given = tuple({**options, "norm": "batch"}.items())
    settings = TrainSettings(embeddings={"width": 10})
    entrant = HandCrafted(name, name, given=given)
    schema = Schema.of_shape(0, [956, 4084, 9, 9, 4, 5, 4, 11, 82, 235])
    built = entrant.build(entrant.default(settings), schema, settings, 0, torch.device("cpu"))
    assert (
        built.cost["embedding_params"] == sum(t.numel() for t in built.embeddings.weights.values()) == 53_990 + 50_400
    )
    assert built.cost["params"] + built.cost["embedding_params"] == 253_392 - 1

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from recnas.baselines.base import InputShape, start_tables
from recnas.baselines.counts import count_macs, count_params
from recnas.baselines.zoo import ALIASES, ZOO, build, check_model_settings
from recnas.data.schema import Schema
from recnas.errors import ConfigError
from recnas.model.embeddings import build_embeddings
from recnas.train.recipe import LEARNING_RATES, model_options, recipe_grid, recipe_of
from recnas.train.settings import TrainSettings
from tests.unit.baselines import golden

SHAPE = InputShape(n_dense=3, n_sparse=5, width=4)
NAMES = sorted(ZOO)


def inputs(network, rows: int = 7, shape: InputShape = SHAPE, seed: int = 0, padding: int = 0):
    generator = torch.Generator().manual_seed(seed)
    width = network.table_width(shape.width) + padding
    dense = torch.randn(rows, shape.n_dense, generator=generator)
    return dense, torch.randn(rows, shape.n_sparse, width, generator=generator)


def shaken(name: str, settings=None, shape: InputShape = SHAPE, seed: int = 0):
    """A network none of whose parameters are at a special value such as zero or one."""
    network = build(name, shape, settings, seed)
    generator = torch.Generator().manual_seed(99)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return network


def by_loop(network, compute, dense, embedded, **options) -> np.ndarray:
    parameters = {name: p.detach().double().numpy() for name, p in network.named_parameters()}
    vectors = network.table_width(SHAPE.width) - network.first_order
    found = []
    for x, rows in zip(dense.double().numpy(), embedded.double().numpy()):
        v, w = rows[:, :vectors], rows[:, vectors] if network.first_order else None
        found.append(compute(parameters, x, v, w, **options))
    return np.array(found)


def test_every_model_has_a_golden_computation():
    assert sorted(golden.GOLDEN) == NAMES


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("padding", [0, 3])
def test_forward_equals_the_papers_formula_computed_by_loops(name: str, padding: int):
    settings, compute = golden.GOLDEN[name]
    network = shaken(name, settings)
    dense, embedded = inputs(network, padding=padding)
    with torch.no_grad():
        found = network(dense, embedded).numpy()
    assert found.shape == (7,)
    np.testing.assert_allclose(found, by_loop(network, compute, dense, embedded), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("kind", ["each", "interaction"])
def test_fibinet_bilinear_forms(kind: str):
    network = shaken("fibinet", {"hidden": (6, 4), "bilinear": kind})
    dense, embedded = inputs(network)
    expected = by_loop(network, golden.fibinet, dense, embedded, kind=kind)
    np.testing.assert_allclose(network(dense, embedded).detach().numpy(), expected, rtol=2e-4, atol=2e-5)


def test_masknet_serial():
    settings = {**golden.GOLDEN["masknet"][0], "structure": "serial"}
    network = shaken("masknet", settings)
    dense, embedded = inputs(network)
    expected = by_loop(network, golden.masknet, dense, embedded, serial=True)
    np.testing.assert_allclose(network(dense, embedded).detach().numpy(), expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *((name, golden.GOLDEN[name][0]) for name in NAMES),
        ("dcn-v2", {"rank": 2, "structure": "stacked"}),
        ("xdeepfm", {"cin": (3,), "dense_fields": True}),
        ("fibinet", {"bilinear": "interaction", "dense_fields": True, "norm": "layer"}),
        ("autoint+", {"dense_fields": False}),
        ("autoint+", {"residual": "plain", "scaled": True, "attention_norm": True, "attention_dropout": 0.1}),
        ("dlrm", {"interaction": "cat", "norm": "batch"}),
        ("finalmlp", {"hidden": (6,), "fusion_heads": 2, "first_context": 0, "second_context": 2, "norm": "batch"}),
        ("finalnet", {"hidden": (8, 6), "second": (4,), "norm": "batch"}),
        ("gdcn", {"structure": "stacked", "norm": "batch"}),
        ("wukong", {"norm": "batch", "dropout": 0.1}),
        ("fm", {"dense_fields": False}),
    ],
)
def test_the_gradient_reaches_every_parameter_and_every_embedding(name: str, settings):
    network = shaken(name, settings)
    dense, embedded = inputs(network, rows=64)
    embedded.requires_grad_()
    network(dense, embedded).square().sum().backward()
    for parameter_name, parameter in network.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.abs().sum() > 0, parameter_name
    assert (embedded.grad.abs().sum(0) > 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_without_dense_columns(name: str):
    shape = SHAPE._replace(n_dense=0)
    network = build(name, shape, {k: v for k, v in golden.GOLDEN[name][0].items() if k != "bottom"})
    dense, embedded = inputs(network, shape=shape)
    logits = network(dense, embedded)
    logits.sum().backward()
    assert logits.shape == (7,)
    assert all(p.numel() and p.grad is not None for p in network.parameters())


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_alone_decides_weights_and_dropout(name: str):
    settings = {"dropout": 0.5} if "dropout" in ZOO[name].settings.model_fields else None
    before = torch.get_rng_state()
    one, two, other = (build(name, SHAPE, settings, seed) for seed in (3, 3, 4))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters()))
    if name != "lr":  # starts from zero
        assert any(not torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters()))
    dense, embedded = inputs(one, rows=32)
    for network, noise in ((one, 1), (two, 2)):
        torch.manual_seed(noise)  # global state must not matter
        network.begin_step(5)
    first, again = one(dense, embedded), two(dense, embedded)
    assert torch.equal(first, again)
    one.begin_step(6)
    two.eval()
    if settings:
        assert not torch.equal(one(dense, embedded), first)
        assert not torch.equal(two(dense, embedded), first)
    assert torch.equal(two(dense, embedded), two(dense, embedded))


def test_dropout_keeps_the_mean_and_drops_the_share():
    from recnas.baselines.layers import Draws, Dropout

    draws = Draws(7)
    layer, x = Dropout(0.3, draws), torch.ones(400, 500)
    draws.begin(0)
    out = layer(x)
    assert abs(float((out == 0).float().mean()) - 0.3) < 0.01
    assert abs(float(out.mean()) - 1) < 0.01
    assert not torch.equal(out, layer(x))  # two layers of one step draw differently


@pytest.mark.parametrize("name", NAMES)
def test_counts(name: str):
    network = build(name, SHAPE, golden.GOLDEN[name][0])
    assert count_params(network) == sum(p.numel() for p in network.parameters())
    assert count_macs(network, SHAPE) > 0
    assert network.training


def test_multiply_adds_by_hand():
    # 3 numbers and 5 vectors of 4: 23 inputs.
    assert count_macs(build("lr", SHAPE), SHAPE) == 3
    assert count_macs(build("dnn", SHAPE, {"hidden": (6, 4)}), SHAPE) == 23 * 6 + 6 * 4 + 4
    assert count_macs(build("dcn", SHAPE, {"hidden": (6, 4), "crosses": 3}), SHAPE) == 23 * 4 + 166
    assert count_macs(build("dcn-v2", SHAPE, {"hidden": (6, 4), "crosses": 2}), SHAPE) == 2 * 23 * 23 + 23 + 166
    assert count_macs(build("gdcn", SHAPE, {"hidden": (6, 4), "crosses": 2}), SHAPE) == 4 * 23 * 23 + 23 + 166
    one_block = {"hidden": (6, 4), "blocks": 1, "field_gate": False}
    assert count_macs(build("finalnet", SHAPE, one_block), SHAPE) == 166
    gate, first, second = 5 * 5 * 4, 43 * 6 + 6 * 4 + 4, 166
    assert count_macs(build("finalnet", SHAPE, {"hidden": (6, 4)}), SHAPE) == gate + first + second
    # 8 fields of 4 (dense columns are fields): 32 inputs, 16 of them computed by each layer.
    crosses = {"exponential": 1, "linear": 2}
    assert count_macs(build("dcnv3", SHAPE, crosses), SHAPE) == 3 * 32 * 16 + 2 * 32
    settings = {"hidden": (6, 4), "layers": 1, "fm_rows": 4, "linear_rows": 3, "rank": 2, "fm_hidden": (5,)}
    machine = 2 * 8 * 4 * 2 + 16 * 5 + 5 * 16
    mixing = 3 * 8 * 4 + 7 * 8 * 4  # compression and residual
    assert count_macs(build("wukong", SHAPE, settings), SHAPE) == machine + mixing + 28 * 6 + 6 * 4 + 4


@pytest.mark.parametrize("name", NAMES)
def test_grids_hold_valid_settings_and_papers_are_cited(name: str):
    entry = ZOO[name]
    for key, values in entry.grid.items():
        assert len(set(values)) == len(values) > 1
        for value in values:
            check_model_settings(name, {key: value})
    doc = sys.modules[entry.network.__module__].__doc__ or ""
    assert any(f"{year}" in doc for year in range(2007, 2026)), "the paper is cited"


def test_learning_rates_are_declared_for_every_optimizer():
    assert set(LEARNING_RATES) == {"adagrad", "adamw"}
    assert all(list(rates) == sorted(set(rates)) for rates in LEARNING_RATES.values())
    assert set(ALIASES.values()) <= set(ZOO)


def test_first_order_weights_start_at_zero_and_vectors_do_not():
    schema = Schema.of_shape(3, [50] * 5)
    for name, vectors in (("lr", 0), ("deepfm", 4), ("dnn", 4)):
        network = build(name, SHAPE)
        for padding in (0, 3):
            tables = build_embeddings(schema, width=network.table_width(4) + padding, backend="plain")
            start_tables(tables, network, 4)
            for table in tables.weights.values():
                assert (table[:, vectors:] == 0).all()
                assert (table[:, :vectors] != 0).all()


def test_faults_are_explained():
    with pytest.raises(ConfigError, match="did you mean 'deepfm'"):
        build("depfm", SHAPE)
    with pytest.raises(ConfigError, match="unknown key 'dropuot'; did you mean 'dropout'"):
        build("dnn", SHAPE, {"dropuot": 0.1})
    with pytest.raises(ConfigError, match="fusion_heads 4 does not divide the last width 6"):
        build("finalmlp", SHAPE, {"hidden": (6,)})
    with pytest.raises(ConfigError, match="at least 2 maps"):
        build("xdeepfm", SHAPE, {"cin": (1, 4)})
    with pytest.raises(ConfigError, match="the width 5 has no two halves"):
        build("finalnet", SHAPE, {"second": (6, 5)})
    with pytest.raises(ConfigError, match="column 5 cannot be the context of a gate: the data have 5"):
        build("finalmlp", SHAPE, {"second_context": 5})
    with pytest.raises(ConfigError, match="norm"):
        build("dnn", SHAPE, {"norm": "group"})
    with pytest.raises(ConfigError, match="needs categorical columns"):
        build("fm", SHAPE._replace(n_sparse=0))
    assert build("dnn", SHAPE._replace(n_sparse=0))(torch.zeros(2, 3), torch.zeros(2, 0, 4)).shape == (2,)


def test_no_model_tunes_what_belongs_to_the_recipe_of_all() -> None:
    for name, entry in ZOO.items():
        assert not set(entry.grid) & {"norm", *recipe_grid(TrainSettings())}, name
        options = model_options(name, TrainSettings(dropout=0.3, norm="batch"), recipe_of(TrainSettings()))
        assert options.get("dropout", 0.3) == 0.3
        check_model_settings(name, options)

"""Normalisation of the perceptrons: what it computes, in training, in evaluation, and in an exported model."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from recnas.baselines.base import DeepSettings, InputShape
from recnas.baselines.zoo import ZOO, build
from recnas.data.schema import Schema
from recnas.model.embeddings import build_embeddings
from recnas.serve.program import ONNX_PACKAGES, read_program, write_program
from tests.unit.baselines.test_zoo import SHAPE, inputs, shaken

DEEP = sorted(name for name, entry in ZOO.items() if issubclass(entry.settings, DeepSettings))
BATCH_NORM = {"hidden": (8, 4), "norm": "batch"}
has_onnx = all(importlib.util.find_spec(package) for package in ONNX_PACKAGES)


def perceptron(network, x: np.ndarray, mean_and_variance) -> np.ndarray:
    """The DNN's perceptron on all rows `[B, n]` at once, in numpy."""
    p = {name: value.detach().double().numpy() for name, value in network.state_dict().items()}
    for i in range(2):
        x = x @ p[f"deep.layers.{i}.weight"].T + p[f"deep.layers.{i}.bias"]
        mean, variance = mean_and_variance(p, i, x)
        x = (x - mean) / np.sqrt(variance + 1e-5) * p[f"deep.norms.{i}.weight"] + p[f"deep.norms.{i}.bias"]
        x = np.maximum(0, x)
    return (x @ p["deep.out.weight"].T + p["deep.out.bias"])[:, 0]


def test_batch_norm_comes_before_the_activation_and_evaluation_uses_running_statistics():
    network = shaken("dnn", {"hidden": (6, 4), "norm": "batch"})
    dense, embedded = inputs(network, rows=50)
    x = torch.cat((embedded.flatten(1), dense), 1).double().numpy()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    first = x @ before["deep.layers.0.weight"].double().numpy().T + before["deep.layers.0.bias"].double().numpy()
    trained = network(dense, embedded).detach().numpy()
    expected = perceptron(network, x, lambda p, i, y: (y.mean(0), y.var(0)))
    np.testing.assert_allclose(trained, expected, rtol=2e-4, atol=2e-5)
    running = network.state_dict()["deep.norms.0.running_var"].numpy()
    np.testing.assert_allclose(running, 0.9 + 0.1 * first.var(0, ddof=1), rtol=1e-4)  # torch keeps the unbiased one
    network.eval()
    names = "deep.norms.{}.running_mean", "deep.norms.{}.running_var"
    expected = perceptron(network, x, lambda p, i, y: tuple(p[name.format(i)] for name in names))
    found = network(dense, embedded).detach()
    np.testing.assert_allclose(found.numpy(), expected, rtol=2e-4, atol=2e-5)
    # Rows do not see each other in evaluation, and running statistics travel with the weights.
    torch.testing.assert_close(network(dense[:1], embedded[:1]), found[:1])
    other = build("dnn", SHAPE, {"hidden": (6, 4), "norm": "batch"}, seed=5).eval()
    other.load_state_dict(network.state_dict())
    torch.testing.assert_close(other(dense, embedded), found, rtol=0, atol=0)


def test_layer_norm_is_per_row():
    network = shaken("dnn", {"hidden": (6, 4), "norm": "layer"})
    dense, embedded = inputs(network)
    x = torch.cat((embedded.flatten(1), dense), 1).double().numpy()
    expected = perceptron(network, x, lambda p, i, y: (y.mean(1, keepdims=True), y.var(1, keepdims=True)))
    np.testing.assert_allclose(network(dense, embedded).detach().numpy(), expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", DEEP)
def test_every_deep_model_has_batch_norm_and_takes_a_single_row(name: str):
    network = shaken(name, BATCH_NORM)
    dense, embedded = inputs(network, rows=16)
    network(dense, embedded)
    statistics = [value.clone() for key, value in network.state_dict().items() if key.endswith("running_mean")]
    assert statistics
    assert all(value.abs().sum() > 0 for value in statistics)
    lone = network(dense[:1], embedded[:1])  # the last batch of an epoch may be as small
    after = [value for key, value in network.state_dict().items() if key.endswith("running_mean")]
    assert all(torch.equal(a, b) for a, b in zip(statistics, after))
    network.eval()
    torch.testing.assert_close(network(dense[:1], embedded[:1]), lone)
    torch.testing.assert_close(network(dense, embedded)[:1], lone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("to", ["pt2", pytest.param("onnx", marks=pytest.mark.skipif(not has_onnx, reason="no onnx"))])
@pytest.mark.parametrize("name", ["dnn", "finalnet", "gdcn", "dcnv3", "wukong"])
def test_an_exported_model_equals_the_network(name: str, to: str, tmp_path: Path):
    schema = Schema.of_shape(2, [50] * 3)
    settings = BATCH_NORM if name in DEEP else {}
    network = build(name, InputShape.of(schema, 4), settings, seed=1)
    tables = build_embeddings(schema, width=network.table_width(4), backend="plain", seed=1)
    generator = torch.Generator().manual_seed(0)
    dense = torch.randn(64, 2, generator=generator)
    ids = torch.randint(0, 50, (64, 3), generator=generator)
    embedded = tables.lookup(ids).detach()
    for _ in range(5):
        network(3 * dense + 1, embedded)  # moves the running statistics away from where they start
    network.eval()
    expected = network(dense, embedded).detach().sigmoid()
    model = SimpleNamespace(network=network, tables=tables.reader(), schema=schema)
    program = read_program(write_program(model, to, tmp_path))  # type: ignore[arg-type]
    torch.testing.assert_close(program(dense, ids), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(program(dense[:1], ids[:1]), expected[:1], atol=1e-5, rtol=0)

"""Every hand-crafted model is a point of nasrec-plus: the same function, the same gradients, the same cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from recnas.baselines.base import InputShape
from recnas.baselines.counts import count_macs, count_params
from recnas.baselines.encoded import copy_weights, encode
from recnas.baselines.zoo import ZOO, build
from recnas.data.schema import Schema
from recnas.model.nasrec.subnet import Subnet
from recnas.space.nasrec.cost import count
from recnas.space.nasrec.layers import NetShape
from recnas.space.plus import PlusSpace

SHAPE = InputShape(5, 7, 8)
ROWS = 6


def small(name: str) -> dict[str, Any]:
    """Narrow layers: the tests compare numbers, and widths are checked by their own."""
    narrow: dict[str, Any] = {
        "hidden": (12, 8, 6), "bottom": (12, 6), "cin": (10, 8), "mask_width": 9, "block_width": 10, "gate_width": 9,
        "fm_hidden": (11,), "fm_rows": 4, "linear_rows": 4, "fusion_heads": 2,
    }  # fmt: skip
    if name == "finalmlp":
        narrow["hidden"] = (12, 8)  # heads divide it
    return {key: value for key, value in narrow.items() if key in ZOO[name].settings.model_fields}


def cases() -> list[tuple[str, dict[str, Any]]]:
    """Every point of each model's grid that differs in one setting, its structures, norms and options."""
    found: list[tuple[str, dict[str, Any]]] = []
    for name, entry in ZOO.items():
        base = small(name)
        found.append((name, base))
        for key, values in entry.grid.items():
            found += [(name, {**base, key: value}) for value in values if key not in ("hidden", "cin")]
        if "norm" in entry.settings.model_fields:
            found += [(name, {**base, "norm": norm}) for norm in ("batch", "layer")]
        found += [(name, {**base, **further}) for further in FURTHER.get(name, ())]
    return found


FURTHER: dict[str, tuple[dict[str, Any], ...]] = {
    "fm": ({"dense_fields": False},),
    "fwfm": ({"dense_fields": False},),
    "deepfm": ({"dense_fields": False},),
    "xdeepfm": ({"dense_fields": True}, {"cin": (9,)}, {"cin": (6, 8, 5)}),
    "dcn-v2": ({"rank": 3}, {"structure": "stacked"}, {"rank": 3, "structure": "stacked"}),
    "gdcn": ({"structure": "stacked"},),
    "dcnv3": ({"mask_norm": False},),
    "dlrm": ({"interaction": "cat"},),
    "masknet": ({"blocks": 4},),
    "autoint+": (
        {"residual": "plain", "scaled": True, "attention_norm": True},
        {"residual": "plain", "heads": 2, "head_width": 4},
        {"residual": "none", "dense_fields": False},
    ),
    "fibinet": ({"bilinear": "interaction"}, {"dense_fields": True}, {"hidden": (12,)}),
    "finalmlp": ({"use_gates": False}, {"first_context": 1, "second_context": 3, "second": (10, 4)}),
    "finalnet": ({"field_gate": False}, {"second": (10,)}),
    "wukong": ({"rank": 3},),
}


def pair(name: str, settings: dict[str, Any], shape: InputShape = SHAPE, seed: int = 0) -> tuple[Any, Subnet]:
    """The hand-crafted model with nothing at a special value, and the encoded network with its weights."""
    model = build(name, shape, settings, seed=seed).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.1)
        for key, buffer in model.named_buffers():
            if "running" in key:
                buffer.add_(torch.rand(buffer.shape, generator=generator, dtype=torch.float64))
    network = Subnet(encode(name, shape, settings), NetShape(*shape)).double()
    copy_weights(name, model, network)
    return model, network


def inputs(model: Any, shape: InputShape = SHAPE) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(9)
    embedded = torch.randn(ROWS, shape.n_sparse, model.table_width(shape.width), generator=generator)
    dense = torch.randn(ROWS, shape.n_dense, generator=generator)
    return dense.double(), embedded.double().requires_grad_()


def gradients(network: torch.nn.Module, dense: torch.Tensor, embedded: torch.Tensor) -> tuple[torch.Tensor, Any]:
    logits = network(dense, embedded)
    weights = torch.linspace(1, 2, len(logits), dtype=logits.dtype)
    loss = torch.nn.functional.softplus(logits * weights).sum()
    found = torch.autograd.grad(loss, [embedded, *network.parameters()], allow_unused=True)
    return logits, found


def assert_same(name: str, settings: dict[str, Any], shape: InputShape = SHAPE) -> None:
    model, network = pair(name, settings, shape)
    assert network.table_width(shape.width) == model.table_width(shape.width)
    assert network.start_scale == model.start_scale
    for training in (False, True):
        model.train(training), network.train(training)
        dense, embedded = inputs(model, shape)
        expected, theirs = gradients(model, dense, embedded)
        found, mine = gradients(network, dense, embedded)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
        if shape.n_sparse:
            torch.testing.assert_close(mine[0], theirs[0], rtol=1e-7, atol=1e-9)
        # Gradients are copied as weights are: what goes to one place in the one network goes there in the other.
        for parameter, gradient in zip(model.parameters(), theirs[1:]):
            parameter.grad = gradient
        values = {key: parameter.detach().clone() for key, parameter in network.named_parameters()}
        with torch.no_grad():
            kept = [parameter.detach().clone() for parameter in model.parameters()]
            for parameter in model.parameters():
                parameter.copy_(torch.zeros_like(parameter) if parameter.grad is None else parameter.grad)
            statistics = {key: buffer.clone() for key, buffer in network.named_buffers()}
            copy_weights(name, model, network)
            for (key, wanted), gradient in zip(network.named_parameters(), mine[1:]):
                gradient = torch.zeros_like(wanted) if gradient is None else gradient
                torch.testing.assert_close(gradient, wanted.detach(), rtol=1e-7, atol=1e-9, msg=f"gradient of {key}")
                wanted.copy_(values[key])
            for parameter, value in zip(model.parameters(), kept):
                parameter.copy_(value)
            for key, buffer in network.named_buffers():  # both have seen the same batches
                torch.testing.assert_close(buffer, statistics[key])


@pytest.mark.parametrize(("name", "settings"), cases(), ids=str)
def test_the_encoded_network_is_the_hand_crafted_one(name: str, settings: dict[str, Any]):
    assert_same(name, settings)


@pytest.mark.parametrize("name", ZOO)
def test_without_numeric_columns(name: str):
    assert_same(name, small(name), InputShape(0, 6, 8))


def test_a_perceptron_without_categorical_columns():
    assert_same("dnn", small("dnn"), InputShape(5, 0, 8))


@pytest.mark.parametrize(("name", "settings"), cases(), ids=str)
def test_cost_is_that_of_the_zoo_and_the_point_is_searchable(name: str, settings: dict[str, Any]):
    model, arch, space = build(name, SHAPE, settings), encode(name, SHAPE, settings), PlusSpace()
    schema = Schema.of_shape(SHAPE.n_dense, [10] * SHAPE.n_sparse)
    cost = count(arch, schema, width=SHAPE.width)
    assert cost.params == count_params(model)
    assert cost.macs == count_macs(model, SHAPE)
    assert cost.embedding_params == 10 * SHAPE.n_sparse * model.table_width(SHAPE.width)
    space.validate(arch)
    assert space.from_dict(space.to_dict(arch)) == arch
    rng = np.random.default_rng(0)
    for _ in range(5):
        child = space.mutate(arch, rng)
        space.validate(child)
        assert child.key != arch.key
        assert Subnet(child, NetShape(*SHAPE)) is not None


@pytest.mark.parametrize("name", ZOO)
def test_at_the_published_widths_of_criteo(name: str):
    """The defaults of the zoo: only the figures, on an empty model."""
    shape = InputShape(13, 26, 16)
    model = build(name, shape)
    cost = count(encode(name, shape), Schema.of_shape(13, [10] * 26), width=16)
    assert (cost.params, cost.macs) == (count_params(model), count_macs(model, shape))


def test_dropout_drops_the_same_units():
    settings = {**small("dnn"), "dropout": 0.4}
    model, network = pair("dnn", settings)
    network.dropout.draws.seed = model.draws.seed
    dense, embedded = inputs(model)
    for step in range(3):
        for part in (model, network):
            part.train()
            part.begin_step(step)
        torch.testing.assert_close(network(dense, embedded), model(dense, embedded))

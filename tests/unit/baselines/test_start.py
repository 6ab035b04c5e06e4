"""Every network that is trained from scratch starts at the click rate, also where clicks are rare."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from recnas.baselines.base import InputShape, start_tables
from recnas.baselines.zoo import ZOO, build
from recnas.data.schema import Schema
from recnas.model.embeddings import build_embeddings
from recnas.model.nasrec.subnet import Subnet, new_subnet
from recnas.model.nasrec.supernet import Supernet
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.layers import NetShape
from recnas.train.loop import FixedNetwork, SupernetPaths
from recnas.train.paths import PathSampler
from recnas.train.start import click_logit, start_at

RATE, ROWS = 0.005, 4096


def rows(schema: Schema) -> tuple[torch.Tensor, torch.Tensor]:
    """Dense values as preparation leaves counts (logarithms), ids by a falling frequency."""
    rng = np.random.default_rng(0)
    dense = np.log1p(rng.geometric(0.05, (ROWS, schema.n_dense)))
    ids = [np.minimum(rng.geometric(0.05, ROWS), size - 1) for size in schema.table_rows]
    return torch.tensor(dense, dtype=torch.float32), torch.tensor(np.stack(ids, 1))


@pytest.mark.parametrize("shape", [(0, 4), (3, 8), (13, 26)])
@pytest.mark.parametrize("name", ZOO)
def test_every_hand_crafted_model_starts_at_the_click_rate(name: str, shape: tuple[int, int]):
    schema = Schema.of_shape(shape[0], [100] * shape[1])
    network = build(name, InputShape.of(schema, 16), seed=0)
    tables = build_embeddings(schema, width=network.table_width(16), optimizer="adagrad", lr=0.1, seed=0)
    start_tables(tables, network, 16)
    dense, ids = rows(schema)
    start_at(FixedNetwork(network), [click_logit(RATE, 10_000)], dense[:512], tables.lookup(ids[:512]))
    with torch.no_grad():
        mean = network.eval()(dense, tables.lookup(ids)).sigmoid().mean().item()
    assert RATE / 1.5 < mean < RATE * 1.5


@pytest.mark.parametrize("seed", range(6))
def test_searched_networks_and_the_supernet_start_there_too(seed: int):
    schema, space = Schema.of_shape(13, [100] * 26), NasrecSpace("nasrec-full", blocks=4)
    shape = NetShape(13, 26, 16)
    dense, ids = rows(schema)
    embedded = build_embeddings(schema, width=16, optimizer="adagrad", lr=0.1, seed=seed).lookup(ids)
    arch = space.sample(np.random.default_rng(seed))
    network = new_subnet(arch, shape, seed)
    start_at(FixedNetwork(network), [click_logit(RATE, 10_000)], dense[:512], embedded[:512])
    supernet = Supernet(space, shape, torch.Generator().manual_seed(seed))
    start_at(
        SupernetPaths(supernet, PathSampler(space, seed, 10), head_lr_share=0.05),
        [click_logit(RATE, 10_000)],
        dense[:512],
        embedded[:512],
    )
    with torch.no_grad():
        assert RATE / 1.5 < network(dense, embedded).sigmoid().mean().item() < RATE * 1.5
        inside = supernet.candidate(arch)(dense[:64], embedded[:64])
        alone = Subnet(arch, shape).copy_from(supernet)
        assert alone.output_bias.item() == pytest.approx(math.log(RATE / (1 - RATE)))
        torch.testing.assert_close(alone(dense[:64], embedded[:64]), inside)


@pytest.mark.parametrize(("rate", "expected"), [(0.0, 1 / 102), (None, 1 / 102), (1.0, 101 / 102), (0.25, 0.25)])
def test_rows_that_are_all_alike_count_as_if_one_were_not(rate: float | None, expected: float):
    assert click_logit(rate, 100) == pytest.approx(math.log(expected / (1 - expected)))

"""Built networks against the arithmetic of `recnas.space.nasrec.cost` and against published totals."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from numpy.random import default_rng
from torch.utils.flop_counter import FlopCounterMode

from recnas.data.schema import Schema
from recnas.model.kernels import plain_kernels
from recnas.model.nasrec.subnet import Subnet
from recnas.model.nasrec.supernet import Supernet
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.cost import count
from recnas.space.nasrec.json import load_arch
from recnas.space.nasrec.layers import NetShape

SCHEMA = Schema.of_shape(13, [10] * 26)


@pytest.mark.parametrize("name", ["nasrec-small", "nasrec-full"])
def test_parameters_and_multiply_adds(name, layernorm):
    space, rng = NasrecSpace(name), default_rng(7)
    shape = NetShape.of(SCHEMA, layernorm=layernorm)
    for _ in range(30):
        arch = space.sample(rng)
        cost = count(arch, SCHEMA, layernorm=layernorm)
        with torch.device("meta"):
            subnet = Subnet(arch, shape)
            dense, embedded = torch.empty(2, 13), torch.empty(2, 26, 16)
        assert sum(p.numel() for p in subnet.parameters()) == cost.params
        counter = FlopCounterMode(display=False)
        with counter, plain_kernels(), torch.no_grad():
            subnet(dense, embedded)
        assert counter.get_total_flops() == 2 * 2 * cost.macs  # two rows, two operations per multiply-add


@pytest.mark.parametrize(("name", "millions"), [("nasrec-small", 31), ("nasrec-full", 172)])
def test_supernet_size(name, millions):
    space = NasrecSpace(name)
    with torch.device("meta"):
        supernet = Supernet(space, NetShape.of(SCHEMA))
    parameters = sum(p.numel() for p in supernet.parameters())
    assert parameters == count(space.full_path(), SCHEMA).params
    assert round(parameters / 1e6) == millions


# dense fields, sparse fields, parameters with LayerNorm off and on
PUBLISHED = {
    "criteo_kaggle_autoctr": (13, 26, 1_779_720, 1_784_165),
    "criteo_kaggle_xlarge": (13, 26, 2_217_268, 2_222_323),
    "avazu_kaggle_autoctr": (1, 23, 2_838_609, 2_844_977),
    "avazu_kaggle_xlarge": (1, 23, 3_179_072, 3_187_494),
}


def _published_folder() -> Path:
    root = os.environ.get("RECNAS_SHARED")
    return (Path(root) if root else Path(__file__).resolve().parents[4] / "shared") / "data" / "nasrec_best"


@pytest.mark.skipif(not _published_folder().is_dir(), reason="NASRec's published architectures are not here")
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_architectures(name, layernorm):
    n_dense, n_sparse, off, on = PUBLISHED[name]
    arch = load_arch(_published_folder() / f"ea_{name}_best_1shot.json")
    subnet = Subnet(arch, NetShape(n_dense, n_sparse, layernorm=layernorm), keep_dead=True)
    parameters = sum(p.numel() for p in subnet.parameters())
    # The reference builds a LayerNorm for FM at embedding width and never applies it.
    unused = sum(2 * 16 for block in arch.blocks if block.fm and block.dense_dim == 16) if layernorm else 0
    assert parameters + unused == (on if layernorm else off)
    assert subnet(torch.randn(2, n_dense), torch.randn(2, n_sparse, 16)).isfinite().all()

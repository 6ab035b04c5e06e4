"""Tables narrower than the vectors: what networks read, what is stored and trained, and what stays as it was without."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from recnas.baselines.base import InputShape
from recnas.baselines.encoded import encode
from recnas.errors import BackendMissing, SpaceError
from recnas.model.embeddings.fused import load_kernels
from recnas.model.nasrec.scorable import ScoredNasrec
from recnas.model.nasrec.subnet import Subnet, new_subnet
from recnas.model.nasrec.supernet import Supernet
from recnas.proxies.engine import score
from recnas.proxies.network import ScoringBatch
from recnas.proxies.registry import get_proxies, proxy_names
from recnas.space.nasrec.cost import count
from recnas.space.plus import PlusSpace
from recnas.testing.proxy_suite import ScoredNetworkConformance
from recnas.train.settings import TrainSettings
from recnas.train.setup import make_tables
from tests.unit.model import plus_values
from tests.unit.model.plus_values import SCHEMA, SHAPE, space

NARROW = ((0, 0.25), (2, 0.0), (3, 0.5), (6, 0.0))  # of vectors of 8: 2, none, 4, none
KEPT = (2, 8, 0, 4, 8, 8, 0)


def with_widths() -> PlusSpace:
    own = PlusSpace(blocks=4, dense_dims=(0, 8, 24, 40), sparse_dims=(4, 8, 12), table_widths=True)
    return own.on(7)


def inputs(width: int, rows: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    dense = torch.randn(rows, 5, generator=generator, dtype=torch.float64)
    embedded = torch.randn(rows, 7, width, generator=generator, dtype=torch.float64) * 0.3
    return dense, embedded


def cut(embedded: torch.Tensor, first_order: bool) -> torch.Tensor:
    """By hand: the components that a field does not keep are zero, and of a dropped one its own weight too."""
    found = embedded.clone()
    for field, kept in enumerate(KEPT):
        found[:, field, kept:8] = 0
        if first_order and not kept:
            found[:, field, 8:] = 0
    return found


def archs():
    rng = np.random.default_rng(8)
    yield encode("deepfm", InputShape(5, 7, 8))
    yield encode("dcn-v2", InputShape(5, 7, 8))
    yield encode("xdeepfm", InputShape(5, 7, 8))
    yield from (space().sample(rng) for _ in range(12))


def test_networks_without_narrow_tables_are_what_they_were():
    """Keys, files and costs to the letter; outputs and gradients as far as machines agree."""
    before = json.loads((Path(__file__).parent / "plus_values.json").read_text())
    now = plus_values.values()
    assert list(now) == list(before)
    for name, line in now.items():
        for exact in ("key", "file", "cost"):
            assert line[exact] == before[name][exact], f"{exact} of {name}"
        for close in {"logits", "gradient", "shared"} & line.keys():
            np.testing.assert_allclose(line[close], before[name][close], rtol=1e-7, atol=1e-9, err_msg=name)


def test_a_narrower_field_reads_zeros_beyond_its_columns():
    for arch in archs():
        narrow, width = replace(arch, narrow=NARROW), 8 + arch.first_order
        plain = Subnet(arch, SHAPE, torch.Generator().manual_seed(7)).double()
        network = Subnet(narrow, SHAPE, torch.Generator().manual_seed(7)).double()
        dense, embedded = inputs(width)
        embedded.requires_grad_()
        by_hand = cut(embedded.detach(), arch.first_order).requires_grad_()
        found, expected = network(dense, embedded), plain(dense, by_hand)
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
        pairs = ((found, embedded), (expected, by_hand))  # some networks read numbers alone
        (mine,), (theirs,) = (torch.autograd.grad(y.sum(), x, materialize_grads=True) for y, x in pairs)
        torch.testing.assert_close(mine, cut(theirs, arch.first_order))
        assert arch.key != narrow.key


def test_a_candidate_of_the_supernet_is_the_network_alone():
    own, rng = with_widths(), np.random.default_rng(1)
    net = Supernet(own, SHAPE, torch.Generator().manual_seed(1)).double()
    dense, embedded = inputs(9)
    drawn = [own.sample(rng) for _ in range(40)]
    assert {share for arch in drawn for _, share in arch.narrow} == {0.0, 0.25, 0.5}
    for arch in drawn:
        alone = Subnet(arch, net.shape).double().copy_from(net).train()
        columns = [*range(8), 8] if arch.first_order else [*range(8)]
        stored = embedded[..., columns] if arch.table_width(8) > 1 else embedded[..., 8:]
        torch.testing.assert_close(net.candidate(arch)(dense, embedded), alone(dense, stored))


def scored(narrow=NARROW):
    """A candidate that reads vectors in several ways, and scoring data."""
    own = with_widths()
    net = Supernet(own, SHAPE, torch.Generator().manual_seed(1)).double()
    for name, storage in net.storages.items():
        if name.endswith("bias"):
            storage.add_(0.1)
    arch = replace(encode("deepfm", InputShape(5, 7, 8), {"hidden": [40, 24]}), narrow=narrow)
    batches = []
    for seed in range(2):
        dense, embedded = inputs(9, 12)
        batches.append(ScoringBatch((dense + seed, embedded), torch.arange(12) % 2 * 1.0))
    return ScoredNasrec.of(net.candidate(arch)), batches


class TestScoredNetworkWithNarrowTables(ScoredNetworkConformance):
    def case(self):
        network, batches = scored()
        return network, batches[0]

    def test_forward_reads_the_parameters_it_is_given(self):
        pytest.skip("sums of products and weights of ids are logits without parameters; see test_plus")


def test_every_proxy_sees_what_the_network_reads():
    network, batches = scored()
    plain, _ = scored(())
    by_hand = [ScoringBatch((b.inputs[0], cut(b.inputs[1], True)), b.labels) for b in batches]
    proxies = get_proxies(proxy_names())
    found, expected = score(network, batches, proxies, 0), score(plain, by_hand, proxies, 0)
    own_inputs = {"synflow", "hnas_synflow", "zen", "jacob_cov", "epe_nas"}  # rows of their own, or derivatives by rows
    for name, one in found.items():
        if name in own_inputs:
            assert np.isfinite(one.value), name
        else:
            np.testing.assert_allclose(one.value, expected[name].value, rtol=1e-6, err_msg=name)


def test_counted_is_stored():
    arch = replace(encode("deepfm", InputShape(5, 7, 8)), narrow=NARROW)  # with a weight per id
    network = new_subnet(arch, SHAPE, 0)
    settings = TrainSettings.model_validate({"embeddings": {"width": 8, "backend": "plain", "l2": 0}})
    tables = make_tables(SCHEMA, settings, 3, torch.device("cpu"), network)
    by_hand = {"C1": [11, 3], "C2": [5, 9], "C4": [7, 5], "C5": [2, 9], "C6": [40, 9]}
    assert {name: list(table.shape) for name, table in tables.weights.items()} == by_hand
    values = sum(rows * columns for rows, columns in by_hand.values())
    cost = count(arch, SCHEMA, width=8)
    assert (cost.embedding_params, cost.embedding_bytes) == (values, 4 * values)
    assert sum(size.weights for size in tables.sizes()) == 4 * values
    assert sum(size.state for size in tables.sizes()) == 4 * values  # Adagrad's sums
    full = count(replace(arch, narrow=()), SCHEMA, width=8)
    assert full.embedding_params == sum(SCHEMA.table_rows) * 9
    assert (cost.params, cost.macs) == (full.params, full.macs)


def kernels_load() -> bool:
    try:
        load_kernels()
    except BackendMissing:
        return False
    return True


@pytest.mark.parametrize("model", ["deepfm", "dcn-v2"])
@pytest.mark.parametrize(
    ("backend", "optimizer", "l2", "kind"),
    [
        ("plain", "adagrad", 0.0, "lazy"),
        ("plain", "adam", 0.0, "lazy"),
        ("plain", "adagrad", 0.01, "lazy"),
        ("plain", "adam", 0.01, "dense"),
        ("fused", "adagrad", 0.0, "lazy"),
        ("fused", "adam", 0.0, "lazy"),
    ],
)
def test_training_is_that_of_full_tables_whose_further_columns_nobody_reads(model, backend, optimizer, l2, kind):
    if backend == "fused" and not kernels_load():
        pytest.skip("the fused backend does not load here")
    arch = replace(encode(model, InputShape(5, 7, 8)), narrow=NARROW, start_scale=0.3)
    tables = {"width": 8, "optimizer": optimizer, "l2": l2, "l2_kind": kind}
    narrow_settings = TrainSettings.model_validate({"embeddings": {**tables, "backend": backend}})
    full_settings = TrainSettings.model_validate({"embeddings": {**tables, "backend": "plain"}})
    network = new_subnet(arch, SHAPE, 0)
    mine = make_tables(SCHEMA, narrow_settings, 3, torch.device("cpu"), network)
    wide = new_subnet(replace(arch, narrow=()), SHAPE, 0)
    full = make_tables(SCHEMA, full_settings, 3, torch.device("cpu"), wide)
    full = _masked_l2(full, arch.first_order) if l2 else full
    rng = np.random.default_rng(0)
    for _ in range(6):
        ids = torch.from_numpy(np.stack([rng.integers(0, rows, 20) for rows in SCHEMA.table_rows], 1))
        dense = torch.from_numpy(rng.standard_normal((20, 5)).astype(np.float32))
        lookups = [embeddings.begin(ids) for embeddings in (mine, full)]
        for lookup in lookups:
            network(dense, lookup.leaf).square().sum().backward()
        norms = [lookup.table_gradient().norm() for lookup in lookups]
        torch.testing.assert_close(*norms)
        for lookup in lookups:
            lookup.apply(0.5)
    read = [cut(embeddings.lookup(ids), arch.first_order) for embeddings in (mine, full)]
    torch.testing.assert_close(*read, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(mine.reader().lookup(ids), mine.lookup(ids))
    assert read[0].abs().sum() > 0
    for field, (name, kept) in enumerate(zip(full.weights, KEPT)):
        if not kept:
            assert name not in mine.weights
            continue
        torch.testing.assert_close(mine.weights[name][:, :kept], full.weights[name][:, :kept], rtol=1e-5, atol=1e-6)
        assert field == int(name[1:]) - 1


def _masked_l2(embeddings, first_order):
    """L2 pulls at columns that nobody reads too; they start at zero here, so that there is nothing to pull at."""
    for (_, table), kept in zip(embeddings.weights.items(), KEPT):
        table[:, kept:8] = 0
    return embeddings


def test_state_goes_on_where_it_was():
    arch = replace(encode("deepfm", InputShape(5, 7, 8)), narrow=NARROW)
    network = new_subnet(arch, SHAPE, 0)
    settings = TrainSettings.model_validate({"embeddings": {"width": 8, "optimizer": "adam", "backend": "plain"}})
    one, other = (make_tables(SCHEMA, settings, seed, torch.device("cpu"), network) for seed in (3, 4))

    def step(embeddings, seed):
        rng = np.random.default_rng(seed)
        ids = torch.from_numpy(np.stack([rng.integers(0, rows, 20) for rows in SCHEMA.table_rows], 1))
        lookup = embeddings.begin(ids)
        network(torch.ones(20, 5), lookup.leaf).square().sum().backward()
        lookup.apply()
        return embeddings.lookup(ids)

    step(one, 0)
    other.load_state_dict({part: {n: t.clone() for n, t in ts.items()} for part, ts in one.state_dict().items()})
    other.set_steps(one.steps)
    assert one.steps == 1
    torch.testing.assert_close(step(one, 1), step(other, 1), rtol=0, atol=0)


def test_every_field_may_be_dropped():
    arch = replace(encode("dcn-v2", InputShape(5, 7, 8)), narrow=tuple((field, 0.0) for field in range(7)))
    network = new_subnet(arch, SHAPE, 0)
    settings = TrainSettings.model_validate({"embeddings": {"width": 8}})
    tables = make_tables(SCHEMA, settings, 3, torch.device("cpu"), network)
    assert tables.nbytes == 0
    lookup = tables.begin(torch.zeros(4, 7, dtype=torch.int64))
    network(torch.ones(4, 5), lookup.leaf).sum().backward()
    lookup.apply()
    assert not lookup.leaf.any()


def test_columns_that_the_data_do_not_have_are_named():
    arch = replace(encode("dcn-v2", InputShape(5, 7, 8)), narrow=((7, 0.5),))
    with pytest.raises(SpaceError, match="column 7 is narrower, and the data have 7 categorical"):
        count(arch, SCHEMA)
    with pytest.raises(SpaceError, match="column 7"):
        Subnet(arch, SHAPE)

"""Data with several values in a column, through loaders, training and scoring: nothing but tables knows about them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from recnas.baselines.base import InputShape
from recnas.baselines.zoo import ZOO, build
from recnas.data.loader import BatchLoader
from recnas.data.rank_batch import PartBatch
from recnas.model.nasrec.subnet import new_subnet
from recnas.model.nasrec.supernet import Supernet
from recnas.space.plus import PlusSpace
from recnas.train.checkpoint import load_latest, save
from recnas.train.evaluate import evaluate
from recnas.train.loop import FixedNetwork, SupernetPaths, Trainer
from recnas.train.paths import PathSampler
from recnas.train.settings import EmbeddingSettings, TrainSettings
from recnas.train.setup import make_loader, make_tables, net_shape, new_trainer
from recnas.train.warm import WarmStart

CPU = torch.device("cpu")
SETTINGS = TrainSettings(batch_size=256, epochs=2, lr=0.03, threads=1, device="cpu", clip=1.0, embeddings=EmbeddingSettings(width=8, optimizer="adam", lr=0.005))  # fmt: skip


def trainer_of(data, network, settings: TrainSettings = SETTINGS, steps: int = 24) -> Trainer:
    torch.set_num_threads(1)
    trainee = FixedNetwork(network)
    embeddings = make_tables(data.schema, settings, 0, CPU, network)
    loader = make_loader(data, settings, 0, CPU)
    return new_trainer(trainee, embeddings, loader, settings, CPU, steps, data)


def an_arch(data, seed: int = 0, widths: bool = True):
    space = PlusSpace(blocks=3, dense_dims=(0, 8, 24), sparse_dims=(4, 8), table_widths=widths).on(data.schema.n_sparse)
    rng = np.random.default_rng(seed)
    return next(a for a in (space.sample(rng) for _ in range(500)) if bool(a.narrow) == widths and a.first_order)


def test_batches_hold_what_the_files_hold(bagged_data):
    dense, ids = (np.asarray(bagged_data.array("train", name)) for name in ("dense", "ids"))
    batches = list(BatchLoader(bagged_data, "train", 300).epoch())
    np.testing.assert_array_equal(np.concatenate([batch.ids for batch in batches]), ids)
    assert batches[0].ids.dtype == torch.int64
    rows = {(tuple(d), tuple(i)) for d, i in zip(dense.tolist(), ids.tolist())}
    loader = BatchLoader(bagged_data, "train", 300, shuffle=True, seed=3)
    mixed = [row for batch in loader.epoch() for row in zip(batch.dense.tolist(), batch.ids.tolist())]
    assert {(tuple(d), tuple(i)) for d, i in mixed} == rows
    assert len(mixed) == len(ids)
    assert (np.array([i for _, i in mixed]) != ids).any()
    again = BatchLoader(bagged_data, "train", 300, shuffle=True, seed=3)
    again.load_state_dict({"epoch": 0, "batch": 2})
    np.testing.assert_array_equal(next(again.epoch()).ids, np.array([i for _, i in mixed[600:900]]))
    shares = [
        list(BatchLoader(bagged_data, "train", 300, rank=rank, world=2, split_batches=True).epoch()) for rank in (0, 1)
    ]
    assert all(isinstance(batch, PartBatch) for batch in shares[0])
    whole = torch.cat([torch.cat([a.ids[: a.real], b.ids[: b.real]]) for a, b in zip(*shares)])
    np.testing.assert_array_equal(whole, ids)


@pytest.mark.parametrize("widths", [False, True])
def test_a_resumed_training_is_the_uninterrupted_one(bagged_data, tmp_path: Path, widths: bool):
    arch = an_arch(bagged_data, widths=widths)

    def make() -> Trainer:
        return trainer_of(bagged_data, new_subnet(arch, net_shape(bagged_data.schema, SETTINGS), 0, 0.0))

    whole, first, second = make(), make(), make()
    whole.run()
    first.run(until=11)
    save(tmp_path, 11, first.tensors(), first.facts())
    saved = load_latest(tmp_path)
    assert any("attention/last" in name for name in saved.tensors)
    second.load(saved.tensors, saved.facts)
    second.run()
    for name, tensor in whole.tensors().items():
        assert torch.equal(tensor, second.tensors()[name]), name
    found = evaluate(whole.trainee.network, whole.embeddings, bagged_data, "train")
    assert found["auc"] > 0.6
    # And a training that goes on from its weights begins where it ended.
    third = make()
    WarmStart(whole.tensors(), {"run": "r"}).fill(third.trainee.network, third.embeddings)
    assert evaluate(third.trainee.network, third.embeddings, bagged_data, "train") == found


@pytest.mark.parametrize("name", list(ZOO))
def test_every_hand_crafted_model_learns_from_bags(bagged_data, name: str):
    network = build(name, InputShape.of(bagged_data.schema, 8), seed=0)
    trainer = trainer_of(
        bagged_data, network, SETTINGS.model_copy(update={"lr": 0.002 if name != "lr" else 0.1}), steps=6
    )
    before = {
        part: {n: t.clone() for n, t in tables.items()} for part, tables in trainer.embeddings.state_dict().items()
    }
    trainer.run()
    after = trainer.embeddings.state_dict()["weights"]
    assert set(after) == {"item", "user", "genres", "codes", "attention/last"}
    for table, tensor in after.items():
        assert not torch.equal(tensor, before["weights"][table]), table
    assert np.isfinite(evaluate(network, trainer.embeddings, bagged_data, "valid")["logloss"])


def test_a_supernet_trains_its_paths_on_bags(bagged_data):
    space = PlusSpace(blocks=2, dense_dims=(0, 8), sparse_dims=(4,)).on(bagged_data.schema.n_sparse)
    supernet = Supernet(space, net_shape(bagged_data.schema, SETTINGS), torch.Generator().manual_seed(0))
    embeddings = make_tables(bagged_data.schema, SETTINGS, 0, CPU, supernet)
    trainee = SupernetPaths(supernet, PathSampler(space, 0, 5), head_lr_share=1.0)
    trainer = new_trainer(trainee, embeddings, make_loader(bagged_data, SETTINGS, 0, CPU), SETTINGS, CPU, 5)
    trainer.run()
    arch = space.sample(np.random.default_rng(0))
    batch = next(bagged_data.batches("valid", 64))
    reader = embeddings.reader()  # what workers that score have
    torch.testing.assert_close(reader.lookup(batch.ids), embeddings.lookup(batch.ids))
    assert torch.isfinite(supernet.candidate(arch)(batch.dense, reader.lookup(batch.ids))).all()


def test_data_without_bags_are_read_as_before(weighted_data):
    """Steps on the single fields alone are bit for bit what they are when a bag without values stands behind them."""
    from recnas.data.schema import Bag, SparseField
    from recnas.model.embeddings import build_embeddings

    schema = weighted_data.schema
    wider = replace(schema, sparse=(*schema.sparse, SparseField("empty", 5, bag=Bag(3, "sum"))))
    one, two = build_embeddings(schema, 8, "plain", seed=1), build_embeddings(wider, 8, "plain", seed=1)
    for batch in weighted_data.batches("train", 300):
        ids = torch.cat([batch.ids, torch.ones(len(batch), 3, dtype=torch.int64)], 1)
        weight = torch.randn(len(batch), schema.n_sparse + 1, 8, generator=torch.Generator().manual_seed(1))
        first, second = one.begin(batch.ids), two.begin(ids)
        assert torch.equal(first.leaf, second.leaf[:, : schema.n_sparse])
        assert not second.leaf[:, schema.n_sparse :].any()
        (first.leaf * weight[:, : schema.n_sparse]).sum().backward()
        (second.leaf * weight).sum().backward()
        first.apply()
        second.apply()
    for name, table in one.weights.items():
        assert torch.equal(table, two.weights[name])

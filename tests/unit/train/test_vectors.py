"""Trainings that begin with pre-trained vectors: what tables start with, what stays, and that resuming changes nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from recnas.baselines.base import InputShape
from recnas.baselines.zoo import build
from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.data.prepared import PreparedData
from recnas.errors import ConfigError
from recnas.jobs.compare import compare
from recnas.model.nasrec.subnet import new_subnet
from recnas.serve.load import load_trained
from recnas.serve.program import Scorer
from recnas.space.nasrec import NasrecSpace
from recnas.space.plus.space import PlusSpace
from recnas.train import vectors as vectors_module
from recnas.train.checkpoint import load_latest
from recnas.train.distributed import Ranks
from recnas.train.loop import FixedNetwork
from recnas.train.settings import TrainSettings
from recnas.train.setup import make_loader, make_tables, net_shape, new_trainer, with_tables_of
from recnas.train.standalone import train
from recnas.train.vectors import use_vectors
from tests.unit.data.prepare.vector_logs import RECIPE, log_of, vectors_of

CPU = torch.device("cpu")
KNOWN = vectors_of()


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> PreparedData:
    folder = tmp_path_factory.mktemp("vectors")
    log_of(folder, 1200)
    (folder / "r.yaml").write_text(RECIPE)
    return prepare(str(folder / "r.yaml"), [folder / "log.csv"], folder / "d")


def settings_of(width: int = 6, **tables: object) -> TrainSettings:
    values = {"width": width, **tables}
    return TrainSettings(epochs=1, batch_size=64, stop={"patience": None}, schedule="constant", embeddings=values)


def trainer_of(data: PreparedData, settings: TrainSettings, name: str = "fm"):
    network = build(name, InputShape.of(data.schema, settings.embeddings.width), seed=0)
    tables = make_tables(data.schema, settings, 0, CPU, network)
    drawn = {key: table.clone() for key, table in tables.weights.items()}
    own = with_tables_of(network, settings)
    trainer = new_trainer(FixedNetwork(network), tables, make_loader(data, own, 0, CPU), own, CPU, data=data)
    return trainer, tables, drawn


def wanted(data: PreparedData, width: int) -> dict[int, np.ndarray]:
    """Rows of the item table that have a vector, by an own computation: the best linear map is that of the SVD."""
    values = pq.read_table(data.path / "vocab" / "item.parquet").column("value").to_pylist()
    every = np.array(list(KNOWN.values()), dtype=np.float64)
    _, _, right = np.linalg.svd(every, full_matrices=False)
    found = {}
    for place, value in enumerate(values):
        if value in KNOWN:
            vector = np.array(KNOWN[value])
            short = right[:width] @ vector if width < 6 else np.concatenate((vector, np.zeros(width - 6)))
            found[2 + place] = short
    return found


@pytest.mark.parametrize("backend", ["plain", "fused"])
@pytest.mark.parametrize("width", [4, 6, 8])
def test_tables_begin_with_the_vectors(data, backend, width):
    if backend == "fused":
        pytest.importorskip("torchrec")
        if width == 6:
            pytest.skip("fused tables have a multiple of 4 columns; fm's 7 are filled up to 8")
    _, tables, drawn = trainer_of(data, settings_of(width, backend=backend))
    item = tables.weights["item"].numpy()
    known = wanted(data, width)
    for row, vector in known.items():
        found = item[row, :width]
        if width < 6:  # up to the sign of each direction
            np.testing.assert_allclose(np.abs(found), np.abs(vector), atol=1e-5)
        else:
            np.testing.assert_allclose(found, vector, atol=1e-6)
    others = [row for row in range(len(item)) if row not in known]
    assert len(others) > 3
    np.testing.assert_array_equal(item[others], drawn["item"].numpy()[others])
    assert torch.equal(tables.weights["user"], drawn["user"])
    assert not item[:, width:].any()  # weights of their own begin at zero
    if width < 6:  # one map for all rows: inner products are those of the projected vectors
        rows = list(known)
        np.testing.assert_allclose(item[rows, :width] @ item[rows, :width].T,
                                   np.stack([known[r] for r in rows]) @ np.stack([known[r] for r in rows]).T, atol=1e-4)  # fmt: skip


OPTIMIZERS = [
    {"optimizer": "adagrad"},
    {"optimizer": "rowwise-adagrad"},
    {"optimizer": "adam"},
    {"optimizer": "adagrad", "l2": 0.1},
    {"optimizer": "adam", "l2": 0.1, "l2_kind": "dense"},
]


@pytest.mark.parametrize("backend", ["plain", "fused"])
@pytest.mark.parametrize("tables", OPTIMIZERS, ids=lambda t: "-".join(map(str, t.values())))
def test_frozen_rows_stay_and_all_others_learn(data, backend, tables):
    if backend == "fused":
        pytest.importorskip("torchrec")
    trainer, found, _ = trainer_of(data, settings_of(8, vectors="frozen", backend=backend, **tables))
    before = {name: table.clone() for name, table in found.weights.items()}
    trainer.run()
    known, item = list(wanted(data, 8)), found.weights["item"]
    assert torch.equal(item[known, :8], before["item"][known, :8])
    assert (item[known, 8] != 0).all()  # the weight an id has of its own
    others = [row for row in range(2, len(item)) if row not in known]
    assert (item[others, :8] != before["item"][others, :8]).any(1).all()
    assert (found.weights["user"][2:] != before["user"][2:]).any(1).all()


def test_trained_and_off(data):
    for how in ("as-prepared", "trained"):
        trainer, tables, _ = trainer_of(data, settings_of(6, vectors=how))
        before = tables.weights["item"].clone()
        trainer.run()
        known = list(wanted(data, 6))
        assert (tables.weights["item"][known] != before[known]).any(1).all()
    _, tables, drawn = trainer_of(data, settings_of(6, vectors="off"))
    assert torch.equal(tables.weights["item"], drawn["item"])
    trainer_of(data, settings_of(6), name="lr")  # reads no vectors


def test_frozen_gradients_are_not_in_the_norm(data):
    """Clipping sees what is trained: the norm is that of a training whose frozen rows are constants."""
    trainer, tables, _ = trainer_of(data, settings_of(6, vectors="frozen"))
    batch = next(make_loader(data, trainer.settings, 0, CPU).epoch())
    lookup = tables.begin(batch.ids)
    weight = torch.randn(lookup.leaf.shape, generator=torch.Generator().manual_seed(0))
    (lookup.leaf * weight).sum().backward()
    frozen = torch.zeros(len(tables.weights["item"]), dtype=torch.bool)
    frozen[list(wanted(data, 6))] = True
    expected = weight.clone()
    expected[:, 1, :6][frozen[batch.ids[:, 1]]] = 0
    assert torch.equal(lookup.leaf.grad, expected)


def test_narrow_tables_take_the_leading_components(data):
    space = PlusSpace(blocks=2, table_widths=True).on(2)
    rng = np.random.default_rng(0)
    arch = next(a for a in iter(lambda: space.sample(rng), None) if dict(a.narrow).get(1) == 0.5 and a.reads_vectors)
    settings = settings_of(4, vectors="frozen")
    network = new_subnet(arch, net_shape(data.schema, settings), 0)
    tables = make_tables(data.schema, settings, 0, CPU, network)
    trainer = new_trainer(FixedNetwork(network), tables, make_loader(data, settings, 0, CPU), settings, CPU, data=data)
    start = tables.weights["item"].clone()
    full, basis = data.read_vectors("item")
    known = list(wanted(data, 4))
    np.testing.assert_allclose(start[known, :2], (full.astype(float) @ basis)[known, :2], atol=1e-5)
    trainer.run()
    assert torch.equal(tables.weights["item"][known, :2], start[known, :2])


@pytest.fixture(scope="module")
def arch():
    return NasrecSpace("nasrec-small", blocks=1).sample(np.random.default_rng(1))


@pytest.mark.parametrize("l2", [0.0, 0.05])
def test_a_cut_training_goes_on_to_the_same_weights_and_predicts(data, arch, tmp_path: Path, monkeypatch, l2):
    settings = settings_of(4, vectors="frozen", l2=l2).model_copy(update={"checkpoint_seconds": 0.0})
    whole = train(arch, data, tmp_path / "whole", settings)
    real, steps = FixedNetwork.at_step, []

    def dies(self, step):
        steps.append(step)
        if step == 7:
            raise KeyboardInterrupt
        return real(self, step)

    monkeypatch.setattr(FixedNetwork, "at_step", dies)
    with pytest.raises(KeyboardInterrupt):
        train(arch, data, tmp_path / "cut", settings)
    monkeypatch.undo()
    assert train(arch, data, tmp_path / "cut", settings).test == whole.test
    states = [load_latest(tmp_path / run / "seed-0").tensors for run in ("whole", "cut")]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    model = load_trained(tmp_path / "cut")
    dense, ids = (torch.from_numpy(np.array(data.array("test", name)[:9])) for name in ("dense", "ids"))
    assert torch.equal(
        Scorer(model)(dense, ids.long()), model.predict(dense, ids.long())
    )  # what exports are traced from
    table = model.tables.stacks[0][len(states[0]["embeddings/weights/user"]) :]
    for row, vector in wanted(data, 4).items():
        np.testing.assert_allclose(np.abs(table[row].numpy()), np.abs(vector), atol=1e-5)


def test_the_next_day_goes_on_with_frozen_vectors(data, arch, tmp_path: Path):
    from recnas.serve.continued import warm_start

    settings = settings_of(4, vectors="frozen", l2=0.05)
    train(arch, data, tmp_path / "monday", settings)
    log_of(tmp_path, 500, seed=4, items=14)
    options = PrepareOptions(extend=str(data.path), protocol="random-8-1-1")
    tuesday = prepare(None, [tmp_path / "log.csv"], tmp_path / "d", options)
    _, same, warm = warm_start(str(tmp_path / "monday"), tuesday)
    train(same, tuesday, tmp_path / "tuesday", settings, warm=warm)
    before, after = (
        load_latest(tmp_path / day / "seed-0").tensors["embeddings/weights/item"] for day in ("monday", "tuesday")
    )
    known = list(wanted(data, 4))
    assert torch.equal(after[known], before[known])
    others = [row for row in range(2, len(before)) if row not in known]
    assert (after[others] != before[others]).any()


def test_comparisons_and_exports(data, tmp_path: Path):
    options = {"dnn": {"hidden": [8]}}
    runs = {}
    for how in ("frozen", "off"):
        runs[how] = compare(
            data, tmp_path / how, ["dnn"], settings=settings_of(4, vectors=how), seeds=1, options=options, keep=True
        )
    losses = [run.models[0].test["logloss"].mean for run in runs.values()]
    assert losses[0] != losses[1]
    table = load_trained(f"{tmp_path / 'frozen'}:dnn").tables.stacks[0][-len(data.read_vectors("item")[0]) :]
    for row, vector in wanted(data, 4).items():
        np.testing.assert_allclose(np.abs(table[row].numpy()), np.abs(vector), atol=1e-5)


def test_refusals(data, monkeypatch):
    with pytest.raises(ConfigError, match="hash_rows lets several values share a row"):
        trainer_of(data, settings_of(6, hash_rows=5))
    _, tables, _ = trainer_of(data, settings_of(6, cap=6))
    assert len(tables.weights["item"]) == 6
    network = build("fm", InputShape.of(data.schema, 6), seed=0)
    monkeypatch.setattr(vectors_module, "current_ranks", lambda: Ranks(0, 2))
    with pytest.raises(ConfigError, match="tables in one process, and there are several"):
        use_vectors(tables, data, network, settings_of(6))

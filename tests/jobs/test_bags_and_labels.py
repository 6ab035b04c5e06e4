"""Columns of several values and several labels in one data set, from the raw log to what is served."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.metrics import log_loss

from recnas.baselines.base import InputShape
from recnas.baselines.zoo import build
from recnas.data.batch import Batch
from recnas.data.loader import BatchLoader
from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.errors import ConfigError
from recnas.jobs.compare import compare
from recnas.serve.export import export
from recnas.serve.http.app import Limits, make_app
from recnas.serve.http.body import answer
from recnas.serve.http.served import open_served
from recnas.serve.load import load_trained
from recnas.serve.predict import predict
from recnas.space.nasrec.json import dump_arch
from recnas.space.plus.space import PlusSpace
from recnas.train.settings import TrainSettings
from recnas.train.setup import make_tables
from recnas.train.vectors import use_vectors

QUICK = TrainSettings(epochs=1, batch_size=128, lr=0.01, embeddings={"width": 4})


@pytest.fixture(scope="module")
def log(bagged_rows, bagged_recipe: Path, tmp_path_factory) -> Path:
    """A folder with r.yaml and log.csv: who clicks may buy, by one of the genres."""
    folder = tmp_path_factory.mktemp("both")
    rows = bagged_rows(2500)
    buys = np.random.default_rng(5).random(len(rows)) < 0.2 + 0.6 * rows.genres.str.contains("b")
    rows.insert(1, "bought", (rows.clicked.to_numpy() * buys).astype(int))
    rows.insert(2, "at", 1_700_000_000 + np.arange(len(rows)) // 3)
    rows.to_csv(folder / "log.csv", index=False)
    labels = "labels: [{column: clicked}, {column: bought, weight: 0.5}]"
    (folder / "r.yaml").write_text(bagged_recipe.read_text().replace("label: {column: clicked}", labels))
    return folder


@pytest.fixture(scope="module")
def data(log: Path):
    return prepare(str(log / "r.yaml"), [log / "log.csv"], log / "data", PrepareOptions(min_count=2))


@pytest.fixture(scope="module")
def board(log: Path, data):
    space, rng = PlusSpace(blocks=2, dense_dims=(0, 8, 16), sparse_dims=(4, 8)), np.random.default_rng(0)
    arch = next(one for one in iter(lambda: space.sample(rng), None) if one.first_order and one.reads_vectors)
    (log / "plus.json").write_text(dump_arch(arch))
    models = ["deepfm", str(log / "plus.json")]
    found = compare(
        data, log / "board", models, settings=QUICK, seeds=1, options={"deepfm": {"hidden": [16]}}, keep=True
    )
    assert not found.failed
    return found


def spec_of(log: Path, board, model: str) -> str:
    return f"{log / 'board'}:{next(row.id for row in board.models if row.model == model)}:seed-0"


def of_one_label(log: Path, folder: Path, bagged_recipe: Path):
    return prepare(str(bagged_recipe), [log / "log.csv"], folder, PrepareOptions(min_count=2))


def test_each_is_what_it_is_without_the_other(log, data, bagged_recipe, tmp_path: Path):
    rows = pd.read_csv(log / "log.csv")
    one = of_one_label(log, tmp_path / "one", bagged_recipe)
    assert one.fingerprint != data.fingerprint
    sums, wanted = data.manifest["checksums"], one.manifest["checksums"]
    others = [name for name in wanted if "label" not in name and not name.endswith((".parquet", ".json"))]
    assert sum("genres" in name for name in others) == 6
    assert {name: sums[name] for name in others} == {name: wanted[name] for name in others}
    assert data.verify() == []
    for split in ("train", "valid", "test"):
        label = np.asarray(data.array(split, "label"))
        assert label[:, 0].tolist() == np.asarray(one.array(split, "label")).tolist()
    total = sum(np.asarray(data.array(split, "label"))[:, 1].sum() for split in ("train", "valid", "test"))
    assert total == rows.bought.sum()
    straight = next(BatchLoader(data, "train", 300).epoch())
    assert straight.ids.shape == (300, data.schema.n_ids)
    assert straight.label.shape == (300, 2)
    rows_of = [
        sorted(map(tuple, torch.cat([one.ids, one.label.long()], 1).tolist()))
        for one in (
            whole_epoch(BatchLoader(data, "train", 300)),
            whole_epoch(BatchLoader(data, "train", 300, shuffle=True, seed=3)),
        )
    ]
    assert rows_of[0] == rows_of[1]


def whole_epoch(loader: BatchLoader) -> Batch:
    batches = list(loader.epoch())
    return Batch(*(torch.cat([getattr(one, name) for one in batches]) for name in ("dense", "ids", "label")))


def test_an_origin_counts_no_value_of_rows_that_come_later(log, tmp_path: Path):
    """Of a bag too, with a vocabulary of all splits: a value that the last rows alone have gets no id."""
    rows = pd.read_csv(log / "log.csv", dtype=str, keep_default_na=False)
    rows.loc[2010:, "genres"] = "late|" + rows.genres[2010:]
    rows.to_csv(tmp_path / "log.csv", index=False)
    time = "\ntime: {column: at, format: epoch-seconds, zone: '+00:00'}\n"
    (tmp_path / "r.yaml").write_text((log / "r.yaml").read_text() + time)
    options = PrepareOptions(protocol="rolling", origins=3, window=0.1, origin=1, vocab_scope="all")
    found = prepare(str(tmp_path / "r.yaml"), [tmp_path / "log.csv"], tmp_path / "d", options)
    assert found.manifest["later"] > 400
    values = pd.read_parquet(tmp_path / "d" / "vocab" / "genres.parquet").value.tolist()
    assert "a" in values
    assert "late" not in values
    assert sum(found.rows(split) for split in ("train", "valid", "test")) + found.manifest["later"] == 2500


def test_a_preparation_that_was_stopped_goes_on(log, data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from recnas.data.prepare.publish import Finisher

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    given = str(log / "r.yaml"), [log / "log.csv"], tmp_path / "d", PrepareOptions(min_count=2)
    with monkeypatch.context() as patch:
        patch.setattr(Finisher, "run", stop)
        with pytest.raises(KeyboardInterrupt):
            prepare(*given)
    ends = tmp_path / "d" / ".work" / "done" / "train" / "genres.ends.i64"
    ends.write_bytes(bytes(8) + ends.read_bytes()[8:])  # and its last write was lost
    assert prepare(*given).fingerprint == data.fingerprint


def test_boards_judge_both_labels(log, data, board):
    label = np.asarray(data.array("test", "label"))
    for row in board.models:
        (file,) = (log / "board" / "predictions").glob(f"*{row.id[:8]}*seed-0.npy")
        p = 1 / (1 + np.exp(-np.load(file).astype(float)))
        losses = [log_loss(label[:, i], p[:, i]) for i in (0, 1)]
        assert row.value("test", "logloss").mean == pytest.approx(losses[0] + 0.5 * losses[1], rel=1e-5)


@pytest.mark.parametrize("model", ["deepfm", "plus"])
def test_predicted_exported_and_served_rows(log, board, tmp_path: Path, model: str):
    spec = spec_of(log, board, model)
    rows = pd.read_csv(log / "log.csv", dtype=str, keep_default_na=False).head(40)
    rows.drop(columns=["clicked", "bought"]).to_csv(tmp_path / "new.csv", index=False)
    predict(spec, [tmp_path / "new.csv"], tmp_path / "p.parquet")
    known = load_trained(spec).predict(rows)
    assert list(known.columns) == ["clicked", "bought"]
    found = pd.read_parquet(tmp_path / "p.parquet")[["probability_clicked", "probability_bought"]]
    np.testing.assert_allclose(found, known, rtol=1e-5)
    assert known.std().min() > 1e-3
    # Which also gives raw rows to score_row.py and compares.
    costs = export(spec, "pt2", tmp_path / "small", int8=True)["int8"]
    assert costs["logloss"]["before"] == pytest.approx(costs["logloss"]["after"], abs=0.01)
    bodies = rows.drop(columns=["clicked", "bought", "at"]).to_dict("records")
    for target, near in ((spec, 1e-5), (str(tmp_path / "small"), 0.02)):
        served = open_served(target, "torch")
        said = answer(served, json.dumps(bodies).encode(), 100)
        assert said.status == 200
        np.testing.assert_allclose(pd.DataFrame(said.content["probabilities"]), known, atol=near)
        alone = answer(served, json.dumps(bodies[3]).encode(), 100).content["probability"]
        assert alone == pytest.approx(said.content["probabilities"][3], abs=1e-6)
        schema = asyncio.run(schema_over_http(served))
        assert schema["ignored"][:2] == ["clicked", "bought"]
        assert answer(served, json.dumps(schema["examples"]).encode(), 100).status == 200
        assert schema["examples"][0]["last"].startswith("i")


async def schema_over_http(served) -> dict:
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.request"}

    await make_app(served, Limits())({"type": "http", "method": "GET", "path": "/schema", "headers": []}, receive, send)
    return json.loads(sent[1]["body"])


def test_vectors_in_a_table_that_a_sequence_reads_are_trained_and_not_frozen(log, tmp_path: Path):
    known = {f"i{n}": np.random.default_rng(n).normal(size=4).astype(np.float32) for n in range(9)}
    pq.write_table(
        pa.table({"id": list(known), "vector": [one.tolist() for one in known.values()]}), tmp_path / "v.parquet"
    )
    (tmp_path / "r.yaml").write_text((log / "r.yaml").read_text() + "\nvectors: [{column: item, file: v.parquet}]\n")
    options = PrepareOptions(side=(str(tmp_path / "v.parquet"),))
    found = prepare(str(tmp_path / "r.yaml"), [log / "log.csv"], tmp_path / "d", options)
    values = pq.read_table(found.path / "vocab" / "item.parquet").column("value").to_pylist()
    network = build("fm", InputShape.of(found.schema, 4), seed=0)
    tables = make_tables(found.schema, QUICK, 0, torch.device("cpu"), network)
    use_vectors(tables, found, network, QUICK)
    assert tables.weights["item"].shape[1] == 6  # and a first-order weight of each label
    for place, value in enumerate(values):
        if value in known:
            assert tables.weights["item"][2 + place, :4].tolist() == known[value].tolist()
    frozen = QUICK.model_copy(update={"embeddings": QUICK.embeddings.model_copy(update={"vectors": "frozen"})})
    with pytest.raises(ConfigError, match="item cannot be frozen: last, with several values"):
        use_vectors(tables, found, network, frozen)

"""A click and a conversion, from the raw log to the exported program: each step against a computation of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.metrics import log_loss, roc_auc_score

from recnas.cli.main import main
from recnas.data.loader import BatchLoader
from recnas.data.prepare.prepare import prepare
from recnas.data.prepared import PreparedData
from recnas.data.raw.recipe import load_recipe
from recnas.data.schema import Schema
from recnas.errors import ConfigError, DataError
from recnas.jobs.compare import compare
from recnas.jobs.search import search
from recnas.runs.ledger import Ledger
from recnas.serve.load import load_trained
from recnas.serve.predict import predict
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.json import dump_arch
from recnas.train.loss import click_loss, click_loss_sum
from recnas.train.metrics import LabelMetrics
from recnas.train.settings import TrainSettings
from tests.jobs.search_helpers import small_search

RECIPE = """
name: shop
separator: ","
header: true
labels:
  - {column: click}
  - {column: bought, name: conversion, weight: 0.5, at_least: 1}
dense: [{columns: [price], transform: none}]
sparse: [{columns: [user, item]}]
"""
QUICK = TrainSettings(epochs=2, batch_size=128, lr=0.01, embeddings={"width": 4})


def shop_rows(rows: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    user, item, price = rng.integers(0, 12, rows), rng.integers(0, 9, rows), rng.normal(size=rows).round(6)
    logit = np.linspace(-1.5, 1, 12)[user] + np.linspace(0.8, -0.8, 9)[item] + 0.7 * price
    click = rng.random(rows) < 1 / (1 + np.exp(-logit))
    bought = np.where(
        click & (rng.random(rows) < 1 / (1 + np.exp(-np.linspace(-2, 1, 9)[item]))), rng.integers(1, 4, rows), 0
    )
    columns = {"click": click.astype(int), "bought": bought, "price": price}
    return pd.DataFrame({**columns, "user": [f"u{u}" for u in user], "item": [f"i{i}" for i in item]})


@pytest.fixture(scope="module", autouse=True)
def no_latency():
    """Times of answers take seconds to measure and are not what is tested here."""
    with pytest.MonkeyPatch.context() as patch:
        times = dict.fromkeys(("p50_ms_1", "p99_ms_1", "p50_ms_512", "p99_ms_512"), 1.0)
        patch.setattr(sys.modules["recnas.jobs.compare.running"], "latency_percentiles", lambda *_, **__: times)
        yield


@pytest.fixture(scope="module")
def shop(tmp_path_factory) -> tuple[Path, PreparedData]:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop.yaml").write_text(RECIPE)
    shop_rows(3000).to_csv(folder / "log.csv", index=False)
    return folder, prepare(str(folder / "shop.yaml"), [folder / "log.csv"], folder / "data")


@pytest.fixture(scope="module")
def board(shop, tmp_path_factory):
    folder, data = shop
    (folder / "mine.json").write_text(dump_arch(NasrecSpace("nasrec-small", blocks=1).sample(np.random.default_rng(1))))
    models = ["dnn", "fm", "esmm", str(folder / "mine.json")]
    options = {"dnn": {"hidden": [16]}, "esmm": {"hidden": [16, 8]}}
    return compare(data, folder / "board", models, settings=QUICK, seeds=2, options=options, keep=True)


def test_arrays_are_those_of_the_log(shop):
    folder, data = shop
    rows = pd.read_csv(folder / "log.csv").drop_duplicates("price", keep=False).set_index("price")
    rows.index = rows.index.astype(np.float32)
    for split in ("train", "valid", "test"):
        label, price = np.asarray(data.array(split, "label")), np.asarray(data.array(split, "dense"))[:, 0]
        assert label.shape == (data.rows(split), 2)
        some = np.isin(price, rows.index)
        assert some.sum() > 200
        known = rows.loc[price[some]]
        assert label[some, 0].tolist() == known.click.tolist()
        assert label[some, 1].tolist() == (known.bought >= 1).astype(int).tolist()
        assert data.manifest["click_rate"][split] == label[:, 0].mean()
        assert data.label_rates(split) == label.mean(0).tolist()
        copy = pq.read_table(data.path / f"{split}.parquet")
        assert copy.column("label_conversion").to_pylist() == label[:, 1].tolist()
    assert data.verify() == []
    assert Schema.from_dict(json.loads(data.schema.to_json())) == data.schema
    batches = list(BatchLoader(data, "train", 100, shuffle=True).epoch())
    assert (
        torch.cat([batch.label for batch in batches]).sum(0).tolist()
        == np.asarray(data.array("train", "label")).sum(0).tolist()
    )
    assert batches[0].label_weights.tolist() == [1.0, 0.5]


def test_parquet_gives_the_same_and_one_label_alone_what_it_always_gave(shop, tmp_path: Path):
    folder, data = shop
    pd.read_csv(folder / "log.csv").to_parquet(tmp_path / "log.parquet", index=False)
    (tmp_path / "typed.yaml").write_text(
        RECIPE.replace("header: true", "format: parquet").replace('separator: ","', "")
    )
    assert (
        prepare(str(tmp_path / "typed.yaml"), [tmp_path / "log.parquet"], tmp_path / "p").fingerprint
        == data.fingerprint
    )
    lines = RECIPE.splitlines()
    (tmp_path / "one.yaml").write_text("\n".join(["label: {column: click}", *lines[1:4], *lines[7:]]))
    one = prepare(str(tmp_path / "one.yaml"), [folder / "log.csv"], tmp_path / "one")
    assert "labels" not in one.schema.to_dict()
    assert {"label_rates"}.isdisjoint(one.manifest)
    for split in ("train", "valid", "test"):
        assert np.asarray(one.array(split, "label")).tolist() == np.asarray(data.array(split, "label"))[:, 0].tolist()
        assert one.manifest["checksums"][f"{split}/ids.i32"] == data.manifest["checksums"][f"{split}/ids.i32"]
    assert next(BatchLoader(one, "train", 10).epoch()).label_weights is None


def test_rows_with_weights_and_negatives(shop, tmp_path: Path):
    folder, _ = shop
    (tmp_path / "w.yaml").write_text(RECIPE + "weight: {column: price2}\nnegatives: 0.5\n")
    rows = pd.read_csv(folder / "log.csv")
    rows["price2"] = np.arange(len(rows)) % 3 + 1
    rows.to_csv(tmp_path / "log.csv", index=False)
    data = prepare(str(tmp_path / "w.yaml"), [tmp_path / "log.csv"], tmp_path / "w")
    label, weight = (np.asarray(data.array("train", name)) for name in ("label", "weight"))
    assert data.label_rates("train") == pytest.approx(np.average(label, axis=0, weights=weight).tolist())
    assert data.manifest["click_rate"]["train"] == data.label_rates("train")[0]


def test_the_loss_is_the_weighted_sum():
    rng = np.random.default_rng(0)
    logits, label = rng.normal(size=(7, 3)), rng.integers(0, 2, (7, 3)).astype(float)
    weight, shares = rng.random(7), np.array([1.0, 0.5, 2.0])
    p = 1 / (1 + np.exp(-logits))
    rows = -(label * np.log(p) + (1 - label) * np.log(1 - p)) @ shares
    given = [torch.from_numpy(x) for x in (logits, label)]
    heavy, of_labels = torch.from_numpy(weight), torch.from_numpy(shares)
    assert click_loss(*given, None, of_labels).item() == pytest.approx(rows.mean())
    assert click_loss(*given, heavy, of_labels).item() == pytest.approx((rows * weight).sum() / weight.sum())
    assert click_loss_sum(*given, None, of_labels).item() == pytest.approx(rows.sum())
    from recnas.proxies.network import ScoringBatch, mean_loss, true_logits

    batch = ScoringBatch((), given[1], heavy, of_labels)
    assert mean_loss(given[0], batch).item() == pytest.approx((rows * weight).sum() / weight.sum())
    signed = (np.where(label == 1, logits, -logits) @ shares).tolist()
    assert true_logits(given[0], given[1], of_labels).tolist() == pytest.approx(signed)
    assert len(batch.classes.unique()) == len({tuple(row) for row in label.tolist()})


def test_figures_of_a_board(shop, board):
    folder, data = shop
    label = np.asarray(data.array("test", "label"))
    assert {row.model for row in board.models} == {"dnn", "fm", "esmm", "mine"}
    assert not board.failed
    for row in board.models:
        for seed, place in zip(row.seeds, range(2)):
            (file,) = (folder / "board" / "predictions").glob(f"*{row.id[:8]}*seed-{seed}.npy")
            p = 1 / (1 + np.exp(-np.load(file).astype(float)))
            assert p.shape == label.shape
            losses = [log_loss(label[:, i], p[:, i]) for i in (0, 1)]
            figures = {name: spread.values[place] for name, spread in row.test.items()}
            assert figures["logloss:click"] == pytest.approx(losses[0], rel=1e-5)
            assert figures["logloss:conversion"] == pytest.approx(losses[1], rel=1e-5)
            assert figures["logloss"] == pytest.approx(losses[0] + 0.5 * losses[1], rel=1e-5)
            assert figures["auc:conversion"] == pytest.approx(roc_auc_score(label[:, 1], p[:, 1]))
            assert figures["auc"] == figures["auc:click"] == pytest.approx(roc_auc_score(label[:, 0], p[:, 0]))
    rates = data.label_rates("train")
    guess = [log_loss(label[:, i], np.full(len(label), rate)) for i, rate in enumerate(rates)]
    assert board.guess["logloss"] == pytest.approx(guess[0] + 0.5 * guess[1])
    best, first = board.models[0], next(row for row in board.models if row.difference)
    assert best.value("test", "auc:conversion").mean > 0.6
    reference = next(row for row in board.models if row.model == board.reference)
    gap = first.value("test", "logloss").mean - reference.value("test", "logloss").mean
    assert first.difference.logloss == pytest.approx(gap, rel=1e-4, abs=1e-7)
    header = (folder / "board" / "leaderboard.csv").read_text().splitlines()[0].split(",")
    assert {"test_logloss:click", "test_auc:conversion", "test_calibration:conversion"} <= set(header)


def test_a_killed_comparison_goes_on_to_the_same_figures(shop, board, tmp_path: Path):
    _, data = shop
    options = {"dnn": {"hidden": [16]}}
    short = compare(data, tmp_path / "b", ["dnn"], settings=QUICK, seeds=1, options=options)
    again = compare(data, tmp_path / "b", ["dnn"], settings=QUICK, seeds=2, options=options)
    wanted = next(row for row in board.models if row.model == "dnn").test
    assert short.models[0].test["logloss"].values == wanted["logloss"].values[:1]
    assert {name: spread.values for name, spread in again.models[0].test.items()} == {
        n: s.values for n, s in wanted.items()
    }


@pytest.mark.parametrize("model", ["esmm", "mine"])
def test_predict_gives_a_probability_per_label(shop, board, tmp_path: Path, capsys, model):
    folder, _ = shop
    row = next(row for row in board.models if row.model == model)
    spec = f"{folder / 'board'}:{row.id}:seed-0"
    rows = pd.read_csv(folder / "log.csv")
    rows.drop(columns=["click", "bought"]).to_csv(tmp_path / "new.csv", index=False)
    predict(spec, [tmp_path / "new.csv"], tmp_path / "p.parquet")
    found = pd.read_parquet(tmp_path / "p.parquet")
    assert list(found.columns) == ["row", "probability_click", "probability_conversion", "reason"]
    known = load_trained(spec).predict(rows)
    assert list(known.columns) == ["click", "conversion"]
    np.testing.assert_allclose(found[["probability_click", "probability_conversion"]], known, rtol=1e-6)
    if model == "esmm":
        assert (found.probability_conversion <= found.probability_click).all()
    capsys.readouterr()
    assert main(["predict", spec, "--raw", str(folder / "log.csv"), "--out", str(tmp_path / "q.csv"), "--quiet"]) == 0
    said = capsys.readouterr().out
    whole = pd.read_csv(tmp_path / "q.csv")
    assert whole.label_conversion.tolist() == (rows.bought >= 1).astype(int).tolist()
    auc = roc_auc_score(whole.label_conversion, whole.probability_conversion)
    assert f"conversion: mean prediction {whole.probability_conversion.mean():.5f}" in said
    (line,) = [one for one in said.splitlines() if one.startswith("  conversion: mean")]
    assert float(line.split("auc ")[1]) == pytest.approx(auc, abs=1e-4)


def test_searches_and_reports_decide_by_the_sum(shop, board, tmp_path: Path, capsys):
    folder, data = shop
    final = {"candidates": 2, "rows": 1000, "train": {"batch_size": 128, "epochs": 1}}
    score = {"batches": 2, "batch_size": 64, "proxies": ["sigeo", "jacob_cov", "epe_nas", "snip", "ntk_trace"]}
    space = {"name": "nasrec-plus", "blocks": 2}
    found = search(small_search(data.path, final=final, score=score, space=space), tmp_path / "s")
    (line,) = Ledger(tmp_path / "s" / "winner" / "ledger.jsonl").read()
    label = np.asarray(data.array("valid", "label"))
    (file,) = (tmp_path / "s" / "winner" / "predictions").glob("valid-seed-*.npy")
    p = 1 / (1 + np.exp(-np.load(file).astype(float)))
    losses = [log_loss(label[:, i], p[:, i]) for i in (0, 1)]
    assert line["valid"]["logloss"] == pytest.approx(losses[0] + 0.5 * losses[1], rel=1e-5)
    assert found.test["logloss"] == pytest.approx(line["test"]["logloss"])
    assert main(["report", str(tmp_path / "s"), str(folder / "board"), "-o", str(tmp_path / "r.html")]) == 0
    assert "test AUC conversion" in (tmp_path / "r.html").read_text()
    capsys.readouterr()
    assert main(["importance", f"{tmp_path / 's'}:best", "--repeats", "1", "--json", "--quiet"]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert measured["logloss"] == pytest.approx(line["valid"]["logloss"], rel=1e-5)
    assert measured["auc"] == pytest.approx(line["valid"]["auc:click"], rel=1e-5)


def test_exported_program_and_script(shop, board, tmp_path: Path):
    from recnas.serve.export import export

    folder, _ = shop
    spec = f"{folder / 'board'}:esmm:seed-0"
    export(spec, "pt2", tmp_path / "served")
    about = json.loads((tmp_path / "served" / "model.json").read_text())
    output = about["program"]["output"]["probability"]
    assert output == {"type": "float32", "shape": ["batch", 2], "labels": ["click", "conversion"]}
    row = pd.read_csv(folder / "log.csv").iloc[[5]]
    line = row.drop(columns=["click", "bought"]).to_csv(index=False)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "served" / "score_row.py")], input=line.encode(), capture_output=True
    )
    assert done.returncode == 0, done.stderr
    given = [float(text) for text in done.stdout.split(b"\t")]
    assert given == pytest.approx(load_trained(spec).predict(row).to_numpy()[0].tolist(), abs=1e-6)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("labels: [{column: click}]", "labels has one entry"),
        ("labels: [{column: click}, {column: click, at_least: 2}]", "two labels have the same name"),
        ("labels: [{column: click}, {column: bought, weight: 0}]", "greater than 0"),
        ("labels: [{column: click}, {column: bought}]\nlabel: {column: bought}", "either label or labels"),
        ("labels: [{column: click}, {column: bought, name: a/b}]", "name 'a/b' of a label"),
        ("labels: [{column: click}, {column: bought}]\nweight: {column: bought}", "cannot be the weight too"),
    ],
)
def test_refused_recipes(tmp_path: Path, change, said):
    lines = RECIPE.splitlines()
    (tmp_path / "r.yaml").write_text("\n".join([*lines[:4], change, *lines[7:]]))
    with pytest.raises(ConfigError, match=said):
        load_recipe(str(tmp_path / "r.yaml"))


def test_bad_labels_are_told_by_their_own_column(shop, tmp_path: Path):
    folder, _ = shop
    (tmp_path / "r.yaml").write_text(RECIPE.replace(", at_least: 1", ""))
    with pytest.raises(DataError, match="column bought: the label is not 0 or 1") as error:
        prepare(str(tmp_path / "r.yaml"), [folder / "log.csv"], tmp_path / "d")
    assert "column: bought, at_least:" in error.value.fix
    rows = shop_rows(300)
    rows["bought"] = np.where(np.arange(300) % 3 == 0, -1, rows.bought.clip(0, 1))
    rows.to_csv(tmp_path / "log.csv", index=False)
    with pytest.raises(DataError, match="label bought is 0 in some rows and -1 in others"):
        prepare(str(tmp_path / "r.yaml"), [tmp_path / "log.csv"], tmp_path / "d")


def test_models_of_one_label_are_refused_or_left_out(shop):
    from recnas.tasks.models import resolve

    _, data = shop
    assert [e.id for e in resolve(["all"], data)][-1] == "esmm"
    with pytest.raises(ConfigError, match="lightgbm fits one label, and these data have 2"):
        resolve(["dnn", "lightgbm"], data)


def test_metrics_of_labels_are_those_of_each_alone(shop):
    _, data = shop
    rng = np.random.default_rng(0)
    logits, label = torch.from_numpy(rng.normal(size=(50, 2))), torch.from_numpy(rng.integers(0, 2, (50, 2)))
    metrics = LabelMetrics(data.schema.labels)
    metrics.update(logits[:20], label[:20])
    metrics.update(logits[20:], label[20:])
    found = metrics.result()
    p = logits.sigmoid().numpy()
    for i, name in enumerate(("click", "conversion")):
        assert found[f"logloss:{name}"] == pytest.approx(log_loss(label[:, i], p[:, i]))
        assert found[f"auc:{name}"] == pytest.approx(roc_auc_score(label[:, i], p[:, i]))
    rates = label.double().mean(0)
    guesses = [log_loss(label[:, i], np.full(50, float(rates[i]))) for i in (0, 1)]
    assert found["normalized_entropy"] == pytest.approx(found["logloss"] / (guesses[0] + 0.5 * guesses[1]))
    assert found["auc"] == found["auc:click"]


def test_processes_share_labels_and_what_each_counts(shop):
    _, data = shop
    whole = next(BatchLoader(data, "train", 97).epoch())
    parts = [next(BatchLoader(data, "train", 97, rank=r, world=4, split_batches=True).epoch()) for r in range(4)]
    assert torch.equal(torch.cat([part.label for part in parts])[:97], whole.label)
    assert all(part.label_weights.tolist() == [1.0, 0.5] for part in parts)
    sums = [click_loss_sum(p.label[: p.real], p.label[: p.real], None, p.label_weights) for p in parts]
    assert sum(sums).item() / 97 == pytest.approx(
        click_loss(whole.label, whole.label, None, whole.label_weights).item()
    )


def test_rows_that_cannot_be_read_are_in_their_places(shop, board, tmp_path: Path):
    """A whole file of them too: a block without a row that can be predicted."""
    folder, _ = shop
    (tmp_path / "mixed.csv").write_text("click,bought,price,user,item\n1,0,none,u1,i1\n1,2,0.5,u1,i1\n")
    predict(f"{folder / 'board'}:esmm:seed-0", [tmp_path / "mixed.csv"], tmp_path / "p.parquet")
    found = pd.read_parquet(tmp_path / "p.parquet")
    assert found.probability_conversion.isna().tolist() == [True, False]
    assert found.label_conversion.tolist()[1] == 1
    (tmp_path / "bad.csv").write_text("click,bought,price,user,item\n1,0,none,u1,i1\n")
    with pytest.raises(DataError, match="None of the 1 rows"):
        predict(f"{folder / 'board'}:esmm:seed-0", [tmp_path / "bad.csv"], tmp_path / "q.parquet")

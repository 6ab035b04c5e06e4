"""A log whose rows have weights, by the commands a user would type: prepare, compare, train, predict, report ..."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from recnas.cli.main import main
from recnas.data.prepared import PreparedData
from recnas.jobs.search import search
from recnas.runs.ledger import Ledger
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.json import dump_arch
from tests.jobs.search_helpers import small_search

QUICK = ["epochs=1", "batch_size=128", "embeddings.width=4", "threads=1"]


def sigmoid(logits: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.asarray(logits, np.float64)))


@pytest.fixture(scope="module")
def log(weighted_rows, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("log") / "log.csv"
    weighted_rows(4000).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def data(log: Path, weighted_recipe: Path) -> PreparedData:
    out = log.parent / "data"
    assert main(["prepare", str(weighted_recipe), "--raw", str(log), "--out", str(out), "--quiet"]) == 0
    return PreparedData.open(out)


@pytest.fixture(scope="module")
def trained(data: PreparedData, log: Path) -> Path:
    arch, run = log.parent / "arch.json", log.parent / "run"
    arch.write_text(dump_arch(NasrecSpace("nasrec-small", blocks=2).sample(np.random.default_rng(1))))
    assert main(["train", str(arch), "--data", str(data.path), "--out", str(run), "--quiet", *QUICK]) == 0
    return run


def test_a_comparison_counts_weights_from_end_to_end(data: PreparedData, tmp_path: Path, capsys):
    run = tmp_path / "run"
    command = ["compare", "--data", str(data.path), "--models", "dlrm", "lr", "sklearn-lr", "--out", str(run), "--quiet",
               "--seeds", "1", "--tune", "2", "--workers", "1", *QUICK[:-1], "stop.patience=1", "stop.checks=2"]  # fmt: skip
    assert main(command) == 0
    assert "test rows with weights that sum to" in capsys.readouterr().out
    board = json.loads((run / "leaderboard.json").read_text())
    label, weight = (np.asarray(data.array("test", name)) for name in ("label", "weight"))
    at = {"sample_weight": weight}
    assert board["weight"]["test"] == weight.sum()
    rate = np.average(data.array("train", "label"), weights=data.array("train", "weight"))
    guess = log_loss(label, np.full(len(label), rate), **at)
    assert board["guess"]["click_rate"] == pytest.approx(rate)
    assert board["guess"]["logloss"] == pytest.approx(guess)
    losses = {}
    for row in board["models"]:
        chance = sigmoid(np.load(run / "predictions" / f"{row['id']}-seed-0.npy"))
        losses[row["model"]] = log_loss(label, chance, **at)
        assert row["test"]["logloss"]["mean"] == pytest.approx(losses[row["model"]], rel=1e-5)
        assert row["test"]["auc"]["mean"] == pytest.approx(roc_auc_score(label, chance, **at), rel=1e-6)
        assert row["test"]["logloss"]["mean"] != pytest.approx(log_loss(label, chance), rel=1e-3)
        assert row["to_guess"]["logloss"] == pytest.approx(losses[row["model"]] - guess, abs=1e-6)
        assert row["to_guess"]["logloss_interval"][1] < 0  # all of them learn something here
    for row in board["models"]:
        if row["difference"]:
            assert row["difference"]["logloss"] == pytest.approx(losses[row["model"]] - losses["dlrm"], abs=1e-6)
    assert list(losses) == sorted(losses, key=lambda name: losses[name])
    assert main(["report", str(run), "-o", str(tmp_path / "report.md")]) == 0
    report = (tmp_path / "report.md").read_text()
    assert "sum of weights" in report
    assert f"| {weight.sum():g} |" in report
    assert "Rows have weights" in report


def test_predictions_of_weighted_and_of_repeated_rows_have_the_same_figures(trained, log, tmp_path: Path, capsys):
    def figures(path: Path) -> dict:
        capsys.readouterr()
        assert main(["predict", str(trained), "--raw", str(path), "--json", "--quiet"]) == 0
        return json.loads(capsys.readouterr().out)

    rows = pd.read_csv(log)
    weighted = figures(log)
    rows.loc[rows.index.repeat(rows.heavy)].drop(columns="heavy").to_csv(tmp_path / "repeated.csv", index=False)
    repeated = figures(tmp_path / "repeated.csv")
    rows.drop(columns="heavy").to_csv(tmp_path / "plain.csv", index=False)
    plain = figures(tmp_path / "plain.csv")
    for name in ("logloss", "auc", "click_rate"):
        assert weighted[name] == pytest.approx(repeated[name], rel=1e-6)
        assert weighted[name] != pytest.approx(plain[name], rel=1e-3)
    assert weighted["mean_prediction"] == plain["mean_prediction"]  # over rows: it is about what was written
    assert weighted["weighted"] is True
    assert "weighted" not in plain


def test_rows_to_be_predicted_need_no_weights_and_bad_ones_only_count_in_no_figure(trained, log, tmp_path, capsys):
    rows = pd.read_csv(log).head(100).astype({"heavy": object})
    rows.drop(columns=["heavy", "clicked"]).to_csv(tmp_path / "bare.csv", index=False)
    rows.loc[3, "heavy"] = "-2"
    rows.to_csv(tmp_path / "bad.csv", index=False)
    found = {}
    for name in ("bare", "bad"):
        out = tmp_path / f"{name}-out.csv"
        assert (
            main(["predict", str(trained), "--raw", str(tmp_path / f"{name}.csv"), "--out", str(out), "--quiet"]) == 0
        )
        found[name] = pd.read_csv(out).probability.to_numpy()
    assert found["bare"].tolist() == found["bad"].tolist()
    assert "without a readable weight: 1 rows, predicted but not in these figures" in capsys.readouterr().out


def test_importance_is_of_weighted_rows(trained: Path, data: PreparedData, capsys):
    assert main(["importance", str(trained), "--repeats", "1", "--json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    (line,) = Ledger(trained / "ledger.jsonl").read()
    assert found["rows"] == data.rows("valid")
    assert found["logloss"] == pytest.approx(line["valid"]["logloss"], rel=1e-5)
    assert found["auc"] == pytest.approx(line["valid"]["auc"], rel=1e-6)


def test_an_export_knows_no_weights_but_takes_lines_that_have_them(trained: Path, log: Path, tmp_path: Path, capsys):
    from recnas.data.raw.serving import RowError, RowReader, Vocabularies

    assert main(["export", str(trained), "--to", "pt2", "--out", str(tmp_path / "out")]) == 0
    model = json.loads((tmp_path / "out" / "model.json").read_text())
    assert model["raw"]["weight"] == "heavy"
    reader = RowReader(model, Vocabularies(tmp_path / "out", model))
    _, line, *_ = log.read_text().splitlines()
    cells = line.split(",")
    without = ",".join(cells[2:])  # neither the label nor the weight
    assert reader.rows(line.encode()) == reader.rows(without.encode())
    with pytest.raises(RowError, match="without clicked and heavy"):
        reader.rows(",".join(cells[1:]).encode())


def test_a_search_counts_weights(data: PreparedData, tmp_path: Path):
    run = tmp_path / "run"
    final = {"candidates": 1, "train": {"batch_size": 128, "epochs": 0.5, "stop": {"patience": 1, "checks": 2}}}
    search(small_search(data.path, final=final, score={"batches": 2, "batch_size": 64, "proxies": ["grad_norm"]}), run)
    (line,) = Ledger(run / "winner" / "ledger.jsonl").read()
    label, weight = (np.asarray(data.array("test", name)) for name in ("label", "weight"))
    assert line["test"]["click_rate"] == pytest.approx(np.average(label, weights=weight))

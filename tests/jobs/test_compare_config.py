"""`recnas compare` from a config: options of one model."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from recnas.cli.main import main
from recnas.errors import ConfigError
from recnas.jobs.compare import compare
from recnas.runs.ledger import Ledger
from recnas.train.settings import TrainSettings

QUICK = TrainSettings(epochs=0.2, batch_size=256, lr=0.03, embeddings={"width": 4})


def events(run: Path, kind: str, model: str | None = None) -> list[dict]:
    lines = Ledger(run / "ledger.jsonl").read()
    return [line for line in lines if line["event"] == kind and model in (None, line["id"])]


def test_a_config_says_what_is_compared_and_options_reach_one_model_only(criteo_data, tmp_path: Path, capsys):
    config = {
        "models": ["dnn", "deepfm"],
        "seeds": 2,
        "train": {"epochs": 0.1, "batch_size": 256, "embeddings": {"width": 4}},
        "options": {"dnn": {"hidden": [8], "lr": 0.01, "embeddings": {"l2": 0.002}}},
    }
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(config))
    run = tmp_path / "run"
    command = ["compare", str(tmp_path / "mine.yaml"), "--data", str(criteo_data.path), "--out", str(run), "--quiet",
               "--workers", "1", "--seeds", "1", "lr=0.004", "options.deepfm.dropout=0.3"]  # fmt: skip
    assert main(command) == 0
    (dnn,), (deepfm,) = events(run, "seed", "dnn"), events(run, "seed", "deepfm")
    assert dnn["choice"]["hidden"] == [8]
    assert (dnn["choice"]["lr"], dnn["choice"]["embeddings.l2"], dnn["choice"]["dropout"]) == (0.01, 0.002, 0.0)
    assert (deepfm["choice"]["lr"], deepfm["choice"]["embeddings.l2"], deepfm["choice"]["dropout"]) == (
        0.004,
        0.001,
        0.3,
    )
    assert dnn["params"] < deepfm["params"] / 100
    assert "best epoch" in capsys.readouterr().out


@pytest.mark.parametrize("chosen", [["models=[dnn]"], ["--models", "dnn"]])
def test_fewer_models_than_a_config_has_options_for(criteo_data, tmp_path: Path, chosen: list[str]):
    train = {"epochs": 0.05, "batch_size": 256, "embeddings": {"width": 4}}
    options = {"dnn": {"hidden": [8]}, "deepfm": {"hidden": [8]}}
    (tmp_path / "mine.yaml").write_text(
        yaml.safe_dump({"models": ["dnn", "deepfm"], "train": train, "options": options})
    )
    run = tmp_path / "run"
    command = ["compare", str(tmp_path / "mine.yaml"), "--data", str(criteo_data.path), "--out", str(run), "--quiet",
               "--workers", "1", "--seeds", "1", "options.dnn.dropout=0.1", *chosen]  # fmt: skip
    assert main(command) == 0
    (dnn,) = events(run, "seed")
    assert (dnn["id"], dnn["choice"]["hidden"], dnn["choice"]["dropout"]) == ("dnn", [8], 0.1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--budget", "lots"], "Write for example: --budget 20x"),
        (["--budget", "2x", "--tune", "3"], "--tune and --budget both say how much is tuned"),
        (["options.dnn.crosses=3"], "crosses"),
        (["options.fm.lr=0.1"], "options fm is not among the models that are compared"),
        (["options.dnn.lr=-1"], "lr"),
    ],
)
def test_mistakes_are_explained(criteo_data, tmp_path: Path, capsys, words: list[str], said: str):
    command = ["compare", "--data", str(criteo_data.path), "--out", str(tmp_path / "run"), "--models", "dnn", "--quiet"]
    assert main([*command, *words]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_options_of_another_library_are_refused(criteo_data, tmp_path: Path):
    with pytest.raises(ConfigError, match="sklearn-lr is a model of another library"):
        compare(criteo_data, tmp_path / "run", ["sklearn-lr"], settings=QUICK, options={"sklearn-lr": {"C": 1}})


def test_fewer_models_than_the_config_has_need_no_options_of_the_others(criteo_data, tmp_path: Path):
    config = {"models": ["lr", "fm"], "seeds": 1, "train": {"epochs": 0.05}, "options": {"fm": {"dense_fields": False}}}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(config))
    command = ["compare", str(tmp_path / "mine.yaml"), "--data", str(criteo_data.path), "--quiet", "--workers", "1"]
    assert main([*command, "--out", str(tmp_path / "run"), "--models", "lr"]) == 0
    assert main([*command, "--out", str(tmp_path / "other"), "--models", "lr", "options.fm.lr=0.1"]) == 2

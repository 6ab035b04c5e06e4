"""Half a percent of clicks: a baseline is a baseline, and what is worse than a constant guess is called that."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from recnas.cli.main import main
from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.jobs.compare import compare
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.json import dump_arch
from recnas.train.settings import TrainSettings


@pytest.fixture(scope="module")
def rare(criteo_file: Path, tmp_path_factory: pytest.TempPathFactory):
    """The generated rows with labels that nothing in them explains, one in 200 a click."""
    folder = tmp_path_factory.mktemp("rare")
    clicks = np.random.default_rng(0).random(20_000) < 0.005
    text = criteo_file.read_text().splitlines(keepends=True)
    (folder / "rare.tsv").write_text("".join(f"{int(click)}{row[1:]}" for click, row in zip(clicks, text)))
    return prepare("criteo", [folder / "rare.tsv"], folder / "data", PrepareOptions(min_count=5))


def constant_loss(data, split: str) -> float:
    p = float(np.mean(data.array(split, "label")))
    return -(p * math.log(p) + (1 - p) * math.log(1 - p))


def test_models_that_learn_nothing_stay_near_the_constant_guess(rare, tmp_path: Path):
    board = compare(rare, tmp_path / "run", ["lr", "fm", "dlrm"], settings=TrainSettings(epochs=0.2), seeds=1)
    for row in board.models:
        assert row.value("test", "logloss").mean < 1.3 * constant_loss(rare, "test"), row.model


def test_a_result_worse_than_a_constant_guess_says_so(rare, tmp_path: Path, capsys):
    arch = tmp_path / "a.json"
    arch.write_text(dump_arch(NasrecSpace("nasrec-small", blocks=2).full_path()))
    command = ["train", str(arch), "--data", str(rare.path), "--quiet", "epochs=0.2"]
    assert main([*command, "--out", str(tmp_path / "bad"), "lr=3", "clip=1000"]) == 0
    said = capsys.readouterr().out
    assert "warning: not better than always predicting the click rate" in said
    assert "lr=0.0005" in said
    result = json.loads((tmp_path / "bad" / "result.json").read_text())
    assert result["worse_than_constant"] is True
    assert result["test"]["logloss"]["mean"] > constant_loss(rare, "test")


def test_a_useful_result_does_not(criteo_data, tmp_path: Path, capsys):
    arch = tmp_path / "a.json"
    arch.write_text(dump_arch(NasrecSpace("nasrec-small", blocks=2).full_path()))
    command = ["train", str(arch), "--data", str(criteo_data.path), "--quiet", "--out", str(tmp_path / "good")]
    assert main([*command, "epochs=1"]) == 0
    assert "warning" not in capsys.readouterr().out
    assert json.loads((tmp_path / "good" / "result.json").read_text())["worse_than_constant"] is False

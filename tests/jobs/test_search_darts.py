"""DARTS end to end on generated images: it learns, and an interrupted search ends as a whole one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from recnas.cli.main import main
from recnas.config import check_settings
from recnas.errors import DataError, RunError
from recnas.jobs.search import search as search_darts
from recnas.resources import resource_dir
from recnas.runs.folder import RunDir
from recnas.space.registry import get_space
from recnas.tasks.gradient.darts import DartsSearch
from recnas.tasks.registry import load_search
from recnas.tasks.settings import GradientSearchConfig
from recnas.train.checkpoint import load_latest

SIZES = {
    "mlp": {"layers": 4, "width": 16},
    "nasbench201": {"channels": 2, "cells": 1},
    "darts": {"channels": 2, "cells": 2},
    "nasbench1shot1-1": {"channels": 6, "cells": 1, "stacks": 1},
}


def config(name: str, rows: int = 48, **darts) -> GradientSearchConfig:
    data = {
        "space": {"name": name, "supernet": SIZES[name]},
        "images": {"rows": rows, "side": 8},
        "search": {"method": "darts", "epochs": 3, "batch_size": 8} | darts,
    }
    return check_settings(GradientSearchConfig, data, "the test")


def without_clock(result):
    return result.model_copy(update={"seconds": {}})


def lines(run: Path) -> list[dict]:
    return [
        {k: v for k, v in line.items() if k != "seconds"}
        for line in RunDir(run).ledger.read()
        if line["event"] != "begin"
    ]


@pytest.mark.parametrize("name", SIZES)
def test_the_outcome_is_a_valid_architecture_of_the_last_mixture(tmp_path, name):
    result = search_darts(config(name, epochs=1, max_rows=32, order=1 if name == "darts" else 2), tmp_path)
    space = get_space(name, **SIZES[name]) if name == "mlp" else get_space(name)
    best = space.from_dict(json.loads((tmp_path / "winner.json").read_text()))
    space.validate(best)
    assert result.winner.key == space.key(best) == lines(tmp_path)[0]["key"]
    assert result.budget.steps == 2, "16 images on each side, batches of 8"
    assert all(sum(share) == pytest.approx(1) for share in result.extras["shares"].values())


@pytest.mark.parametrize("order", [1, 2])
def test_the_supernet_learns(tmp_path, order):
    search_darts(config("mlp", rows=400, epochs=6, order=order, alpha_lr=0.02, lr=0.05), tmp_path)
    epochs = [line for line in lines(tmp_path) if line["event"] == "candidate"]
    assert epochs[-1]["facts"]["valid_loss"] < 0.8 * epochs[0]["facts"]["valid_loss"]
    assert epochs[-1]["facts"]["train_loss"] < 0.8 * epochs[0]["facts"]["train_loss"]
    moved = max(abs(share - 0.2) for share in epochs[-1]["facts"]["shares"]["activation1"])
    assert moved > 0.02, "the mixture moves too"


class Stop(Exception):
    pass


@pytest.mark.parametrize("name", ["mlp", "nasbench201"])
def test_an_interrupted_search_ends_as_a_whole_one(tmp_path, name, monkeypatch):
    asked = config(name)
    whole = search_darts(asked, tmp_path / "whole")
    cut, epoch = tmp_path / "cut", DartsSearch._epoch

    def stops(self, number):
        if number == 2:
            raise Stop
        return epoch(self, number)

    monkeypatch.setattr(DartsSearch, "_epoch", stops)
    with pytest.raises(Stop):
        search_darts(asked, cut)
    monkeypatch.setattr(DartsSearch, "_epoch", epoch)
    ledger = (cut / "ledger.jsonl").read_text().splitlines(keepends=True)
    assert len(ledger) == 3
    (cut / "ledger.jsonl").write_text(
        ledger[0] + ledger[1] + ledger[2][:40]
    )  # killed after the checkpoint, while writing the line
    lost = tmp_path / "lost"
    shutil.copytree(cut, lost)
    shutil.rmtree(lost / "checkpoints")  # without a checkpoint it starts anew and repeats no line
    for run in (cut, lost):
        result = search_darts(asked, run)
        assert without_clock(result) == without_clock(whole)
        assert lines(run) == lines(tmp_path / "whole")
    ends = [load_latest(run / "checkpoints").tensors for run in (tmp_path / "whole", cut)]
    assert ends[0].keys() == ends[1].keys()
    assert all(torch.equal(ends[1][name], tensor) for name, tensor in ends[0].items())
    assert without_clock(search_darts(asked, cut)) == without_clock(whole)


def test_what_cannot_work_is_said(tmp_path):
    with pytest.raises(DataError, match="do not fill a batch"):
        search_darts(config("mlp", batch_size=64), tmp_path / "a")
    with pytest.raises(RunError, match="not finite"):
        search_darts(config("mlp", lr=1e30, clip=1e30), tmp_path / "b")
    search_darts(config("mlp", epochs=1), tmp_path / "c")
    (next((tmp_path / "c" / "checkpoints").glob("step-*")) / "tensors.safetensors").write_bytes(b"damaged")
    with pytest.raises(RunError, match=r"is damaged: [^$]*recnas repair"):
        search_darts(config("mlp", epochs=1), tmp_path / "c")


def test_the_commands_search_resume_watch_and_report(tmp_path, capsys):
    run = str(tmp_path / "run")
    small = ["images.rows=64", "images.side=8", "search.epochs=2", "search.batch_size=8", "space.supernet.width=8"]
    assert main(["search", "mlp/darts", "--out", run, "--quiet", *small]) == 0
    assert "darts, 8 steps" in capsys.readouterr().out
    assert main(["search", "--resume", run, "--quiet"]) == 0
    assert main(["watch", run]) == 0
    assert "retrain" not in capsys.readouterr().out
    assert main(["report", run, "-o", str(tmp_path / "report.html")]) == 0
    assert main(["report", run, "-o", str(tmp_path / "report.md")]) == 0


@pytest.mark.parametrize("name", ["darts/darts", "mlp/darts"])
def test_shipped_configs_are_valid(name):
    assert isinstance(load_search(resource_dir("configs") / f"{name}.yaml"), GradientSearchConfig)

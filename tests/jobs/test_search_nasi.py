"""NASI end to end on generated images: the same whatever was interrupted, through the commands."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from recnas.bench.nasbench201 import Nb201Table, write_generated
from recnas.cli.main import main
from recnas.config import check_settings
from recnas.errors import ConfigError, RunError
from recnas.jobs.search import search as search_nasi
from recnas.resources import resource_dir
from recnas.runs.checks import with_check
from recnas.runs.folder import RunDir
from recnas.searchers.gradient.nasi import objective
from recnas.space.nasbench201 import Nb201Space
from recnas.space.registry import get_space
from recnas.tasks.registry import load_search
from recnas.tasks.settings import GradientSearchConfig

SIZES = {
    "nasbench201": {"channels": 2, "cells": 1},
    "darts": {"channels": 2, "cells": 2},
    "nasbench1shot1-2": {"channels": 6, "cells": 1, "stacks": 2},
    "mlp": {"layers": 4, "width": 8},
}


def config(name: str, seed: int = 0, images: dict | None = None, **nasi) -> GradientSearchConfig:
    data = {
        "space": {"name": name, "supernet": SIZES.get(name, {})},
        "seed": seed,
        "images": {"rows": 40, "side": 8} | (images or {}),
        "search": {"method": "nasi", "steps": 5, "batch_size": 8, "nu_archs": 3} | nasi,
    }
    return check_settings(GradientSearchConfig, data, "the test")


def lines(run: Path) -> list[dict]:
    return [
        {k: v for k, v in line.items() if k != "seconds"}
        for line in RunDir(run).ledger.read()
        if line["event"] != "begin"
    ]


def without_clock(result):
    return result.model_copy(update={"seconds": {}})


@pytest.mark.parametrize("name", SIZES)
def test_the_outcome_is_what_the_ledger_adds_up_to(tmp_path, name):
    result = search_nasi(config(name), tmp_path)
    steps = [line for line in lines(tmp_path) if line["event"] == "candidate" and line["origin"] == "drawn"]
    assert len(steps) == 5
    nu = np.mean([line["trace"] for line in lines(tmp_path) if line["event"] == "random"])
    total, largest = 0.0, 0.0
    for step in steps:
        assert step["values"]["nasi"] == pytest.approx(objective(step["facts"]["trace"], 2.0, nu))
        largest = max(largest, np.linalg.norm(step["facts"]["gradient"]))
        total = total + np.array(step["facts"]["gradient"]) / (largest or 1.0)
    np.testing.assert_allclose(np.concatenate(list(result.extras["alpha"].values())), total / 5, atol=1e-12)
    space = get_space(name, **SIZES[name]) if name == "mlp" else get_space(name)
    best = space.from_dict(json.loads((tmp_path / "winner.json").read_text()))
    space.validate(best)
    assert space.key(best) == result.winner.key
    assert result.winner.cost["params"] > 0


@pytest.mark.parametrize("name", SIZES)
def test_averages_are_over_the_draws_of_the_ledger(tmp_path, name):
    """The same draws and T as the published estimator's, and no second-order gradient."""
    result = search_nasi(config(name, estimator="averages", nu="median"), tmp_path / "averages")
    search_nasi(config(name, nu="median"), tmp_path / "published")
    steps, others = (
        [line for line in lines(tmp_path / run) if line.get("origin") == "drawn"] for run in ("averages", "published")
    )
    assert [step["key"] for step in steps] == [step["key"] for step in others]
    np.testing.assert_allclose(
        [step["facts"]["trace"] for step in steps], [step["facts"]["trace"] for step in others], rtol=1e-4
    )
    values = np.array([step["values"]["nasi"] for step in steps])
    chosen = np.array([step["facts"]["choices"] for step in steps])
    for decision, part in enumerate(result.extras["alpha"].values()):
        for option, found in enumerate(part):
            mine = values[chosen[:, decision] == option]
            assert found == pytest.approx(mine.mean() - values.mean() if len(mine) else 0.0)


@pytest.mark.parametrize(
    "settings", [{"nu": "mean"}, {"nu": "adaptive"}, {"nu": 0.5}, {"nu": "median", "estimator": "averages"}]
)
def test_a_ledger_cut_anywhere_gives_the_same_end(tmp_path, settings):
    asked = config("nasbench201", **settings)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    expected = search_nasi(asked, whole)
    text = (whole / "ledger.jsonl").read_text().splitlines(keepends=True)
    shutil.copytree(whole, cut)
    for keep in (0, 2, 4, len(text) - 2, len(text) - 1, len(text)):
        (cut / "ledger.jsonl").write_text("".join(text[:keep]) + '{"event": "cand')
        assert without_clock(search_nasi(asked, cut)) == without_clock(expected)
        assert lines(cut) == lines(whole)


def test_seeds_labels_and_inputs_change_the_figures(tmp_path):
    asked = {
        "same": config("nasbench201", nu=1.0),
        "seed": config("nasbench201", seed=1, nu=1.0),
        "labels": config("nasbench201", nu=1.0, labels="random"),
        "inputs": config("nasbench201", nu=1.0, inputs="gaussian"),
    }
    traces = {}
    for name, one in asked.items():
        search_nasi(one, tmp_path / name)
        traces[name] = tuple(line["facts"]["trace"] for line in lines(tmp_path / name) if line.get("origin") == "drawn")
    assert len(set(traces.values())) == 4
    keys = {name: [line["key"] for line in lines(tmp_path / name) if line.get("origin") == "drawn"] for name in asked}
    assert keys["labels"] == keys["inputs"] == keys["same"] != keys["seed"], "one thing changes at a time"


def test_other_settings_or_images_are_refused(tmp_path):
    search_nasi(config("nasbench201", nu=1.0), tmp_path)
    with pytest.raises(RunError, match="another run"):
        search_nasi(config("nasbench201", nu=2.0), tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["images"]["fingerprint"] = "0"
    (tmp_path / "manifest.json").write_text(json.dumps(with_check(manifest)))
    with pytest.raises(RunError, match=r"images\.fingerprint is another one"):
        search_nasi(config("nasbench201", nu=1.0), tmp_path)
    with pytest.raises(ConfigError, match="no supernet of this space"):
        config("resnet-like")


def test_the_commands_search_resume_watch_and_report(tmp_path, capsys):
    write_generated(tmp_path / "nb201.parquet", list(Nb201Space().every()))
    small = ["images.name=generated", "images.rows=40", "images.side=8", "search.steps=3", "search.batch_size=8",
             "search.nu_archs=2", "space.supernet.channels=2", "space.supernet.cells=1"]  # fmt: skip
    run = tmp_path / "run"
    assert main(["search", "nasbench201/nasi", "--out", str(run), "--quiet", f"table={tmp_path}", *small]) == 0
    said = capsys.readouterr().out
    assert "test accuracy" in said
    assert "3 steps" in said
    assert "weights" not in said
    result = json.loads((run / "result.json").read_text())
    table = Nb201Table.read(tmp_path)
    cell = Nb201Space().from_dict(json.loads((run / "winner.json").read_text()))
    assert result["test"]["cifar100"] == table.of(cell, "cifar100", "test", 200)
    assert main(["search", "--resume", str(run), "--quiet"]) == 0
    assert main(["watch", str(run)]) == 0
    assert "retrain" not in capsys.readouterr().out
    other = tmp_path / "darts"
    assert main(["search", "darts/nasi", "--out", str(other), "--quiet", *small]) == 0
    assert "Genotype(" in capsys.readouterr().out
    for paths in ([str(run)], [str(other)]):
        assert main(["report", *paths, "-o", str(tmp_path / "report.html")]) == 0
        assert main(["report", *paths, "-o", str(tmp_path / "report.md")]) == 0


@pytest.mark.parametrize("name", ["nasbench201/nasi", "nasbench201/nasi-averages", "darts/nasi"])
def test_shipped_configs_are_valid(name):
    assert isinstance(load_search(resource_dir("configs") / f"{name}.yaml"), GradientSearchConfig)

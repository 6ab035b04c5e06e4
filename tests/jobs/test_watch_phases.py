"""`recnas watch` and the report of searches of every task, stopped half-way and finished: which phase they are in,
what they show of the finalists, and that the commands they advise can be typed.

Half-way runs are whole ones whose ledger was cut, as a crash would leave it.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from recnas.bench.nasbench201 import write_generated
from recnas.cli.main import main
from recnas.config import check_settings
from recnas.jobs.search import search
from recnas.proxies.registry import get_proxies
from recnas.report.content import Report, make_report
from recnas.report.state import state_of
from recnas.report.write import write_report
from recnas.runs.ledger import Ledger
from recnas.space.nasbench201 import Nb201Space
from recnas.tasks.registry import config_class

PROXIES = ["sigeo", "ntk_cond"]
CTR: dict[str, Any] = {
    "space": {"name": "nasrec-small", "blocks": 2},
    "warmup": {"data_share": 0.02, "least_steps": 3},
    "score": {"proxies": PROXIES, "batches": 2, "batch_size": 32},
    "search": {"method": "random", "candidates": 3},
    "final": {"candidates": 2, "seeds": 2, "rows": 500, "train": {"epochs": 1}},
}
IMAGES: dict[str, Any] = {
    "space": {"name": "nasbench101", "network": {"channels": 8, "cells": 1, "stacks": 2}},
    "images": {"rows": 100, "side": 8},
    "query_training": {"epochs": 1, "batch_size": 16},
    "search": {"method": "random", "candidates": 3},
    "final": {"candidates": 2, "train": {"epochs": 1, "batch_size": 16}},
}
TABLE: dict[str, Any] = {"space": {"name": "nasbench201"}, "search": {"method": "random", "candidates": 4}}
SUPERNET: dict[str, Any] = {
    "space": {"name": "mlp", "supernet": {"layers": 4, "width": 8}},
    "images": {"rows": 40, "side": 8},
}
NASI = SUPERNET | {"search": {"method": "nasi", "steps": 4, "batch_size": 8, "nu_archs": 2}}
DARTS = SUPERNET | {"search": {"method": "darts", "epochs": 3, "batch_size": 8, "order": 1}}

Line = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One search, where it is cut, and the phases that are expected then: name, state, done, total."""

    config: dict[str, Any]
    cut: Callable[[Line], bool]  # the first line that is lost
    half: list[tuple[str, str, int | None, int | None]]


def _is(event: str, **more: Any) -> Callable[[Line], bool]:
    return lambda line: line["event"] == event and all(line[name] == value for name, value in more.items())


CASES = {
    "ctr": Case(
        CTR,
        _is("candidate", index=2),
        [
            ("warmup", "done", None, None),
            ("search", "now", 2, 3),
            ("finalists", "to come", None, None),
            ("winner", "to come", None, None),
        ],
    ),
    "images": Case(
        IMAGES,
        _is("trained", rank=1),
        [("search", "done", None, None), ("finalists", "now", 1, 2), ("winner", "to come", None, None)],
    ),
    "table": Case(TABLE, _is("candidate", index=3), [("search", "now", 3, 4)]),
    "nasi": Case(NASI, _is("candidate", index=3), [("search", "now", 3, 4)]),
    "darts": Case(DARTS, _is("candidate", index=2), [("search", "now", 2, 3)]),
}


@dataclass(frozen=True)
class Runs:
    name: str
    whole: Path
    half: Path


@pytest.fixture(scope="module", params=CASES)
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, criteo_data: Any) -> Runs:
    case, folder = CASES[request.param], tmp_path_factory.mktemp(request.param)
    config = dict(case.config)
    if request.param == "ctr":
        config["data"] = str(criteo_data.path)
    if request.param == "table":
        write_generated(folder / "nb201.parquet", list(Nb201Space().every()))
        config["table"] = str(folder / "nb201.parquet")
    whole, half = folder / "whole", folder / "half"
    search(check_settings(config_class(config), config, "the test"), whole)
    shutil.copytree(whole, half)
    lines = (half / "ledger.jsonl").read_text().splitlines(keepends=True)
    lost = next(number for number, line in enumerate(lines) if case.cut(json.loads(line)))
    (half / "ledger.jsonl").write_text("".join(lines[:lost]))
    for name in ("result.json", "winner.json"):
        (half / name).unlink()
    shutil.rmtree(half / "winner", ignore_errors=True)
    return Runs(request.param, whole, half)


def watched(run: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["watch", str(run), "--once", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_phases_half_way(runs: Runs, capsys: pytest.CaptureFixture[str]):
    found = watched(runs.half, capsys)
    assert not found["finished"]
    shown = [(phase["name"], phase["state"], phase["done"], phase["total"]) for phase in found["phases"]]
    assert shown == CASES[runs.name].half
    assert found["next"] == [f"recnas search --resume {runs.half}"]


def test_phases_at_the_end(runs: Runs, capsys: pytest.CaptureFixture[str]):
    found = watched(runs.whole, capsys)
    assert found["finished"]
    assert [(phase["name"], phase["state"]) for phase in found["phases"]] == [
        (name, "done") for name, *_ in CASES[runs.name].half
    ]
    assert all(phase["seconds"] is not None for phase in found["phases"])


def tables(report: Report) -> dict[str, Any]:
    return {table.name: table for table in report.tables()}


def test_phases_in_the_report(runs: Runs, tmp_path: Path):
    expected = CASES[runs.name].half
    rows = tables(make_report([runs.half]))["phases"].rows
    assert [row["state"] for row in rows] == [
        "done" if state == "done" else "not finished" for _, state, *_ in expected
    ]
    rows = tables(make_report([runs.whole]))["phases"].rows
    assert [row["state"] for row in rows] == ["done"] * len(expected)
    # The same words on the screen and on the page.
    assert [row["phase"] for row in rows] == [phase.title for phase in state_of(runs.whole).phases]
    for run in (runs.half, runs.whole):
        for kind in ("html", "md"):
            assert write_report([run], tmp_path / f"{run.name}.{kind}")["verdict"]


def test_the_report_says_whether_there_is_a_verdict(runs: Runs):
    half, whole = make_report([runs.half]).verdict.sentence, make_report([runs.whole]).verdict.sentence
    assert half.startswith("half stopped before its end, so there is no verdict")
    assert "stopped" not in whole
    result = json.loads((runs.whole / "result.json").read_text())
    if runs.name == "ctr":
        assert f"test log loss {result['test']['logloss']:.5f}" in whole
    elif runs.name == "images":
        assert f"test accuracy {result['test']['accuracy']:.2f} %" in whole
    elif runs.name == "table":
        assert f"cifar10 {result['test']['cifar10']:.2f}" in whole
    else:
        assert whole.startswith("whole chose ")
        assert whole.endswith("no table says how it does when trained.")


def test_finalists_are_in_the_report(runs: Runs):
    """Half-way those that are trained, at the end all; judged by the metric of the task."""
    for run in (runs.half, runs.whole):
        lines = Ledger(run / "ledger.jsonl").read()
        metric = "logloss" if runs.name == "ctr" else "accuracy"
        losses: dict[str, list[float]] = {}
        for line in lines:
            if line["event"] == "trained":
                losses.setdefault(line["key"], []).append(line["valid"][metric])
        found = tables(make_report([run])).get("trained")
        shown = {row["key"]: row[f"valid_{metric}"] for row in found.rows} if found is not None else {}
        assert shown == {key: pytest.approx(sum(some) / len(some)) for key, some in losses.items()}
    if runs.name in ("ctr", "images"):
        assert len(shown) == 2
        best = (min if runs.name == "ctr" else max)(shown, key=lambda key: shown[key])
        (chosen,) = [row["key"] for row in found.rows if row["chosen"]]
        assert shown[chosen] == shown[best]
        assert found.rows[0]["key"] in {key for key in shown if shown[key] == shown[best]}
    else:
        assert shown == {}


def test_what_is_advised_can_be_typed(runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Only a search on clicks is told to compare, and every other command that is advised works."""
    monkeypatch.chdir(tmp_path)
    text = ""
    for run in (runs.half, runs.whole):
        write_report([run], tmp_path / "page.html")
        text += (tmp_path / "page.html").read_text() + "\n".join(state_of(run).next)
    assert ("recnas compare" in text) == (runs.name == "ctr")
    for command in state_of(runs.whole).next:
        words = shlex.split(command)
        if words[1] in ("report", "draw") and "runs/compare" not in words:
            assert main(words[1:]) == 0
    assert main(["draw", f"{runs.whole}:best", "-o", "winner.svg"]) == 0


def test_networks_for_images_are_no_click_models(
    runs: Runs, criteo_data: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    data, winner, out = str(criteo_data.path), f"{runs.whole}:best", str(tmp_path / "out")
    if runs.name == "ctr":
        return
    for command in (
        ["compare", "--data", data, "--models", "lr", winner, "--out", out],
        ["train", winner, "--data", data, "--out", out],
    ):
        assert main(command) == 2
        said = capsys.readouterr().err
        assert "its networks read images and predict no clicks" in said
        assert f"recnas draw {winner} -o best.svg" in said
        assert not Path(out).exists()


def test_the_manifest_says_which_way_is_better(runs: Runs):
    """A report cannot ask the proxies: that would load torch."""
    manifest = json.loads((runs.whole / "manifest.json").read_text())
    assert manifest["directions"].items() >= manifest["objectives"].items()
    if runs.name == "ctr":
        own = {one.name: "max" if one.higher_is_better else "min" for one in get_proxies(PROXIES)}
        assert manifest["directions"] == own == {"sigeo": "max", "ntk_cond": "min"}
        assert manifest["objectives"] == {"sigeo": "max"}

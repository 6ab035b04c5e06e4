"""A contest of tiny searches: rows, the table, going on after a kill, arms that fail."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from recnas.bench.bootstrap import paired_bootstrap, row_sums
from recnas.cli.main import main
from recnas.data.prepared import PreparedData
from recnas.errors import ConfigError, RunError
from recnas.jobs.contest import contest, table_so_far
from recnas.runs.folder import RunDir
from recnas.runs.records import ArmRun, read_lines
from recnas.runs.results import ContestBoard
from recnas.tasks.contest import load_contest
from tests.jobs.search_helpers import what_counts

TRAIN = {"epochs": 3, "batch_size": 128, "stop": {"patience": 1}, "checkpoint_seconds": 0.2}
RACE = {"rungs": [0.5, 1], "eta": 2, "brackets": 1}
ARMS: dict[str, Any] = {
    "zoo": {
        "space": {"name": "nasrec-plus", "blocks": 2},
        "evaluator": "none",
        "search": {"method": "random", "candidates": 3, "seeds": ["lr", "fm", "fwfm"]},
        "final": {"train": TRAIN, "race": {**RACE, "later": ["untrained", "recipe"]}},
    },
    "sigeo": {
        "space": {"name": "nasrec-small", "blocks": 3},
        "warmup": {"data_share": 0.05, "least_steps": 10},
        "score": {"batches": 2, "batch_size": 64},
        "search": {"method": "random", "candidates": 8},
        "final": {
            "train": {"epochs": 1, "batch_size": 128, "stop": {"patience": None}, "schedule": "cosine"},
            "retrain_on": "train+valid",
            "retrain_settings": {"epochs": 1, "batch_size": 128, "stop": {"patience": None}, "schedule": "cosine"},
        },
    },
    "search": {
        "space": {"name": "nasrec-plus", "blocks": 2},
        "warmup": {"data_share": 0.05, "least_steps": 10},
        "score": {"batches": 2, "batch_size": 64},
        "search": {"method": "random", "candidates": 5, "seeds": ["fm"]},
        "final": {"train": TRAIN, "race": RACE},
    },
}


def small_contest(data: Any, path: Path, *overrides: str, **changes: Any):
    path.write_text(
        yaml.safe_dump({"data": str(data), "budget": 6, "seeds": 1, "arms": ARMS, **changes}, sort_keys=False)
    )
    return load_contest(path, overrides, {})


@pytest.fixture(scope="module")
def finished(short_data, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("contest")
    contest(small_contest(short_data.path, out / "c.yaml", seeds=2), out / "run")
    return out / "run"


def board_of(run: Path) -> ContestBoard:
    return ContestBoard.model_validate(json.loads((run / "result.json").read_text()))


def lines_of(run: Path) -> list[ArmRun]:
    ledger = RunDir.open(run).ledger
    return read_lines("contest", ledger.read(), str(ledger.path))


def test_every_arm_stays_within_the_same_rows(finished: Path, short_data):
    rows, valid = short_data.rows("train"), short_data.rows("valid")
    lines = {(line.arm, line.seed): line for line in lines_of(finished)}
    assert list(lines) == [(arm, seed) for arm in ARMS for seed in (0, 1)]
    for (arm, seed), line in lines.items():
        assert line.failed is None
        assert 3 * rows < line.rows <= 6 * rows
        ledger = [json.loads(one) for one in (finished / f"{arm}-{seed}/ledger.jsonl").read_text().splitlines()]
        if arm != "sigeo":
            last = {(one["entrant"], one["seed"]): one["trained_rows"] for one in ledger if one["event"] == "rung"}
            assert line.trained_rows == sum(last.values())
            assert line.retrained_rows == 0
    sigeo = lines["sigeo", 0]
    warm = round(0.05 * rows)
    candidates = int((6 * rows - warm - rows - valid) // rows)
    assert (sigeo.warmup_rows, sigeo.trained_rows, sigeo.retrained_rows) == (warm, candidates * rows, rows + valid)
    assert lines["search", 0].warmup_rows == warm
    assert lines["zoo", 0].warmup_rows == 0
    assert lines["zoo", 0].winner in ("lr", "fm", "fwfm")


def test_the_table_is_what_the_kept_scores_say(finished: Path, short_data):
    board, label = board_of(finished), np.asarray(PreparedData.open(short_data.path).array("test", "label"))
    sums = {
        arm: [row_sums(np.load(finished / f"{arm}-{s}/winner/predictions/test-seed-{s}.npy"), label) for s in (0, 1)]
        for arm in ARMS
    }
    for arm in board.arms:
        read = [json.loads((finished / f"{arm.arm}-{s}/result.json").read_text())["test"]["logloss"] for s in (0, 1)]
        assert arm.test.mean == pytest.approx(np.mean(read), abs=1e-6)
        assert [one.logloss for one in sums[arm.arm]] == pytest.approx(read, abs=1e-6)
        assert arm.latency_ms_512 is not None
        assert arm.embedding_mb is not None
    assert [pair.other for pair in board.differences] == ["zoo", "sigeo"]
    for pair in board.differences:
        assert pair.difference == paired_bootstrap(sums["search"], sums[pair.other])
    difference = board.differences[0].difference
    assert f"{difference.logloss_interval[0]:+.5f} to {difference.logloss_interval[1]:+.5f}" in board.verdict
    assert ("no real difference" in board.verdict) == (not difference.real)
    assert not board.missing


def test_what_has_ended_is_not_run_again_and_more_may_be_asked(finished: Path, short_data, tmp_path: Path, monkeypatch):
    out = tmp_path / "run"
    shutil.copytree(finished, out)
    monkeypatch.setattr("recnas.jobs.contest.search_task", lambda *_: pytest.fail("it was run again"))
    config = small_contest(short_data.path, tmp_path / "c.yaml", seeds=2)
    again = contest(config, out)
    assert again == board_of(finished)
    with pytest.raises(pytest.fail.Exception):
        contest(small_contest(short_data.path, tmp_path / "c.yaml", seeds=3), out)
    with pytest.raises(RunError, match=r"final.race.eta"):
        contest(small_contest(short_data.path, tmp_path / "c.yaml", "search.final.race.eta=3", seeds=2), out)
    with pytest.raises(RunError, match="budget"):
        contest(small_contest(short_data.path, tmp_path / "c.yaml", seeds=2, budget=7), out)
    table = table_so_far(out)
    assert table.missing == ("zoo-2", "sigeo-2", "search-2")  # of the last contest that was begun
    assert table.arms == again.arms


def test_an_arm_that_fails_does_not_end_the_contest(short_data, tmp_path: Path, monkeypatch):
    def breaks(*_: Any) -> None:
        raise ZeroDivisionError("on purpose")

    from recnas.tasks import ctr

    config = small_contest(short_data.path, tmp_path / "c.yaml")
    monkeypatch.setattr(ctr.CtrTask, "prepare", breaks)
    board = contest(config, tmp_path / "run", ["zoo", "search"])
    assert {one.arm: one.failed for one in board.arms}["zoo"] == {0: "ZeroDivisionError: on purpose"}
    assert "Nothing can be compared" in board.verdict
    monkeypatch.undo()
    monkeypatch.setattr(ctr.CtrTask, "prepare", lambda task, *_: breaks() if task.config.needs_supernet else None)
    board = contest(config, tmp_path / "run", ["zoo", "search"])  # what failed is tried again
    assert {one.arm: len(one.seeds) for one in board.arms} == {"zoo": 1, "search": 0}
    assert board.missing == ()


def test_kills_do_not_change_the_table(finished: Path, short_data, tmp_path: Path):
    small_contest(short_data.path, tmp_path / "c.yaml", seeds=2)
    command = [
        sys.executable,
        "-m",
        "recnas.cli.main",
        "contest",
        str(tmp_path / "c.yaml"),
        "--out",
        str(tmp_path / "run"),
    ]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    for wait in (1.0, 3.0):
        child = subprocess.Popen([*command, "--workers", "2", "--quiet"], start_new_session=True, **quiet)
        begun = time.monotonic()
        before = sum(1 for _ in tmp_path.glob("run/*/ledger.jsonl"))
        while child.poll() is None and time.monotonic() - begun < 120:
            if sum(1 for _ in tmp_path.glob("run/*/ledger.jsonl")) > before + 1:
                break
            time.sleep(0.05)
        time.sleep(wait)
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    assert main(["contest", "--resume", str(tmp_path / "run"), "--workers", "1", "--quiet"]) == 0

    def values(run: Path) -> list[dict[str, Any]]:
        return [line.model_dump(exclude={"seconds", "latency"}) for line in lines_of(run)]

    assert values(tmp_path / "run") == values(finished)
    for arm in ARMS:
        assert what_counts(tmp_path / "run" / f"{arm}-1") == what_counts(finished / f"{arm}-1")
    assert board_of(tmp_path / "run").differences == board_of(finished).differences


@pytest.mark.parametrize(
    ("changes", "overrides", "said"),
    [
        ({"budget": 1}, [], "The least that works"),
        ({}, ["search.final.race.etta=3"], "did you mean 'eta'"),
        ({"arms": {}}, [], "arms"),
    ],
)
def test_mistakes_are_refused_before_anything_is_run(
    short_data, tmp_path: Path, changes: dict[str, Any], overrides: list[str], said: str
):
    with pytest.raises(ConfigError) as caught:
        contest(small_contest(short_data.path, tmp_path / "c.yaml", *overrides, **changes), tmp_path / "run")
    assert said in str(caught.value)


def test_the_command_prints_a_table_and_watch_and_report_know_it(finished: Path, tmp_path: Path, capsys):
    assert main(["contest", "--resume", str(finished), "--table"]) == 0
    said = capsys.readouterr().out
    assert "search less zoo" in said
    assert board_of(finished).verdict in said
    assert main(["contest", "--resume", str(finished), "--table", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((finished / "result.json").read_text())
    assert main(["watch", str(finished), "--once"]) == 0
    assert "zoo" in capsys.readouterr().out
    assert main(["report", str(finished), "-o", str(tmp_path / "report.html")]) == 0
    assert board_of(finished).verdict[1:40] in (tmp_path / "report.html").read_text()
    with pytest.raises(SystemExit):
        main(["contest", "--out"])
    assert main(["contest", "--out", str(tmp_path / "x"), "--data", "d", "--arms", "zo"]) == 2
    assert "did you mean 'zoo'" in capsys.readouterr().err

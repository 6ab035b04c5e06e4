"""Comparisons and searches over the origins of a rolling split, by the commands a user would type."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from recnas.cli.main import main
from recnas.data.rolling import RollingData
from recnas.errors import RunError
from recnas.jobs import rolling as job
from recnas.tasks.comparison.settings import CompareConfig
from tests.jobs.search_helpers import as_yaml, small_search, what_counts

RECIPE = """
name: rolling
separator: ","
header: true
label: {column: clicked}
dense: [{columns: [price], transform: none}]
sparse: [{columns: [user, item]}]
time: {days: 10}
protocol: rolling
rolling: {origins: 3, window: 0.12}
"""
QUICK = {"epochs": 1, "batch_size": 128, "embeddings": {"width": 4}}


@pytest.fixture(scope="module", autouse=True)
def no_latency():
    """Times of answers take seconds to measure and are not what is tested here."""
    with pytest.MonkeyPatch.context() as patch:
        times = dict.fromkeys(("p50_ms_1", "p99_ms_1", "p50_ms_512", "p99_ms_512"), 1.0)
        patch.setattr(sys.modules["recnas.jobs.compare.running"], "latency_percentiles", lambda *_, **__: times)
        yield


@pytest.fixture(scope="module")
def data(weighted_rows, tmp_path_factory) -> RollingData:
    folder = tmp_path_factory.mktemp("rolling")
    (folder / "r.yaml").write_text(RECIPE)
    weighted_rows(3000).to_csv(folder / "log.csv", index=False)
    raw, out = str(folder / "log.csv"), folder / "data"
    assert main(["prepare", str(folder / "r.yaml"), "--raw", raw, "--out", str(out), "--quiet"]) == 0
    found = RollingData.find(out)
    assert found is not None
    return found


def test_a_comparison_over_origins(data: RollingData, tmp_path: Path, capsys):
    command = ["compare", "--data", str(data.path), "--models", "dnn", "lr", "--seeds", "2", "--workers", "1", "--quiet",
               "--out", str(tmp_path / "cmp"), "epochs=1", "batch_size=128", "embeddings.width=4", "options.dnn.hidden=[8]"]  # fmt: skip
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "intervals are over 3 origins" in shown
    result = json.loads((tmp_path / "cmp" / "result.json").read_text())
    boards = [json.loads((tmp_path / "cmp" / o / "leaderboard.json").read_text()) for o in result["origins"]]
    losses = {
        model: [next(r for r in board["models"] if r["model"] == model)["test"]["logloss"]["mean"] for board in boards]
        for model in ("dnn", "lr")
    }
    rows = {row["model"]: row for row in result["models"]}
    for model, values in losses.items():
        assert rows[model]["test"]["logloss"]["values"] == values
        assert rows[model]["test"]["logloss"]["mean"] == pytest.approx(np.mean(values))
        assert rows[model]["test"]["logloss"]["std"] == pytest.approx(np.std(values, ddof=1))
    gaps = np.subtract(losses["lr"], losses["dnn"])
    low, high = stats.t.interval(0.95, 2, gaps.mean(), stats.sem(gaps))
    difference = rows["lr"]["difference"]
    assert difference["mean"] == pytest.approx(gaps.mean())
    assert difference["interval"] == pytest.approx([low, high], rel=1e-3)
    assert difference["real"] == (not low <= 0 <= high)
    assert rows["dnn"]["difference"] is None
    csv = (tmp_path / "cmp" / "origins.csv").read_text().splitlines()
    assert len(csv) == 1 + 2 * 3
    # The same command gives the same again, and more models may be added.
    assert main(command) == 0
    assert json.loads((tmp_path / "cmp" / "result.json").read_text()) == result
    more = [*command[:3], "--models", "dnn", "lr", "fm", *command[6:]]
    assert main(more) == 0
    added = json.loads((tmp_path / "cmp" / "result.json").read_text())
    assert {row["model"]: row for row in added["models"]}["lr"] == rows["lr"]
    assert len(added["models"]) == 3
    capsys.readouterr()
    assert main(["verify", str(tmp_path / "cmp")]) == 0
    assert main(["report", str(tmp_path / "cmp" / "origin-2"), "-o", str(tmp_path / "r.html")]) == 0


def test_a_search_over_origins_killed_and_resumed(data: RollingData, tmp_path: Path, monkeypatch, capsys):
    final = {"candidates": 1, "train": {"batch_size": 128, "epochs": 0.5, "stop": {"patience": 1, "checks": 2}}}
    config = small_search(
        data.path, final=final, score={"batches": 2, "batch_size": 64, "proxies": ["grad_norm"]},
        search={"method": "random", "candidates": 4},
    )  # fmt: skip
    whole = job.search_rolling(config, data, tmp_path / "whole")
    real, seen = job.search, []

    def dies(config, out, how):
        seen.append(out.name)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return real(config, out, how)

    monkeypatch.setattr(job, "search", dies)
    command = [
        "search",
        str(as_yaml(config, tmp_path / "c.yaml")),
        "--out",
        str(tmp_path / "cut"),
        "--workers",
        "1",
        "--quiet",
    ]
    assert main(command) == 130
    monkeypatch.undo()
    assert not (tmp_path / "cut" / "result.json").exists()
    assert main(["search", "--resume", str(tmp_path / "cut"), "--workers", "1", "--quiet"]) == 0
    shown = capsys.readouterr().out
    assert all(f"origin-{i}: " in shown for i in (1, 2, 3))
    assert json.loads((tmp_path / "cut" / "result.json").read_text()) == whole.to_json()
    for origin in whole.origins:
        assert what_counts(tmp_path / "cut" / origin) == what_counts(tmp_path / "whole" / origin)
    (winner,) = whole.models
    assert len(set(winner.test["logloss"].values)) == 3
    ends = [json.loads((tmp_path / "whole" / o / "result.json").read_text())["test"]["logloss"] for o in whole.origins]
    assert list(winner.test["logloss"].values) == ends


def test_other_data_and_other_jobs_are_refused(data: RollingData, tmp_path: Path, capsys):
    run = tmp_path / "run"
    config = CompareConfig(data=str(data.path), models=["lr"], seeds=1, train=QUICK)
    few = RollingData(data.path, data.origins[:2])
    job.compare_rolling(config, few, run)
    with pytest.raises(RunError, match="the data were"):
        job.compare_rolling(config, data, run)
    with pytest.raises(RunError, match="holds another run"):
        job.search_rolling(small_search(data.path), few, run)
    assert main(["search", "--resume", str(run)]) == 2
    assert "is a comparison" in capsys.readouterr().err
    shutil.copytree(data.path, tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "origin-2")
    command = ["compare", "--data", str(tmp_path / "copy"), "--models", "lr", "--out", str(tmp_path / "o")]
    assert main(command) == 2
    assert "origin-2" in capsys.readouterr().err

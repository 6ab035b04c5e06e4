"""A proxy, a searcher, a space and a model of somebody else, in four files outside the package, go through the commands."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recnas.cli.main import main
from recnas.serve.load import load_trained
from tests.jobs.search_helpers import what_counts
from tests.plugin_state import no_plugins_left_by_the_module  # noqa: F401

PACKAGE = Path(__file__).parent / "own_parts"
CONFIG = """
plugins: [own_parts/__init__.py]
data: {data}
space: {{name: own-narrow, blocks: 3}}
warmup: {{data_share: 0.05, least_steps: 10}}
score: {{proxies: [own-count, params], batches: 2, batch_size: 64}}
objectives: {{own-count: max, params: min}}
search: {{method: own-pairs, candidates: 14}}
final: {{candidates: 1, rows: 500, train: {{epochs: 1, schedule: cosine, stop: {{patience: null}}}}}}
"""


@pytest.fixture(scope="module")
def work(short_data, tmp_path_factory: pytest.TempPathFactory, no_plugins_left_by_the_module) -> Path:  # noqa: F811
    """A folder with the plugin, a config that names it, and a search that was run with two workers and no interruption."""
    folder = tmp_path_factory.mktemp("own")
    shutil.copytree(PACKAGE, folder / "own_parts", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "own.yaml").write_text(CONFIG.format(data=short_data.path))
    assert main(["search", str(folder / "own.yaml"), "--out", str(folder / "run"), "--workers", "2", "--quiet"]) == 0
    return folder


def plugin(folder: Path) -> list[str]:
    return ["--plugin", str(folder / "own_parts" / "__init__.py")]


def test_the_search_used_all_of_it_and_says_so(work: Path):
    lines, result = what_counts(work / "run")
    candidates = [line for line in lines if line["event"] == "candidate"]
    assert len(candidates) == 14
    assert {line["arch"]["space"] for line in candidates} == {"own-narrow"}
    assert all(line["scores"]["own-count"]["value"] >= 1 for line in candidates if "scores" in line)
    manifest = json.loads((work / "run/manifest.json").read_text())
    assert list(manifest["plugins"]) == ["own_parts"]
    assert result["method"] == "own-pairs"


def test_it_goes_on_after_a_kill_with_the_same_result(work: Path, capsys):
    out = work / "killed"
    command = [sys.executable, "-m", "recnas", "search", str(work / "own.yaml"), "--out", str(out), "--workers", "2"]
    process = subprocess.Popen([*command, "--quiet"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    ledger, until = out / "ledger.jsonl", time.monotonic() + 120
    while process.poll() is None and time.monotonic() < until:
        if ledger.exists() and ledger.read_text().count('"candidate"') >= 3:
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "it ended before it could be killed"
    assert not (out / "result.json").exists()
    # Another process that does not know the plugin: refused, with what to type.
    resume = [sys.executable, "-m", "recnas", "search", "--resume", str(out), "--workers", "1", "--quiet"]
    refused = subprocess.run(resume, capture_output=True, text=True)
    assert refused.returncode == 2
    assert "was made with the plugin own_parts (sha256:" in refused.stderr
    assert "--plugin" in refused.stderr
    assert main(["search", "--resume", str(out), "--workers", "1", "--quiet", *plugin(work)]) == 0
    assert what_counts(out) == what_counts(work / "run")


def test_workers_of_ray_know_it_too(work: Path):
    pytest.importorskip("ray")
    command = ["search", str(work / "own.yaml"), "--out", str(work / "ray"), "--engine", "ray", "--workers", "2"]
    assert main([*command, "--quiet"]) == 0
    assert what_counts(work / "ray") == what_counts(work / "run")


def test_score_compare_cost_draw_and_report(work: Path, short_data, monkeypatch: pytest.MonkeyPatch, capsys):
    warm = work / "run" / "warmup"
    assert main(["score", str(warm), "--random", "3", "--proxies", "own-count,params", "--workers", "1", "--quiet",
                 "--json", "batches=2", "batch_size=64", *plugin(work)]) == 0  # fmt: skip
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["arch"]["space"] for line in lines] == ["own-narrow"] * 3
    monkeypatch.setattr("recnas.train.latency.answer_times", lambda *_, on: {1: [0.001], 512: [0.001]})
    one_pass = ["epochs=1", "schedule=cosine", "stop.patience=null"]
    compare = ["compare", "--data", str(short_data.path), "--models", "lr", "own-net", "--seeds", "1", "--keep"]
    assert main([*compare, "--out", str(work / "cmp"), "--workers", "1", "--quiet", *one_pass, *plugin(work)]) == 0
    board = json.loads((work / "cmp/leaderboard.json").read_text())
    assert {row["id"] for row in board["models"]} == {"lr", "own-net"}
    assert "own_parts" in json.loads((work / "cmp/manifest.json").read_text())["plugins"]
    assert load_trained(f"{work}/cmp:own-net").key == "own-net"
    assert main(["cost", f"{work}/run:best", "--data", str(short_data.path), *plugin(work)]) == 0
    assert main(["draw", f"{work}/run:best", "-o", str(work / "best.svg"), *plugin(work)]) == 0
    page = work / "report.md"
    assert main(["report", str(work / "run"), str(work / "cmp"), "-o", str(page), *plugin(work)]) == 0
    text = page.read_text()
    assert "own-count" in text
    assert "own_parts sha256:" in text


def test_a_report_needs_no_plugin(work: Path):
    command = [sys.executable, "-m", "recnas", "report", str(work / "run"), "-o", str(work / "without.html")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "own-count" in (work / "without.html").read_text()


def test_a_plugin_that_has_changed_is_refused(work: Path):
    other = work / "other"
    shutil.copytree(work / "own_parts", other / "own_parts")
    (other / "own_parts" / "proxy.py").write_text((PACKAGE / "proxy.py").read_text() + "\n# changed\n")
    environment = {**os.environ, "RECNAS_PLUGINS": str(other / "own_parts" / "__init__.py")}
    command = [sys.executable, "-m", "recnas", "search", "--resume", str(work / "run"), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 2
    assert "was made with the plugin own_parts sha256:" in done.stderr
    assert "and now it is sha256:" in done.stderr

"""What `recnas watch` says of every kind of run, finished or not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from recnas.cli.main import main
from recnas.report.state import describe, state_of
from recnas.runs.records import ModelTraining, Record, Trained
from tests.unit.report.small_runs import (
    as_lines,
    candidate,
    phase,
    train_result,
    write_compare,
    write_run,
    write_search,
)


def shown(path: Path) -> str:
    return describe(state_of(path))


def test_a_search_on_clicks(tmp_path: Path):
    text = shown(write_search(tmp_path / "half", finished=False))
    assert text.splitlines()[0] == f"{tmp_path}/half: search, running or interrupted"
    assert "warm up             under way" in text
    assert "train finalists     to come" in text
    assert f"to continue: recnas search --resume {tmp_path}/half" in text
    text = shown(write_search(tmp_path / "first"))
    assert "retrain the winner  done in 40 s" in text
    assert "winner: number 6, place 1 before training" in text
    assert "test log loss of the winner: 0.51000" in text
    assert f"next: recnas compare --data /nowhere/data --models dlrm deepfm dcn-v2 {tmp_path}/first:best" in text


def test_a_training(tmp_path: Path):
    first = write_search(tmp_path / "first")  # its winner's folder is a training
    assert "train, running or interrupted" in shown(first / "winner")
    assert "trainings done: 3 (seed 0, 1, 2)" in shown(first / "winner")
    result = train_result([0.50, 0.51, 0.52])
    (first / "winner" / "result.json").write_text(json.dumps(result.model_dump(mode="json")))
    assert "train, finished" in shown(first / "winner")
    assert "mean test log loss: 0.51000" in shown(first / "winner")


def test_a_comparison(tmp_path: Path):
    run = write_compare(tmp_path / "cmp", entropies=(0.9, 0.9, 1.2))
    text = shown(run)
    assert text.splitlines()[0].endswith("cmp: compare, finished")
    assert "1. runs/first:best: test log loss 0.49940, better than dcnv2" in text
    assert "2. dcnv2: test log loss 0.50000, reference" in text
    assert "3. deepfm: test log loss 0.50010, no better than guessing" in text
    assert f"next: recnas report {run} -o report.html" in text
    (run / "leaderboard.json").unlink()
    line = ModelTraining(event="seed", model="lr", id="lr", seed=0, choice={})
    (run / "ledger.jsonl").write_text(as_lines([line]))
    assert "compare, running or interrupted\n  trainings done: 1 (lr)" in shown(run)


def vision(
    tmp_path: Path, name: str, task: str, phases: list[str], config: dict[str, Any], lines: list[Record], **more: Any
) -> str:
    manifest = {
        "kind": "search", "task": task, "phases": phases, "config": {"seed": 0, **config}, "objectives": {"valid_accuracy": "max"},
        "metric": {"name": "accuracy", "direction": "max"}, "data": {"path": "images", "fingerprint": "0" * 64}, **more,
    }  # fmt: skip
    return shown(write_run(tmp_path / name, manifest, lines))


def test_searches_on_supernets_tables_and_images(tmp_path: Path):
    step = candidate(0, 1.0, values={"valid_accuracy": 50.0}, arch={"space": "mlp"})
    text = vision(
        tmp_path, "darts", "images", ["search"], {"search": {"method": "darts", "epochs": 3}}, [step], proposals=3
    )
    assert "search, by epochs   1 of 3" in text
    assert "warm up" not in text
    assert "best candidate" not in text  # the last state is chosen, not the best
    chosen = candidate(1, 1.0, values={"valid_accuracy": 50.0}, origin="chosen")  # not a step
    text = vision(
        tmp_path, "nasi", "images", ["search"], {"search": {"method": "nasi", "steps": 4}}, [step, chosen], proposals=4
    )
    assert "search, by steps    1 of 4" in text
    table = {"search": {"method": "random", "candidates": 8}}
    text = vision(tmp_path, "table", "table", ["search"], table, [step], proposals=8)
    assert "look candidates up  1 of 8" in text
    assert "train finalists" not in text
    images = {
        "search": {"method": "random", "candidates": 1},
        "evaluator": "training",
        "final": {"candidates": 3, "seeds": 1},
    }
    finalist = Trained(index=0, rank=0, key="k", arch={}, seed=0, valid={"accuracy": 61.5})
    broken = Trained(index=1, rank=1, key="l", arch={}, seed=0, failed="the loss is not finite")
    lines = [step, phase("search", 1.0), finalist, broken]
    text = vision(tmp_path, "images", "images", ["search", "finalists", "winner"], images, lines, proposals=1)
    assert "warm up" not in text
    assert "train candidates    done in" in text
    assert "train finalists     2 of 3" in text
    assert "best validation accuracy of a finalist: 61.50 %" in text
    assert "compare" not in text


def test_the_command_prints_one_object(tmp_path: Path, capsys):
    assert main(["watch", str(write_search(tmp_path / "first")), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["finished"], found["best"]["index"]) == (True, 5)
    assert [(phase["name"], phase["state"]) for phase in found["phases"]] == [
        ("warmup", "done"), ("search", "done"), ("finalists", "done"), ("winner", "done"),
    ]  # fmt: skip

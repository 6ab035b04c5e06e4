"""What `recnas watch` says of every kind of run, finished or not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from recnas.cli.main import main
from recnas.report.state import describe, state_of
from tests.unit.report.small_runs import candidate, phase, write_compare, write_run, write_search


def shown(path: Path) -> str:
    return describe(state_of(path))


def test_a_search_on_clicks(tmp_path: Path):
    text = shown(write_search(tmp_path / "half", finished=False))
    assert text.splitlines()[0] == f"{tmp_path}/half: search, running or interrupted"
    assert "warm up             under way" in text
    assert "train the best      to come" in text
    assert f"to continue: recnas search --resume {tmp_path}/half" in text
    text = shown(write_search(tmp_path / "first"))
    assert "retrain the winner  done in 40 s" in text
    assert "winner: number 6, place 1 before training" in text
    assert "test log loss of the winner: 0.51000" in text
    assert f"next: recnas compare --data /nowhere/data --models dlrm deepfm dcn-v2 {tmp_path}/first:best" in text


def test_a_training(tmp_path: Path):
    first = write_search(tmp_path / "first")  # its winner's folder is a training
    assert "train, running or interrupted" in shown(first / "best")
    assert "trainings done: 3 (seed 0, 1, 2)" in shown(first / "best")
    result = {"seeds": [0, 1, 2], "test": {"logloss": {"mean": 0.51, "std": 0.01}}}  # `seeds` is a list here
    (first / "best" / "result.json").write_text(json.dumps(result))
    assert "train, finished" in shown(first / "best")
    assert "mean test log loss: 0.51000" in shown(first / "best")


def test_a_comparison(tmp_path: Path):
    run = write_compare(tmp_path / "cmp", entropies=(0.9, 0.9, 1.2))
    text = shown(run)
    assert text.splitlines()[0].endswith("cmp: compare, finished")
    assert "1. runs/first:best: test log loss 0.49940, better than dcnv2" in text
    assert "2. dcnv2: test log loss 0.50000, reference" in text
    assert "3. deepfm: test log loss 0.50010, no better than guessing" in text
    assert f"next: recnas report {run} -o report.html" in text
    (run / "leaderboard.json").unlink()
    (run / "ledger.jsonl").write_text(json.dumps({"event": "seed", "model": "lr", "id": "lr", "seed": 0}) + "\n")
    assert "compare, running or interrupted\n  trainings done: 1 (lr)" in shown(run)


def vision(tmp_path: Path, name: str, config: dict[str, Any], lines: list[dict[str, Any]], result: Any = None) -> str:
    manifest = {"kind": "search", "config": {"seed": 0, **config}, "data": {"path": "images", "fingerprint": "0" * 64}}
    return shown(write_run(tmp_path / name, manifest, lines, **({"result": result} if result else {})))


def test_searches_on_supernets_tables_and_images(tmp_path: Path):
    step = {**candidate(0, 1.0), "values": {"valid_accuracy": 0.5}, "arch": {"space": "mlp"}}
    darts = {"search": {"method": "darts", "darts": {"epochs": 3}}, "images": {}}
    text = vision(tmp_path, "darts", darts, [step])
    assert "train, by epochs    1 of 3" in text
    assert "warm up" not in text
    assert "best candidate" not in text  # the last state is chosen, not the best
    chosen = {"best": {"key": "k", "arch": "a|b", "index": 2, "values": {}}, "test_accuracy": {}, "budgets": {"scored": 0}}
    text = vision(tmp_path, "darts-done", darts, [step, phase("search", 5.0)], chosen)
    assert "chosen: a|b" in text
    assert "no table says how it does when trained" in text
    assert "compare" not in text
    nasi = {"search": {"method": "nasi", "nasi": {"steps": 4}}, "images": {}}
    assert "train, by steps     1 of 4" in vision(tmp_path, "nasi", nasi, [step])
    table = {"search": {"method": "random", "random": {"candidates": 8}}, "query": {"dataset": "cifar10"}, "final": {"epochs": 200}}
    text = vision(tmp_path, "table", table, [step])
    assert "score candidates    1 of 8" in text
    assert "train the best" not in text
    images = {"search": {"method": "random", "random": {"candidates": 1}}, "images": {}, "short": {}, "final": {"top": 3}}
    longer = {"event": "longer", "rank": 0, "key": "k", "valid": 61.5}
    text = vision(tmp_path, "images", images, [step, phase("search", 1.0), longer])
    assert "warm up" not in text
    assert "train the best      1 of 3" in text
    assert "best validation accuracy of a trained candidate in percent: 61.50" in text


def test_the_command_prints_one_object(tmp_path: Path, capsys):
    assert main(["watch", str(write_search(tmp_path / "first")), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["finished"], found["best"]["index"]) == (True, 5)
    assert [(phase["name"], phase["state"]) for phase in found["phases"]] == [
        ("warmup", "done"), ("search", "done"), ("top", "done"), ("best", "done"),
    ]  # fmt: skip

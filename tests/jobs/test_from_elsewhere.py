"""Runs and their data are found from any folder, and an architecture can be named by its run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import recnas
from recnas.cli.main import main
from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.json import dump_arch
from tests.jobs.search_helpers import as_yaml, small_search

ONE_PASS = {"epochs": 1, "schedule": "cosine", "stop": {"patience": None}}


@pytest.fixture(scope="module")
def work(criteo_data, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `ads` (data) and `runs/a` (a search), made with relative paths by somebody who sat in it."""
    folder = tmp_path_factory.mktemp("somebody") / "work"
    shutil.copytree(criteo_data.path, folder / "ads")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        config = as_yaml(small_search("ads", final={"candidates": 1, "rows": 500}), folder / "small.yaml")
        assert main(["search", str(config), "--out", "runs/a", "--workers", "1", "--quiet"]) == 0
    return folder


def test_a_run_goes_on_from_another_folder(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "copy" / "runs" / "a"
    shutil.copytree(work, tmp_path / "copy")
    lines = (run / "ledger.jsonl").read_text().splitlines(keepends=True)
    (run / "ledger.jsonl").write_text("".join(lines[:4]))
    shutil.rmtree(run / "winner")
    before = json.loads((run / "result.json").read_text())
    assert main(["search", "--resume", str(run), "--workers", "1", "--quiet"]) == 0
    after = json.loads((run / "result.json").read_text())
    assert after["test"] == before["test"]
    assert main(["search", "--resume", str(run), "--data", str(work / "ads"), "--quiet"]) == 0
    capsys.readouterr()
    assert main(["report", str(work / "runs" / "a"), "-o", "report.md"]) == 0
    assert "not here any more" not in (tmp_path / "report.md").read_text()
    raw = tmp_path / "raw.tsv"
    assert main(["synth", "criteo", "--rows", "50", "--seed", "3", "--out", str(raw), "--quiet"]) == 0
    assert main(["predict", f"{run}:best", "--raw", str(raw), "--out", "scores.csv", "--quiet"]) == 0
    assert recnas.open_run(run).best.build() is not None


def test_an_architecture_by_its_run(work: Path, tmp_path: Path, capsys):
    run, data = work / "runs" / "a", str(work / "ads")
    costs = []
    for name in (
        f"{run}:best",
        str(run / "winner.json"),
        f"{run}:{json.loads((run / 'result.json').read_text())['winner']['index'] + 1}",
    ):
        assert main(["cost", name, "--data", data, "--json"]) == 0
        costs.append(json.loads(capsys.readouterr().out))
    assert costs[0] == costs[1] == costs[2]
    out = str(tmp_path / "t")
    assert (
        main(["train", f"{run}:best", f"data={data}", "--out", out, "--quiet", "epochs=0.01", "embeddings.width=16"])
        == 0
    )
    capsys.readouterr()
    assert main(["cost", f"{out}:best", "--data", data, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == costs[0]
    assert (
        main(
            ["score", str(run / "warmup"), "--archs", f"{run}:best", "--quiet", "--json", "batches=2", "batch_size=64"]
        )
        == 0
    )
    assert json.loads(capsys.readouterr().out)["scores"]["sigeo"]["value"]
    assert main(["cost", f"{run}:999", "--data", data]) == 2
    assert "it has candidates 1 to" in capsys.readouterr().err


@pytest.mark.parametrize("label", ["0", "1"])
def test_labels_of_one_kind_are_warned_of(label: str, criteo_file: Path, tmp_path: Path, capsys):
    rows = [label + row[1:] for row in criteo_file.read_text().splitlines(keepends=True)[:400]]
    (tmp_path / "one.tsv").write_text("".join(rows))
    data = prepare("criteo", [tmp_path / "one.tsv"], tmp_path / "data", PrepareOptions(min_count=2))
    arch = tmp_path / "a.json"
    arch.write_text(dump_arch(NasrecSpace("nasrec-small", blocks=2).full_path()))
    train = ["train", str(arch), "--data", str(data.path), "--out", str(tmp_path / "t")]
    assert main(train) == 2, "validation cannot say when to stop, and the answer says what to type instead"
    assert "stop.patience=null schedule=cosine epochs=1" in capsys.readouterr().err
    one_pass = ["stop.patience=null", "schedule=cosine", "epochs=1"]
    assert main([*train, *one_pass]) == 0
    said = capsys.readouterr().err
    assert "nothing can be learned from it" in said
    assert "rows" in said
    assert (
        main(
            [
                "compare",
                "--data",
                str(data.path),
                "--models",
                "lr",
                "--seeds",
                "1",
                "--workers",
                "1",
                "--out",
                str(tmp_path / "c"),
                *one_pass,
            ]
        )
        == 0
    )
    assert "nothing can be learned from it" in capsys.readouterr().err
    config = as_yaml(small_search(data.path, final={"candidates": 1, "train": ONE_PASS}), tmp_path / "small.yaml")
    assert main(["search", str(config), "--workers", "1", "--out", str(tmp_path / "s")]) == 0
    assert "nothing can be learned from it" in capsys.readouterr().err

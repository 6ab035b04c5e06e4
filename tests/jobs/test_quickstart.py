"""The README's program, executed on fewer rows; and that the commands beside it do the same."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from recnas.cli.main import main
from recnas.data.prepared import PreparedData
from tests.jobs.search_helpers import as_yaml, small_search, what_counts

README = (Path(__file__).parents[2] / "README.md").read_text()
SHELL = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)[1]
(PROGRAM,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
ROWS = 1500
SMALL = '"seeds=1", "epochs=1", "schedule=cosine", "stop.patience=null", workers=1'


def test_the_readme_is_short():
    assert len(README.split()) <= 700
    assert len(PROGRAM.splitlines()) <= 25


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory):
    """A folder in which the program was run with small settings, and the names it left."""
    folder = tmp_path_factory.mktemp("quickstart")
    config = as_yaml(small_search("elsewhere", final={"candidates": 1, "rows": 500}), folder / "small.yaml")
    small = PROGRAM
    for old, new in (
        ("rows=100_000", f"rows={ROWS}"),
        ('"synthetic/laptop"', repr(str(config))),
        ('"runs/first", data=data)', '"runs/first", data=data, workers=1)'),
        ('"dlrm", run.best', '"lr", run.best'),
        ('"seeds=3"', SMALL),
    ):
        assert small.count(old) == 1, old
        small = small.replace(old, new)
    names: dict = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("recnas.train.latency.answer_times", lambda *_, on: {1: [0.001], 512: [0.001]})
        patch.setattr("recnas.serve.export.check_raw_rows", lambda *_: {})
        exec(compile(small, "README.md", "exec"), names)
    return folder, names


def test_it_leaves_what_it_says(work):
    folder, names = work
    assert len(names["model"].predict(names["rows"])) == 5
    assert (folder / "served/model.pt2").exists()
    assert len(names["board"].table()) == 2
    assert isinstance(names["run"].table(), pd.DataFrame)


def test_the_commands_do_the_same(work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Those of the README's shell block, with the same small settings: same rows, same data, same ledger, same winner."""
    folder, _ = work
    monkeypatch.chdir(tmp_path)
    commands = [line.partition("#")[0].split() for line in SHELL.splitlines() if line.startswith("recnas ")]
    wanted = {name: next(one[1:] for one in commands if one[1] == name) for name in ("synth", "prepare", "search")}
    changed = {"100k": str(ROWS), "synthetic/laptop": str(folder / "small.yaml")}
    for command in wanted.values():
        assert (
            main(
                [changed.get(word, word) for word in command]
                + ["--quiet", *(["--workers", "1"] if command[0] == "search" else [])]
            )
            == 0
        )
    assert (tmp_path / "ads.tsv").read_bytes() == (folder / "ads.tsv").read_bytes()
    ours, theirs = PreparedData.open(folder / "data/ads"), PreparedData.open(tmp_path / "data/ads")
    assert ours.fingerprint == theirs.fingerprint
    assert what_counts(folder / "runs/first") == what_counts(tmp_path / "runs/first")
    winner = [json.loads((place / "runs/first/winner.json").read_text()) for place in (folder, tmp_path)]
    assert winner[0] == winner[1]
    logits = [sorted((place / "runs/first/winner/predictions").glob("*.npy")) for place in (folder, tmp_path)]
    assert all(np.array_equal(np.load(one), np.load(two)) for one, two in zip(*logits))
    assert logits[0]

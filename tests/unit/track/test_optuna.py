"""A search opened as an Optuna study says what its ledger says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import recnas
from recnas.cli.main import main
from recnas.errors import RunError
from recnas.runs.folder import RunDir
from recnas.runs.records import SeedTraining
from recnas.searchers.limits import Gate
from recnas.searchers.objective import Objectives
from recnas.searchers.registry import get_searcher
from recnas.space.registry import get_space

optuna = pytest.importorskip("optuna")
GOALS = {"loss": "min", "speed": "max"}


def written(path: Path, space_name: str, count: int = 30, **options) -> RunDir:
    """A search by hand: two objectives, every seventh candidate fails, some are the same network."""
    space, rng = get_space(space_name, **options), np.random.default_rng(0)
    searcher = get_searcher(
        "random", space, Objectives.of(dict(GOALS)), 0, {"candidates": count, "redraws": 0}, Gate(space)
    )
    run = RunDir.create(
        path, "search", task="ctr", objectives=GOALS, phases=["search"], config={"space": {"name": space_name}}
    )
    with run.locked():
        while batch := searcher.ask_batch():
            for one in batch:
                values = {"loss": float(rng.random()), "speed": float(rng.random())}
                failed = "NaN" if one.index % 7 == 3 else None
                told = {} if one.known else {"failed": failed} if failed else {"values": values}
                run.ledger.append(searcher.tell(one, **told).to_json())
    return run


@pytest.mark.parametrize(
    ("space", "options"),
    [("nasbench201", {}), ("nasrec-small", {"blocks": 1, "dense_dims": (16,)}), ("nasrec-plus", {})],
)
def test_trials_are_the_candidates(tmp_path: Path, space: str, options: dict):
    run = written(tmp_path / "run", space, **options)
    study = recnas.open_run(run.path).to_optuna()
    lines = run.ledger.read()
    assert len(study.trials) == len(lines) == 30
    assert [direction.name for direction in study.directions] == ["MINIMIZE", "MAXIMIZE"]
    assert study.metric_names == ["loss", "speed"]
    for trial, line in zip(study.trials, lines):
        first = lines[line["same_as"]] if "same_as" in line else line
        assert trial.user_attrs["recnas.key"] == line["key"]
        assert trial.user_attrs["recnas.arch"] == line["arch"]
        assert trial.params
        if "failed" in first:
            assert trial.state.name == "FAIL"
            assert trial.user_attrs["recnas.failed"] == first["failed"]
        else:
            assert trial.state.name == "COMPLETE"
            assert trial.values == [first["values"]["loss"], first["values"]["speed"]]
    assert {"COMPLETE", "FAIL"} == {trial.state.name for trial in study.trials}


def test_a_study_that_is_kept(tmp_path: Path, capsys):
    run = written(tmp_path / "run", "nasbench201", count=12)
    whole, storage = run.ledger.path.read_bytes(), f"sqlite:///{tmp_path}/studies.db"
    for lines in (5, 12, 12):  # it goes on, and then it is sent again
        run.ledger.path.write_bytes(b"".join(whole.splitlines(keepends=True)[:lines]))
        assert main(["track", str(run.path), "--to", "optuna", "--storage", storage]) == 0
        assert f"study run: {lines} trials" in capsys.readouterr().out
        study = optuna.load_study(study_name="run", storage=storage)
        assert [t.user_attrs["recnas.key"] for t in study.trials] == [one["key"] for one in run.ledger.read()]
    other = written(tmp_path / "other", "nasrec-small", count=3)
    with pytest.raises(RunError, match="something else"):
        recnas.open_run(other.path).to_optuna(storage, "run")
    assert len(recnas.open_run(other.path).to_optuna(storage).trials) == 3
    assert main(["track", str(run.path), "--to", "optuna"]) == 2
    assert main(["track", str(run.path), "--to", "tensorboard", "--study", "x"]) == 2


def test_only_searches_have_trials(tmp_path: Path):
    run = RunDir.create(tmp_path / "run", "train")
    with run.locked():
        run.ledger.append(SeedTraining(seed=0, train_curve=[]).to_json())
    from recnas.track.optuna import to_optuna

    with pytest.raises(RunError, match="only the candidates of a search"):
        to_optuna(run.path)


def test_the_page_shows_what_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    page = (Path(__file__).parents[3] / "docs" / "ecosystem.md").read_text()
    (code,) = (text for text in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "to_optuna" in text)
    written(tmp_path / "runs/first", "nasbench201", count=5)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "ecosystem.md", "exec"), {})
    assert "[" in capsys.readouterr().out

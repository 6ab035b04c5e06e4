"""A training that is taken from rung to rung is the training in one go, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recnas.evaluators.race import RungRequest, RungWork
from recnas.evaluators.training import TrainRequest, TrainWork
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.json import to_dict
from recnas.space.settings import SpaceSettings
from recnas.train.checkpoint import load_latest
from recnas.train.evaluate import evaluate
from recnas.train.recipe import recipe_of
from recnas.train.settings import TrainSettings

SPACE = SpaceSettings(name="nasrec-full", blocks=3)
ARCH = NasrecSpace("nasrec-full", blocks=3).sample(np.random.default_rng(5))
ROWS = 2000
SETTINGS = TrainSettings.model_validate(
    {
        "epochs": 5,
        "batch_size": 256,
        "stop": {"patience": 2, "checks": 2},
        "dropout": 0.1,
        "average": 0.9,
        "lr": 0.02,
        "embeddings": {"l2": 0.01},
    }
)


def work(data: object, folder: Path, settings: TrainSettings = SETTINGS, rows: int | None = ROWS) -> RungWork:
    return RungWork(str(data.path), SPACE, settings, rows, str(folder))  # type: ignore[attr-defined]


def request(until: int, settings: TrainSettings = SETTINGS, end: bool = False) -> RungRequest:
    return RungRequest("one", to_dict(ARCH), recipe_of(settings), 3, until, end)


@pytest.mark.parametrize(
    "changes",
    [{}, {"embeddings": {"optimizer": "adam", "l2": 0.01, "lr": 0.002}}, {"schedule": "constant", "average": None}],
    ids=["average", "adam tables", "constant"],
)
def test_rungs_change_nothing(criteo_data, tmp_path: Path, changes):
    settings = TrainSettings.model_validate({**SETTINGS.model_dump(), **changes})
    train = work(criteo_data, tmp_path / "rungs", settings).open()
    found = [train(request(until, settings)) for until in (1, 3, 11, 12, 40)]
    whole = TrainWork(str(criteo_data.path), SPACE, settings, ROWS, None, ("valid",)).open()(
        TrainRequest(3, to_dict(ARCH))
    )
    once = work(criteo_data, tmp_path / "once", settings).open()(request(40, settings))
    assert found[-1].ended
    assert once.ended
    assert whole.metrics["valid"] == found[-1].valid == once.valid
    assert (whole.steps, found[-1].best_epoch) == (found[-1].steps, once.best_epoch)
    assert [one.steps for one in found[:-1]] == [min(until, found[-1].steps) for until in (1, 3, 11, 12)]
    states = [load_latest(tmp_path / folder / "one") for folder in ("rungs", "once")]
    assert states[0].facts["watch"] == states[1].facts["watch"]
    assert states[0].step == states[1].step
    for name, tensor in states[0].tensors.items():
        assert torch.equal(tensor, states[1].tensors[name]), name


def test_a_rung_is_judged_by_the_better_of_its_last_state_and_its_best_check(criteo_data, tmp_path: Path):
    settings = TrainSettings.model_validate({**SETTINGS.model_dump(), "lr": 0.5, "average": None})
    train = work(criteo_data, tmp_path, settings).open()
    for until in (4, 8, 10, 12):
        done = train(request(until, settings))
        watched = load_latest(tmp_path / "one").facts["watch"]["checks"]
        assert done.valid["logloss"] <= min(loss for _, loss, _ in watched)


def test_a_rung_before_the_first_check_is_judged_by_the_rows_asked_for(criteo_data, tmp_path: Path, monkeypatch):
    asked: list[int | None] = []

    def noting(*args: Any, rows: int | None = None, **others: Any) -> Any:
        asked.append(rows)
        return evaluate(*args, rows=rows, **others)

    monkeypatch.setattr("recnas.evaluators.race.evaluate", noting)
    train = work(criteo_data, tmp_path).open()
    few, every = (train(request(2)._replace(valid_rows=rows)) for rows in (300, None))
    assert asked == [300, None]
    assert few.valid["logloss"] != every.valid["logloss"]
    # Checks look at all rows, and so must what is compared with them; so must the end.
    train(request(5)._replace(valid_rows=300))
    train(request(6, end=True)._replace(valid_rows=300))
    assert asked[2:] == [None, None]


def test_a_training_that_is_ended_early_has_its_best_state(criteo_data, tmp_path: Path):
    done = work(criteo_data, tmp_path).open()(request(6, end=True))
    state = load_latest(tmp_path / "one")
    assert done.ended
    assert state.facts["ended"]
    checks = state.facts["watch"]["checks"]
    assert [check[0] for check in checks] == [4, 6]
    assert state.step == min(checks, key=lambda check: check[1])[0]
    assert done.valid["logloss"] == pytest.approx(min(check[1] for check in checks), abs=1e-12)
    assert work(criteo_data, tmp_path).open()(request(6, end=True)).valid == done.valid


def test_a_training_that_diverges_has_failed(criteo_data, tmp_path: Path):
    settings = TrainSettings.model_validate({**SETTINGS.model_dump(), "lr": 1e30, "clip": None, "average": None})
    done = work(criteo_data, tmp_path, settings).open()(request(8, settings))
    assert done.failed is not None
    assert done.valid == {}

"""Checks during a training: when, which is best, when it ends."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from recnas.bench.build_settings import BenchSettings
from recnas.data.prepare.prepare import prepare
from recnas.data.raw.sources import ReadySplit
from recnas.errors import DataError
from recnas.jobs.bench import bench_build
from recnas.jobs.compare import compare
from recnas.jobs.search import search
from recnas.progress import Progress
from recnas.space.nasrec import NasrecSpace
from recnas.tasks.settings import CtrSearchConfig
from recnas.train.settings import OnePass, StopSettings, TrainSettings
from recnas.train.setup import check_stopping
from recnas.train.standalone import train
from recnas.train.watch import Watch, planned_checks


def watch_of(losses: list[float], **settings) -> Watch:
    values = iter(losses)
    stop = StopSettings(**{"patience": 2, **settings})
    return Watch(stop, 10, 1000, lambda: {"logloss": (value := next(values)), "auc": 1 - value})


def test_checks_fall_on_even_parts_of_every_epoch_and_on_the_end() -> None:
    watch = Watch(StopSettings(patience=1, checks=3), 10, 25, dict)
    assert [step for step in range(1, 26) if watch.due(step)] == [4, 7, 10, 14, 17, 20, 24, 25]
    once = Watch(StopSettings(patience=1), 10, 25, dict)
    assert [step for step in range(1, 26) if once.due(step)] == [10, 20, 25]


@pytest.mark.parametrize("metric", ["logloss", "auc"])
def test_the_best_check_is_kept_and_patience_ends_it(metric) -> None:
    watch = watch_of([0.5, 0.4, 0.45, 0.39, 0.39, 0.41], metric=metric)
    assert [watch.look(step) for step in (10, 20, 30)] == [True, True, False]
    assert not watch.stopped
    assert watch.rate_factor() == pytest.approx(0.1)
    assert watch.look(40)
    assert not watch.look(50), "a tie is no improvement"
    assert not watch.look(60)
    assert watch.stopped
    assert watch.best is not None
    assert (watch.best.step, watch.best_epoch()) == (40, 4.0)
    assert watch.rate_factor() == pytest.approx(0.001)


def test_a_watch_continues_where_it_was() -> None:
    losses = [0.5, 0.4, 0.45, 0.39, 0.42]
    whole = watch_of(losses)
    for step in range(1, 6):
        whole.look(step)
    for cut in range(5):
        first, second = watch_of(losses), watch_of(losses[cut:])
        for step in range(1, cut + 1):
            first.look(step)
        second.load(first.state())
        for step in range(cut + 1, 6):
            second.look(step)
        assert (second.state(), second.best, second.failures) == (whole.state(), whole.best, whole.failures)


def test_a_plateau_needs_checks() -> None:
    with pytest.raises(ValidationError, match=r"set stop\.patience"):
        TrainSettings(schedule="plateau", stop={"patience": None})


@given(
    per_epoch=st.integers(1, 12),
    epoch_steps=st.integers(1, 40),
    total=st.integers(1, 120),
)
def test_planned_checks_are_those_that_fall_due(per_epoch: int, epoch_steps: int, total: int) -> None:
    watch = Watch(StopSettings(patience=1, checks=per_epoch), epoch_steps, total, dict)
    due = sum(watch.due(step) for step in range(1, total + 1))
    assert planned_checks(per_epoch, epoch_steps, total) == due


def said_about(settings: TrainSettings, data) -> str:
    stream = io.StringIO()
    check_stopping(settings, data, Progress(stream))
    return stream.getvalue()


def test_a_patience_that_cannot_run_out_is_noted(criteo_data) -> None:
    stop = {"patience": 5, "checks": 2}
    said = said_about(TrainSettings(epochs=2, stop=stop), criteo_data)
    assert "note: 4 checks of validation in epochs=2, so stop.patience=5 cannot end a training early" in said
    assert "the best state is kept all the same" in said
    assert said_about(TrainSettings(epochs=3, stop=stop), criteo_data)  # 6 checks: the fifth failure is the end anyway
    assert not said_about(TrainSettings(epochs=4, stop=stop), criteo_data)
    assert not said_about(OnePass(), criteo_data)


@pytest.fixture
def one_class(weighted_rows, weighted_recipe, tmp_path):
    """Data whose validation rows are all non-clicks."""
    paths = {}
    for seed, name in enumerate(("train", "valid", "test")):
        rows = weighted_rows(300, seed)
        (rows[rows.clicked == 0] if name == "valid" else rows).to_csv(tmp_path / f"{name}.csv", index=False)
        paths[name] = [tmp_path / f"{name}.csv"]
    return prepare(str(weighted_recipe), ReadySplit(**paths), tmp_path / "data")


JOBS = {
    "train": lambda data, out, settings: train(NasrecSpace("nasrec-small", blocks=2).full_path(), data, out, settings),
    "compare": lambda data, out, settings: compare(data, out, ["sklearn-lr", "lr"], settings=settings),
    "bench": lambda data, out, settings: bench_build(data, out, 1, settings=BenchSettings(train=settings.model_dump())),
    "search": lambda data, out, settings: search(CtrSearchConfig(data=str(data.path), final={"train": settings}), out),
}


@pytest.mark.parametrize("job", JOBS)
def test_validation_that_cannot_tell_is_refused_before_anything_is_spent(job: str, one_class, tmp_path) -> None:
    with pytest.raises(DataError, match="cannot tell when to stop training: its labels are all 0") as caught:
        JOBS[job](one_class, tmp_path / "run", TrainSettings(stop={"patience": 2}))
    assert "stop.patience=null" in str(caught.value)
    assert not (tmp_path / "run").exists()

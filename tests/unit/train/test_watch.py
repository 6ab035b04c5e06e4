"""Checks during a training: when, which is best, when it ends."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from recnas.train.settings import StopSettings, TrainSettings
from recnas.train.watch import Watch


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

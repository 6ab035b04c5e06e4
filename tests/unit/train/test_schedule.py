from __future__ import annotations

import math

import pytest

from recnas.errors import ConfigError
from recnas.train.schedule import Schedule


def test_first_steps_are_those_of_the_reference() -> None:
    # Fine-tuning of a candidate: peak 0.04 over 500 steps; these are the rates its first four steps have.
    schedule = Schedule("cosine", peak=0.04, total=500)
    assert [schedule(step) for step in range(4)] == pytest.approx([1e-8, 1e-8, 8e-4, 1.6e-3], rel=1e-4)


def test_rises_to_the_peak_then_falls_to_the_floor() -> None:
    schedule = Schedule("cosine", peak=0.12, total=1000, lag=0)
    rates = [schedule(step) for step in range(1001)]
    assert rates[0] == 1e-8
    assert rates[100] == max(rates) == pytest.approx(0.12)
    assert rates[:101] == sorted(rates[:101])
    assert rates[100:] == sorted(rates[100:], reverse=True)
    assert rates[550] == pytest.approx(0.06, rel=1e-6)
    assert rates[1000] == pytest.approx(1e-8)
    assert schedule(5000) == rates[1000]


def test_twin_written_as_a_running_scheduler() -> None:
    schedule = Schedule("cosine", peak=0.5, total=40, floor=0.01)
    rate, place, expected = 0.01, -1, []
    for _ in range(40):
        expected.append(rate)
        place += 1
        rate = 0.01 + 0.49 * (place / 4 if place < 4 else (1 + math.cos(math.pi * (place - 4) / 36)) / 2)
    assert [schedule(step) for step in range(40)] == pytest.approx(expected, rel=1e-12)


def test_constant_and_the_ends_of_the_warm_up_share() -> None:
    assert {Schedule("constant", 0.3, 10)(step) for step in range(20)} == {0.3}
    assert Schedule("cosine", 0.3, 10, warmup=0.0, lag=0)(0) == 0.3
    assert Schedule("cosine", 0.3, 1)(0) == 0.3  # one step has no room to rise
    assert Schedule("cosine", 0.3, 10, warmup=1.0)(99) == 0.3


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "step"},
        {"peak": 0.0},
        {"floor": 1.0},
        {"total": 0},
        {"warmup": 1.1},
        {"peak": math.nan},
        {"lag": -1},
    ],
)
def test_impossible_settings(wrong: dict) -> None:
    with pytest.raises(ConfigError, match="schedule"):
        Schedule(**{"kind": "cosine", "peak": 0.1, "total": 10, **wrong})


def test_all_faults_at_once() -> None:
    with pytest.raises(ConfigError, match=r"total 0.*warmup is 2"):
        Schedule("cosine", 0.1, 0, warmup=2)


def test_a_short_run_rises_slowly_and_stays_below_the_peak():
    long = Schedule("cosine", 0.12, 2000, least_rise=70)
    assert [long(step) for step in range(2000)] == [Schedule("cosine", 0.12, 2000)(step) for step in range(2000)]
    middle = Schedule("cosine", 0.12, 200, least_rise=70, lag=0)
    assert middle.warmup_steps == 70
    assert max(middle(step) for step in range(200)) == pytest.approx(0.12)
    short = Schedule("cosine", 0.12, 16, least_rise=70, lag=0)
    rates = [short(step) for step in range(16)]
    assert max(rates) == pytest.approx(0.12 * 8 / 70)
    assert rates.index(max(rates)) == 8
    assert rates[-1] < rates[8] / 10
    assert Schedule("cosine", 0.12, 1, least_rise=70)(0) > 0

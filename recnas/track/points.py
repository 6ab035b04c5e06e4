"""Lines of a ledger as points of curves.

A step is the number of a training step where a training is followed, of training rows in a race, else the place in the list: of
a candidate, a finalist, a subnet. What has no number, such as a failure, has no point.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import singledispatchmethod
from typing import Any

from recnas.runs.records import (
    ArmRun,
    Candidate,
    CheckedSubnet,
    FinalTest,
    Metrics,
    ModelLatency,
    ModelTraining,
    PhaseDone,
    RandomTrace,
    Record,
    RungTraining,
    Scored,
    SeedTraining,
    Trained,
    TwoLayerTraining,
)
from recnas.track.base import Point


class Points:
    """Of the lines of one ledger, in order.

    Args:
        above: put before every curve: `winner/` of a run within a run.
    """

    def __init__(self, above: str = "") -> None:
        self._above = above
        self._places: Counter[str] = Counter()

    def of(self, record: Record) -> list[Point]:
        return [Point(self._above + series, step, float(value)) for series, step, value in self._of(record)]

    def _place(self, kind: str) -> int:
        self._places[kind] += 1
        return self._places[kind] - 1

    @singledispatchmethod
    def _of(self, record: Record) -> Iterator[tuple[str, int, float]]:
        yield from ()

    @_of.register
    def _(self, line: Candidate) -> Iterator[tuple[str, int, float]]:
        values = {**{name: score.value for name, score in line.scores.items()}, **(line.values or {}), **line.cost}
        for name, value in values.items():
            yield f"candidates/{name}", line.index, value

    @_of.register
    def _(self, line: Trained) -> Iterator[tuple[str, int, float]]:
        place = self._place("finalists")
        yield from _metrics("finalists/valid", place, line.valid)
        yield from _metrics("finalists/test", place, line.test)

    @_of.register
    def _(self, line: RungTraining) -> Iterator[tuple[str, int, float]]:
        for name, step, value in _metrics("race", line.trained_rows, line.valid):
            yield f"{name}/entrant-{line.entrant}-seed-{line.seed}", step, value

    @_of.register
    def _(self, line: SeedTraining) -> Iterator[tuple[str, int, float]]:
        seed = f"seed-{line.seed}"
        for step, loss in line.train_curve:
            yield f"train/loss/{seed}", step, loss
        yield from _checks(f"valid/{{}}/{seed}", line.checks)
        for split in ("valid", "test"):
            yield from _metrics(f"final/{split}", line.seed, getattr(line, split) or {})

    @_of.register
    def _(self, line: ModelTraining) -> Iterator[tuple[str, int, float]]:
        if line.event == "trial":
            yield from _metrics(f"{line.model}/trials/valid", line.trial or 0, line.valid)
            return
        yield from _checks(f"{line.model}/valid/{{}}/seed-{line.seed}", line.checks)
        yield from _metrics(f"{line.model}/final/valid", line.seed, line.valid)
        yield from _metrics(f"{line.model}/final/test", line.seed, line.test)

    @_of.register
    def _(self, line: ModelLatency) -> Iterator[tuple[str, int, float]]:
        for name, value in line.times.items():
            yield f"{line.model}/latency/{name}", 0, value

    @_of.register
    def _(self, line: Scored) -> Iterator[tuple[str, int, float]]:
        place = self._place("scored")
        for name, score in line.scores.items():
            yield f"scores/{name}", place, score.value

    @_of.register
    def _(self, line: CheckedSubnet) -> Iterator[tuple[str, int, float]]:
        yield from _metrics("subnets/valid", self._place("subnets"), line.valid)

    @_of.register
    def _(self, line: FinalTest) -> Iterator[tuple[str, int, float]]:
        yield from _metrics("final/valid", 0, line.valid)
        yield from _metrics("final/test", 0, line.test)

    @_of.register
    def _(self, line: ArmRun) -> Iterator[tuple[str, int, float]]:
        yield from _metrics(f"{line.arm}/final/valid", line.seed, line.valid)
        yield from _metrics(f"{line.arm}/final/test", line.seed, line.test)

    @_of.register
    def _(self, line: TwoLayerTraining) -> Iterator[tuple[str, int, float]]:
        yield f"train/loss/width-{line.width}", line.seed, line.train_loss
        yield f"test/loss/width-{line.width}", line.seed, line.test_loss

    @_of.register
    def _(self, line: PhaseDone) -> Iterator[tuple[str, int, float]]:
        yield f"seconds/{line.name}", 0, line.seconds

    @_of.register
    def _(self, line: RandomTrace) -> Iterator[tuple[str, int, float]]:
        yield "random/trace", line.index, line.trace


def _metrics(series: str, step: int, metrics: Metrics) -> Iterator[tuple[str, int, float]]:
    for name, value in metrics.items():
        if value is not None and name.split(":")[0] not in ("rows", "clicks"):
            yield f"{series}/{_as_series(name)}", step, value


def _checks(series: str, checks: list[Metrics]) -> Iterator[tuple[str, int, float]]:
    for check in checks:
        found: Mapping[str, Any] = {name: value for name, value in check.items() if name != "step"}
        for name, value in found.items():
            if value is not None:
                yield series.format(_as_series(name)), int(check["step"] or 0), value


def _as_series(metric: str) -> str:
    """`logloss:click`, of one of several labels, as `logloss/click`: not every tracker takes a colon."""
    return metric.replace(":", "/")

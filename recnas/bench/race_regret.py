"""Races on a table with learning curves, against whole trainings of the same number of rows.

A draw takes a pool of the table's architectures; every method chooses one of them, having spent so many trainings' rows, and its
regret is the validation log loss of what it chose less the best of the pool. Methods:

    random             whole trainings of so many architectures; validation chooses
    by PROXY, by vote  whole trainings of the first in the order of a score
    race ...           the race of a search (`recnas.searchers.race`), who enters being in random order or in that of the scores;
                       with ranker: who enters the second bracket is chosen by a ranker fitted on the first

There is one recipe and one training of each, so races have neither recipes nor mutations here. A training that the budget
ends between two rungs has the log loss that lies between them, by the logarithm of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from pydantic import Field

from recnas.bench.ctr_table import CtrTable
from recnas.config import Settings
from recnas.errors import DataError
from recnas.runs.records import Metrics, RungTraining
from recnas.searchers.course import Course
from recnas.searchers.entry import Contender, Entry
from recnas.searchers.race import Race
from recnas.searchers.ranker import genes
from recnas.searchers.settings import RaceSettings
from recnas.seeds import stream

ROWS = 4096  # that a whole training is said to have: shares of it are whole numbers
LOSS = "logloss"
RANDOM, RACE = "random", "race"
Scores = Mapping[str, Mapping[str, float]]  # by name and key, high for good


class RaceRegretSettings(Settings):
    """What is compared, and how the races are run."""

    budgets: tuple[float, ...] = (2, 4, 8, 16)  # in whole trainings
    pool: int | None = Field(None, ge=2)  # architectures per draw; null: half the table
    eta: int = Field(3, ge=2)  # one of so many goes on to the next rung
    brackets: int = Field(2, ge=1)  # of a race


@dataclass(frozen=True)
class MethodRegret:
    """Mean regret of a method with one budget, and its difference to the reference over the same draws, with 95 % intervals."""

    method: str
    budget: float
    regret: float
    low: float
    high: float
    change: float
    change_low: float
    change_high: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def race_regret(
    table: CtrTable, settings: RaceRegretSettings, draws: int, scores: Scores | None = None, seed: int = 0
) -> list[MethodRegret]:
    """Every method with every budget. The reference is the last order by scores (the vote of several), or random order.

    Args:
        scores: of every architecture of the table by each proxy; none: only random orders.
    """
    _check(table, settings)
    size = settings.pool or max(2, len(table.curves) // 2)
    found: dict[tuple[str, float], list[float]] = {}
    for number in range(draws):
        pool = _drawn(sorted(table.curves), size, stream(seed, "race-regret", number))
        best = min(table.valid[key] for key in pool)
        for budget in settings.budgets:
            for method, loss in _losses(table, pool, budget, settings, scores or {}).items():
                found.setdefault((method, budget), []).append(loss - best)
    reference = f"by {list(scores)[-1]}" if scores else RANDOM
    return [
        _summary(method, budget, np.array(regrets), np.array(found[reference, budget]))
        for (method, budget), regrets in sorted(found.items(), key=lambda one: settings.budgets.index(one[0][1]))
    ]


def _check(table: CtrTable, settings: RaceRegretSettings) -> None:
    if not table.rungs:
        raise DataError(
            "this table has no learning curves.",
            "Make one that has: recnas bench build --data DIR --archs 150 --out RUN rungs=[0.0625,0.25] train.schedule=constant",
        )
    if settings.pool is not None and settings.pool > len(table.curves):
        raise DataError(f"the table has {len(table.curves)} architectures, and pool is {settings.pool}.", "Lower pool.")
    for budget in settings.budgets:
        _course(table, settings, budget).check()


def _drawn(keys: list[str], size: int, rng: Generator) -> list[str]:
    return [keys[int(i)] for i in rng.choice(len(keys), size, replace=False)]


def _losses(
    table: CtrTable, pool: Sequence[str], budget: float, settings: RaceRegretSettings, scores: Scores
) -> dict[str, float]:
    """What each method ends with; the pool stands in random order."""
    orders = {RANDOM: list(pool)}
    orders |= {f"by {name}": sorted(pool, key=lambda key: -by_key[key]) for name, by_key in scores.items()}
    whole = int(budget)
    found = {name: min(table.valid[key] for key in order[:whole]) for name, order in orders.items()}
    last = list(orders)[-1]
    for order in dict.fromkeys((RANDOM, last)):
        for later in ("untrained", "ranker"):
            name = f"{RACE}, {order}{' order' if order == RANDOM else ''}" + (", ranker" if later == "ranker" else "")
            course = _course(table, settings, budget, later)
            found[name] = _raced(course, table, orders[order], scores)
    return found


def _course(table: CtrTable, settings: RaceRegretSettings, budget: float, later: str = "ranker") -> Course:
    """One pass is a whole training."""
    given = {"budget": budget, "rungs": table.rungs[:-1], "eta": settings.eta, "brackets": settings.brackets}
    race = RaceSettings.model_validate({**given, "recipes": 1, "later": (later,)})
    return Course(race, ROWS, 1.0, (1,))


def _raced(course: Course, table: CtrTable, order: Sequence[str], scores: Scores) -> float:
    """The log loss of a race's winner as it was trained."""
    contenders = [
        Contender(index, key, table.archs[key], index, features=_features(table, key, scores))
        for index, key in enumerate(order)
    ]
    entry = Entry(course.settings, contenders, lambda key, around, number: {"batch_size": 1}, lambda parent, draw: None)
    race = Race(course, entry, _cost, 0)
    while laps := race.ask():
        for lap in laps:
            rows = course.rows_at(lap.until, 1)
            loss = loss_at(table.rungs, table.curves[lap.entrant.key], rows / ROWS)
            line = RungTraining(
                entrant=lap.entrant.number, rung=lap.rung, seed=lap.seed, steps=lap.until, trained_rows=rows,
                valid={LOSS: loss}, ended=lap.end or rows == ROWS,
            )  # fmt: skip
            race.tell(lap, line)
    assert race.winner is not None  # no training of a table has failed
    return race.value(race.winner)


def _cost(metrics: Metrics) -> float:
    value = metrics[LOSS]
    assert value is not None
    return value


def _features(table: CtrTable, key: str, scores: Scores) -> dict[str, float]:
    """What a search knows of an architecture before it is trained."""
    known = {f"score {name}": by_key[key] for name, by_key in scores.items()}
    return {**known, "cost params": table.params[key], "cost macs": table.macs[key], **genes(table.archs[key])}


def loss_at(rungs: Sequence[float], curve: Sequence[float], share: float) -> float:
    """A curve between its rungs, by the logarithm of the rows; before the first and after the last it stays."""
    return float(np.interp(math.log(share), np.log(rungs), curve))


def _summary(method: str, budget: float, regrets: np.ndarray, reference: np.ndarray) -> MethodRegret:
    mean, error = _mean(regrets)
    change, change_error = _mean(regrets - reference)
    return MethodRegret(
        method, budget, mean, mean - error, mean + error, change, change - change_error, change + change_error
    )


def _mean(values: np.ndarray) -> tuple[float, float]:
    """With half of its 95 % interval."""
    error = 1.96 * values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return float(values.mean()), float(error)

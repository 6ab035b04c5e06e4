"""A race: many (architecture, recipe) pairs are trained a little, the best go on, few are trained to their end.

Synchronous successive halving (Jamieson and Talwalkar, 2016). On each rung every entrant is trained on from its own
checkpoint and judged by validation; one in `eta` is promoted. The last ones are trained until validation ends them or
the budget does. A bracket is one such race; the next one begins with what the earlier ones have left.

Whoever searches wants to know whether it was worth it: the best hand-crafted model is trained to its end as well. If no
bracket has brought one so far, the last bracket keeps a place for it.

Who enters is decided in `recnas.searchers.entry`. Like a searcher a race asks and is told, sees neither networks nor
data, and does the same whenever it is told the same: to go on after a crash is to ask again and to tell what a ledger
holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from recnas.errors import RunError
from recnas.runs.records import Entrant, Metrics, RungTraining
from recnas.runs.search_result import RaceResult
from recnas.searchers.course import Course
from recnas.searchers.entry import Entry


@dataclass(frozen=True)
class Lap:
    """One training, to be taken as far as `until` steps from its beginning on; with `end` it ends there."""

    entrant: Entrant
    rung: int
    seed: int
    until: int
    end: bool = False

    @property
    def training(self) -> str:
        return f"{self.entrant.number}-{self.seed}"


class Race:
    """Asks for laps, is told what became of them.

    Args:
        entry: who may enter.
        cost: validation metrics as a number to minimise.
        first_seed: of the trainings.
    """

    def __init__(
        self,
        course: Course,
        entry: Entry,
        cost: Callable[[Metrics], float],
        first_seed: int,
    ) -> None:
        self.course, self.settings = course, course.settings
        self._entry, self._cost, self._first_seed = entry, cost, first_seed
        self.entrants: list[Entrant] = []
        self._out: set[int] = set()  # entrants that dropped out
        self.finalists: list[Entrant] = []  # who came to the last rung of a bracket
        self.bracket = 0
        self._told: dict[tuple[int, int], list[RungTraining]] = {}  # by entrant and seed, rung after rung
        self._source = self._laps()

    def ask(self) -> list[Lap]:
        """Laps that can be done at once, in any order; empty when the race is over."""
        return next(self._source, [])

    def tell(self, lap: Lap, done: RungTraining) -> None:
        if (done.entrant, done.seed, done.rung) != (lap.entrant.number, lap.seed, lap.rung):
            raise RunError(
                "the ledger belongs to another race: its rungs are not those of this one.", "Start a new run directory."
            )
        self._told.setdefault((done.entrant, done.seed), []).append(done)

    @property
    def spent(self) -> int:
        """Rows so far."""
        return sum(lines[-1].trained_rows for lines in self._told.values())

    @property
    def trainings(self) -> list[RungTraining]:
        """How far each training came."""
        return [lines[-1] for lines in self._told.values()]

    def trainings_of(self, entrant: Entrant) -> list[RungTraining]:
        """Its trainings so far, by seed."""
        return [lines[-1] for (number, _), lines in sorted(self._told.items()) if number == entrant.number]

    def value(self, entrant: Entrant) -> float:
        """Mean cost over its seeds; infinite if one of them failed."""
        lines = self.trainings_of(entrant)
        return fmean(self._cost(line.valid) if line.failed is None else math.inf for line in lines)

    def order(self, entrants: Iterable[Entrant]) -> list[Entrant]:
        """Best first; of equals the one that entered first."""
        return sorted(entrants, key=lambda one: (self.value(one), one.number))

    @property
    def winner(self) -> Entrant | None:
        """The best of those that came to a last rung; None if all of them failed."""
        return self._best(self.finalists)

    @property
    def hand_crafted(self) -> Entrant | None:
        """The best hand-crafted model: of those that came furthest, the best; None if there is none that works."""
        known = (one for one in self._by_progress() if one.name is not None)
        return next((one for one in known if math.isfinite(self.value(one))), None)

    @property
    def dropped(self) -> set[str]:
        """Trainings that will not go on. The best hand-crafted model may have to, until the last bracket is over."""
        kept = self.hand_crafted
        return {
            f"{number}-{seed}" for number in self._out if kept is None or kept.number != number for seed in self._seeds
        }

    def _best(self, entrants: Iterable[Entrant]) -> Entrant | None:
        best = self.order(entrants)[:1]
        return best[0] if best and math.isfinite(self.value(best[0])) else None

    def result(self, winner: Entrant, changed: Mapping[str, Any], metric: str) -> RaceResult:
        """What was spent, and how it ended; `metric` is what validation judges by."""
        searched = self._best(one for one in self.finalists if one.name is None)
        return RaceResult(
            entrants=len(self.entrants),
            architectures=len({one.key for one in self.entrants}),
            trainings=len(self._told),
            whole=sum(len(self.trainings_of(one)) for one in self.finalists),
            cut=sum(line.cut for line in self.trainings),
            failed=sum(line.failed is not None for line in self.trainings),
            budget_rows=self.course.budget,
            trained_rows=self.spent,
            recipe=winner.recipe,
            changed=dict(changed),
            why=winner.why,
            name=winner.name,
            searched_valid=None if searched is None else self.valid(searched, metric),
        )

    def valid(self, entrant: Entrant, metric: str) -> float:
        """Mean over the seeds of one that did not fail."""
        return fmean(line.valid[metric] or 0.0 for line in self.trainings_of(entrant))

    # Brackets

    def _laps(self) -> Iterator[list[Lap]]:
        for bracket in range(self.settings.brackets):
            self.bracket = bracket
            left = self.course.budget - self.spent
            share = max(left // (self.settings.brackets - bracket), self.course.least)
            share = min(share, left)
            is_last = bracket == self.settings.brackets - 1
            alive = self._enter(bracket, share, self._place_kept() if is_last else 0)
            limit, end = self.spent + share, len(self.settings.rungs)
            sizes = self.course.sizes(len(alive))
            before = alive
            for rung, passes in enumerate(self.settings.rungs if alive else ()):
                yield [self._lap(one, rung, passes) for one in alive]
                before, alive = alive, self._promoted(alive, sizes[rung + 1])
                if not alive:
                    break
            if is_last:
                alive = self._with_hand_crafted(alive, before)
            if not alive:
                continue
            yield from self._to_the_end(alive, end, limit)
            self.finalists += alive
            self._drop(one for one in self.finalists if one != self.winner)

    def _place_kept(self) -> int:
        """Rows for one more training to the end, if the best hand-crafted model may need them."""
        known = [one.name is not None for one in self._entry.contenders]
        may_be_missing = any(known) and (not all(known) or "mutation" in self.settings.later)
        needed = may_be_missing and not self._has_hand_crafted([])
        return self.settings.seeds * self.course.usual if needed else 0

    def _has_hand_crafted(self, alive: Iterable[Entrant]) -> bool:
        return any(one.name is not None and math.isfinite(self.value(one)) for one in [*self.finalists, *alive])

    def _with_hand_crafted(self, alive: list[Entrant], before: list[Entrant]) -> list[Entrant]:
        """The last place is that of the best hand-crafted model; if one is there already, of the next best."""
        if not self._place_kept():
            return alive
        more = self.hand_crafted
        if self._has_hand_crafted(alive):
            more = self._best(one for one in before if one not in alive)
        if more is None:
            return alive
        self._out.discard(more.number)
        return [*alive, more]

    def _lap(self, entrant: Entrant, rung: int, passes: float) -> Lap:
        return Lap(entrant, rung, self._first_seed, self.course.steps(passes, _batch(entrant)))

    def _promoted(self, alive: list[Entrant], size: int) -> list[Entrant]:
        going_on = [one for one in self.order(alive)[:size] if math.isfinite(self.value(one))]
        self._drop(one for one in alive if one not in going_on)
        return sorted(going_on, key=lambda one: one.number)

    def _drop(self, entrants: Iterable[Entrant]) -> None:
        self._out |= {entrant.number for entrant in entrants}

    @property
    def _seeds(self) -> range:
        return range(self._first_seed, self._first_seed + self.settings.seeds)

    def _to_the_end(self, alive: list[Entrant], rung: int, limit: int) -> Iterator[list[Lap]]:
        """First as far as trainings usually go; what is left then goes to the best of those that have not ended."""
        trainings = [(one, seed) for one in alive for seed in self._seeds]
        if not trainings:
            return
        each = max(0, limit - self.spent) // len(trainings)
        usual = [min(each, max(0, self.course.usual - self._rows(one, seed))) for one, seed in trainings]
        yield [self._further(one, seed, rung, rows) for (one, seed), rows in zip(trainings, usual)]
        place = {one.number: place for place, one in enumerate(self.order(alive))}
        open_ones = [(one, seed) for one, seed in trainings if self._is_open(one, seed)]
        left, laps = max(0, limit - self.spent), []
        for one, seed in sorted(open_ones, key=lambda pair: (place[pair[0].number], pair[1])):
            lap = self._further(one, seed, rung + 1, left, end=True)
            left -= self.course.rows_at(lap.until, _batch(one)) - self._rows(one, seed)
            laps.append(lap)
        if laps:
            yield laps

    def _further(self, entrant: Entrant, seed: int, rung: int, rows: int, end: bool = False) -> Lap:
        batch, done = _batch(entrant), self._told.get((entrant.number, seed), [])
        before = done[-1].steps if done else 0
        reached = self.course.within(self._rows(entrant, seed) + rows, batch)
        return Lap(entrant, rung, seed, min(max(before, reached), self.course.total(batch)), end)

    def _rows(self, entrant: Entrant, seed: int) -> int:
        done = self._told.get((entrant.number, seed), [])
        return done[-1].trained_rows if done else 0

    def _is_open(self, entrant: Entrant, seed: int) -> bool:
        last = self._told[entrant.number, seed][-1]
        return not last.ended and last.failed is None

    # Who enters

    def _enter(self, bracket: int, rows: int, kept: int) -> list[Entrant]:
        """As many as so many rows are enough for, of which `kept` are for another training."""
        most = len(self._entry.contenders) * self.settings.recipes
        room = self.course.entrants(rows - kept, most)
        if room == 0 and bracket == 0:
            room = self.course.entrants(rows, most)  # too few rows for both: they are shared in the end
        order = self._by_progress()
        leaders = [one for one in order if math.isfinite(self.value(one))]
        found = self._entry.first(room) if bracket == 0 else self._entry.later(room, leaders, order)
        entered = [
            one.model_copy(update={"number": len(self.entrants) + place, "bracket": bracket})
            for place, one in enumerate(found)
        ]
        self.entrants += entered
        return entered

    def _by_progress(self) -> list[Entrant]:
        """All that were trained: those that came furthest first, and of these the best."""
        end = len(self.settings.rungs)  # whoever came there was trained to its end, in one part or in two
        furthest: dict[int, int] = {}
        for (number, _), lines in self._told.items():
            furthest[number] = max(furthest.get(number, 0), min(end, lines[-1].rung))
        trained = [one for one in self.entrants if one.number in furthest]
        return sorted(trained, key=lambda one: (-furthest[one.number], self.value(one), one.number))


def _batch(entrant: Entrant) -> int:
    return int(entrant.recipe["batch_size"])

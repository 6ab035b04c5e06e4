"""`--budget`: the rows of every model are spent on a race of its own recipes, by successive halving.

The race is that of searches (`recnas.searchers.race`), in one bracket; who enters is one model with recipe after recipe: its
default first, then points of its grid in an order that depends on the seed and the model alone. What is decided depends
on the ledger alone, so a run that goes on asks for the same laps again.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from recnas.bench.entrants import Choice, Entrant, OtherLibrary
from recnas.bench.other_models import MOST_ROWS
from recnas.errors import ConfigError
from recnas.runs.folder import RunDir
from recnas.runs.records import Metrics, ModelTraining, RungTraining
from recnas.searchers.course import Course
from recnas.searchers.entry import Contender, Entry
from recnas.searchers.race import Lap, Race
from recnas.searchers.settings import HalvingSettings, RaceSettings
from recnas.tasks.comparison.journal import Journal
from recnas.tasks.comparison.tuning import TUNING_SEED
from recnas.tasks.comparison.work import WORK_FOLDER, Trial
from recnas.train.recipe import BATCH_SIZES
from recnas.train.settings import TrainSettings

AT_ONCE = 4  # races: each keeps the checkpoints of its living recipes on disk


class Budget:
    """What tuning may spend on each model: `passes` over the training rows, `rows` of them."""

    def __init__(self, settings: TrainSettings, halving: HalvingSettings, passes: float, rows: int) -> None:
        self.settings, self.rows = settings, rows
        given = halving.model_dump() | {"budget": passes, "brackets": 1, "seeds": 1}
        self.race = RaceSettings.model_validate(given)

    def course(self, entrant: Entrant) -> Course:
        """With every batch size that a recipe of the model may have."""
        default = int(entrant.default(self.settings)["batch_size"])
        return Course(self.race, self.rows, self.settings.epochs, tuple(sorted({*self._batches, default})))

    @cached_property
    def _batches(self) -> tuple[int, ...]:
        """A batch that is longer than the first rung would make a rung of every step."""
        return tuple(size for size in BATCH_SIZES if size <= self.rows * self.race.rungs[0])

    def recipes(self, entrant: Entrant, seed: int) -> list[Choice]:
        """As many as the rows are enough for."""
        course = self.course(entrant)
        room = course.entrants(course.budget, entrant.points(self.settings))
        return entrant.choices(self.settings, room, seed, {"batch_size": course.batches})

    def fits(self, entrant: OtherLibrary) -> int:
        """Trials of a model that is not trained step by step: each is whole and counts as one pass over what it reads."""
        whole = math.floor(self.race.budget * self.rows) // min(MOST_ROWS, self.rows)
        return min(whole, entrant.points(self.settings))

    def check(self, entrants: Sequence[Entrant]) -> None:
        """Faults of the settings that only the data and the models show."""
        if self.settings.schedule == "cosine":
            raise ConfigError(
                "--budget looks at trainings that go on, and under schedule=cosine their rate is still high then.",
                "Use schedule=plateau or schedule=constant, or give every model the same number of whole trials: --tune 8.",
            )
        courses = [self.course(entrant) for entrant in entrants if not isinstance(entrant, OtherLibrary)]
        last = self.race.rungs[-1]
        if courses and last >= self.settings.epochs:
            raise ConfigError(
                f"the last rung of halving.rungs is after {last:g} passes, and no training has more than {self.settings.epochs:g}.",
                "Use lower rungs, such as "
                f"'halving.rungs=[{self.settings.epochs / 9:.3g},{self.settings.epochs / 3:.3g}]', or raise epochs.",
            )
        if short := [course for course in courses if course.budget < course.least]:
            least = max(course.least_budget for course in short)
            raise ConfigError(
                f"--budget {self.race.budget:g}x is too small: one training to its end may take {self.settings.epochs:g} "
                "passes over the training rows.",
                f"The least that works: --budget {least:g}x. Or lower epochs.",
            )
        others = [entrant.label for entrant in entrants if isinstance(entrant, OtherLibrary) and not self.fits(entrant)]
        if others:
            least = math.ceil(100 * min(MOST_ROWS, self.rows) / self.rows) / 100
            raise ConfigError(
                f"--budget {self.race.budget:g}x is too small to fit {', '.join(others)} once.",
                f"The least that works: --budget {least:g}x.",
            )


class RecipeRace:
    """The race of one model, told what its ledger lines say."""

    def __init__(self, entrant: Entrant, budget: Budget, journal: Journal, first_seed: int) -> None:
        self.entrant, self.journal = entrant, journal
        self.recipes = budget.recipes(entrant, first_seed)
        settings = budget.race.model_copy(update={"recipes": len(self.recipes)})
        course = replace(budget.course(entrant), settings=settings)
        alone = Contender(0, entrant.id, {}, 0)
        entry = Entry(settings, [alone], lambda key, around, number: self.recipes[number], lambda parent, draw: None)
        self.race = Race(course, entry, _cost, first_seed + TUNING_SEED)

    def known(self, lap: Lap) -> ModelTraining | None:
        """What the ledger has of it."""
        return self.journal.rungs(self.entrant.id).get((lap.entrant.number, lap.rung))

    def note(self, lap: Lap) -> str:
        loss = self.race.value(lap.entrant)
        return (
            f"{self.entrant.label} recipe {lap.entrant.number + 1}, rung {lap.rung + 1}: validation log loss {loss:.5f}"
        )

    def trial(self, lap: Lap) -> Trial:
        valid_rows = self.race.course.valid_rows(lap.rung)
        return Trial(self.entrant, lap.entrant.recipe, lap.seed, lap.entrant.number, lap, valid_rows)

    def tell(self, lap: Lap, line: ModelTraining) -> None:
        self.race.tell(
            lap,
            RungTraining(
                entrant=lap.entrant.number,
                rung=lap.rung,
                seed=line.seed,
                steps=line.steps or 0,
                trained_rows=line.trained_rows,
                valid=line.valid,
                ended=line.ended,
                cut=line.cut,
                failed=line.failed,
            ),
        )

    @property
    def choice(self) -> Choice:
        """Of the recipes that were trained to their end the best on validation; the default if all failed."""
        winner = self.race.winner
        return self.recipes[0] if winner is None else winner.recipe


class Halving:
    """The races of all models, a few at a time.

    `ask` gives laps that can be done at once, in an order that no number of workers changes; `tell` takes their lines.
    """

    def __init__(self, entrants: Sequence[Entrant], budget: Budget, journal: Journal, first_seed: int) -> None:
        self.races = {one.id: RecipeRace(one, budget, journal, first_seed) for one in entrants}
        self._waiting = list(self.races.values())
        self._going: list[RecipeRace] = []

    @property
    def rows(self) -> int:
        """That all of them may spend."""
        return sum(one.race.course.budget for one in self.races.values())

    @property
    def spent(self) -> int:
        return sum(one.race.spent for one in self.races.values())

    def ask(self) -> list[tuple[RecipeRace, Lap]]:
        """Empty when all races are over."""
        laps: list[tuple[RecipeRace, Lap]] = []
        going: list[RecipeRace] = []
        while self._going or (self._waiting and len(going) < AT_ONCE):
            one = (self._going or self._waiting).pop(0)
            if asked := one.race.ask():
                going.append(one)
                laps += [(one, lap) for lap in asked]
        self._going = going
        return laps

    def forget(self, run: RunDir) -> None:
        """Remove checkpoints of recipes that will not go on, and of races that are over."""
        for one in self.races.values():
            over = one not in self._going and one not in self._waiting
            dropped = {int(training.partition("-")[0]) for training in one.race.dropped}
            for number, recipe in enumerate(one.recipes):
                if over or number in dropped:
                    folder = run.path / WORK_FOLDER / Trial(one.entrant, recipe, 0, number).name
                    shutil.rmtree(folder, ignore_errors=True)


def _cost(metrics: Metrics) -> float:
    loss = metrics.get("logloss")
    return math.inf if loss is None else loss

"""Equal trials: which every model still gets, and which of them was best.

The points of a model's grid are tried in an order that depends on the seed and the model alone, so a run that goes on
draws them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recnas.bench.entrants import Choice, Entrant
from recnas.errors import ConfigError
from recnas.tasks.comparison.journal import Journal
from recnas.tasks.comparison.work import Trial
from recnas.train.settings import TrainSettings

TUNING_SEED = 1_000_000  # added to the first seed: no final training repeats a trial


def check_trials(entrants: Sequence[Entrant], settings: TrainSettings, tune: int, budget: float | None) -> None:
    """The same number of trials for all, or none: a small grid must not get fewer in silence."""
    if tune and budget is not None:
        raise ConfigError("--tune and --budget both say how much is tuned.", "Leave one of them out.")
    smallest = min(entrants, key=lambda entrant: entrant.points(settings))
    most = smallest.points(settings)
    if tune > most:
        raise ConfigError(
            f"--tune {tune} is more than the grid of {smallest.label} has: {most} points. Every model gets the same "
            "number of trials.",
            f"Use --tune {most} or less.",
        )


@dataclass(frozen=True)
class Tuning:
    settings: TrainSettings
    journal: Journal
    first_seed: int

    def missing(self, entrants: Sequence[Entrant], trials: int) -> list[Trial]:
        """What is left of so many trials of every model; a single one could change nothing."""
        if trials < 2:
            return []
        return [
            Trial(entrant, choice, self.first_seed + TUNING_SEED, number)
            for entrant in entrants
            for number, choice in enumerate(entrant.choices(self.settings, trials, self.first_seed))
            if number not in self.journal.trials(entrant.id)
        ]

    def best(self, entrant: Entrant) -> Choice:
        """Lowest validation log loss, the earlier of equals; the defaults if no trial came through."""
        trials = self.journal.trials(entrant.id)
        drawn = entrant.choices(self.settings, len(trials), self.first_seed)
        judged = [(loss, number) for number, line in trials.items() if (loss := line.valid.get("logloss")) is not None]
        return drawn[min(judged)[1]] if judged else drawn[0]

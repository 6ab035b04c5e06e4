"""What the rungs of a race cost: steps, rows and passes of trainings with batches of different sizes, and the plan of a bracket.

A row counts every time a training reads it. Promotions are not known in advance and batches differ, so a bracket is
planned with the dearest of them: what it really spends is at most what was planned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from recnas.errors import ConfigError
from recnas.searchers.settings import RaceSettings

LEAST_VALID_ROWS = 10_000  # that judge a rung


def rows_read(steps: int, batch: int, rows: int) -> int:
    """Rows that so many steps read of `rows`, every pass counted; the last batch of a pass may be smaller."""
    passes, rest = divmod(steps, math.ceil(rows / batch))
    return passes * rows + min(rest * batch, rows)


@dataclass(frozen=True)
class Course:
    """Args:
    rows: training rows. epochs: most passes of one training.
    batches: every batch size a training may have.
    """

    settings: RaceSettings
    rows: int
    epochs: float
    batches: tuple[int, ...]

    def _per_pass(self, batch: int) -> int:
        return math.ceil(self.rows / batch)

    def total(self, batch: int) -> int:
        """Steps of a training that nothing ends early."""
        return self.steps(self.epochs, batch)

    def steps(self, passes: float, batch: int) -> int:
        return max(1, math.ceil(passes * self._per_pass(batch)))

    def rows_at(self, step: int, batch: int) -> int:
        """Rows that so many steps read."""
        return rows_read(step, batch, self.rows)

    def valid_rows(self, rung: int) -> int | None:
        """Validation rows that judge a rung: no more than a training has read by then, or judging would cost more than training; None: all."""
        rungs = self.settings.rungs
        return (
            None
            if rung >= len(rungs) or rungs[rung] >= 1
            else max(LEAST_VALID_ROWS, math.ceil(rungs[rung] * self.rows))
        )

    def within(self, rows: int, batch: int) -> int:
        """The most steps that read no more rows."""
        passes, rest = divmod(rows, self.rows)
        return passes * self._per_pass(batch) + rest // batch

    def _dearest(self, passes: float) -> int:
        return max(self.rows_at(self.steps(passes, batch), batch) for batch in self.batches)

    @property
    def budget(self) -> int:
        """In rows."""
        return math.floor(self.settings.budget * self.rows)

    @property
    def least(self) -> int:
        """Rows without which not one entrant could be trained to its end with all its seeds."""
        return self.settings.seeds * self._dearest(self.epochs)

    @property
    def least_budget(self) -> float:
        """In passes: hundredths that are enough for `least` rows."""
        hundredths = math.ceil(100 * self.least / self.rows)
        while math.floor(hundredths / 100 * self.rows) < self.least:  # 0.29 * 100 is less than 29
            hundredths += 1
        return hundredths / 100

    @property
    def usual(self) -> int:
        """Rows that a training to its end is reckoned with: validation usually ends it before the last pass."""
        return min(
            self._dearest(self.epochs), self._dearest(max(self.settings.usual_passes, 2 * self.settings.rungs[-1]))
        )

    def check(self) -> None:
        """Faults of the settings that only the data and the trainings show."""
        last = self.settings.rungs[-1]
        if last >= self.epochs:
            raise ConfigError(
                f"The last rung of final.race.rungs is after {last:g} passes, and no training has more than {self.epochs:g}.",
                "Use lower rungs, or raise final.train.epochs.",
            )
        if self.budget < self.least:
            raise ConfigError(
                f"final.race.budget={self.settings.budget:g} is too small: one training to its end may take "
                f"{self.epochs:g} passes over the training rows, with {self.settings.seeds} seed(s).",
                f"The least that works: final.race.budget={self.least_budget:g}. Or lower final.train.epochs.",
            )

    def sizes(self, entrants: int) -> tuple[int, ...]:
        """How many are on each rung, the last of which are trained to their end."""
        found = [entrants]
        for _ in self.settings.rungs:
            found.append(max(1, found[-1] // self.settings.eta))
        return tuple(found)

    def cost(self, entrants: int) -> int:
        """Rows of a bracket: of its rungs at most, of the trainings to their end as is usual."""
        sizes, rungs = self.sizes(entrants), [self._dearest(passes) for passes in self.settings.rungs]
        early = sum(size * (here - before) for size, here, before in zip(sizes, rungs, [0, *rungs]))
        return early + sizes[-1] * (self.settings.seeds * self.usual - rungs[-1])

    def entrants(self, rows: int, most: int) -> int:
        """How many a bracket of so many rows has, at most `most`; 0 if the rows do not suffice for one."""
        found = 0
        while found < most and self.cost(found + 1) <= rows:
            found += 1
        return found

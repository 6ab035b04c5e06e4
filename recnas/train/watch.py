"""Early stopping: how a training does on validation, which of its states was best, and when it should end.

A check looks at validation a few times per epoch, always after the same steps, so a resumed training makes the same
checks. Between two checks nothing here has an effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from recnas.runs.records import Metrics
from recnas.train.settings import StopSettings

LOWER_IS_BETTER = {"logloss": True, "auc": False}


class Check(NamedTuple):
    """One look at validation, after `step` steps."""

    step: int
    logloss: float | None
    auc: float | None


def planned_checks(per_epoch: int, epoch_steps: int, total_steps: int) -> int:
    """How many checks a training makes that nothing ends early."""
    if per_epoch >= epoch_steps:
        return total_steps  # one after every step
    at_end = total_steps * per_epoch // epoch_steps > (total_steps - 1) * per_epoch // epoch_steps
    return total_steps * per_epoch // epoch_steps + (0 if at_end else 1)


class Watch:
    """The checks of one training.

    Args:
        epoch_steps: steps of one pass over the training rows. total_steps: the most that are trained.
        evaluate: metrics on validation with the weights as they are.

    Attributes:
        checks: all so far, in order. best: the best of them. failures: checks since then.
    """

    def __init__(
        self, settings: StopSettings, epoch_steps: int, total_steps: int, evaluate: Callable[[], Metrics]
    ) -> None:
        self.settings, self.epoch_steps, self.total_steps = settings, epoch_steps, total_steps
        self._evaluate = evaluate
        self.checks: list[Check] = []
        self.best: Check | None = None
        self.failures = 0

    def due(self, step: int) -> bool:
        """Whether there is a check after `step` steps: at even parts of every epoch, and at the end."""
        per_epoch = self.settings.checks
        crossed = step * per_epoch // self.epoch_steps > (step - 1) * per_epoch // self.epoch_steps
        return crossed or step >= self.total_steps

    def look(self, step: int) -> bool:
        """Check now; whether this is the best state so far."""
        metrics = self._evaluate()
        check = Check(step, metrics["logloss"], metrics["auc"])
        self.checks.append(check)
        if self.best is not None and not self._better(check, self.best):
            self.failures += 1
            return False
        self.best, self.failures = check, 0
        return True

    def _better(self, one: Check, other: Check) -> bool:
        mine, theirs = getattr(one, self.settings.metric), getattr(other, self.settings.metric)
        if mine is None or theirs is None:
            return mine is not None
        return mine < theirs if LOWER_IS_BETTER[self.settings.metric] else mine > theirs

    @property
    def stopped(self) -> bool:
        return self.settings.patience is not None and self.failures >= self.settings.patience

    def rate_factor(self) -> float:
        """What a plateau has made of the learning rate: every check without improvement cuts it."""
        cuts = 0
        best: Check | None = None
        for check in self.checks:
            if best is not None and not self._better(check, best):
                cuts += 1
            else:
                best = check
        return float(self.settings.rate_cut**cuts)

    def best_epoch(self) -> float | None:
        return None if self.best is None else round(self.best.step / self.epoch_steps, 3)

    def state(self) -> dict[str, Any]:
        """As JSON."""
        return {"checks": [list(check) for check in self.checks]}

    def load(self, state: Mapping[str, Any]) -> None:
        self.checks, self.best, self.failures = [Check(*check) for check in state["checks"]], None, 0
        for check in self.checks:
            if self.best is not None and not self._better(check, self.best):
                self.failures += 1
            else:
                self.best, self.failures = check, 0

"""Learning rates as pure functions of the step, so a resumed run continues exactly.

    schedule = Schedule("cosine", peak=0.12, total=716)
    for step in range(716):
        lr = schedule(step)

`cosine` is the one NASRec trains with: from the floor linearly up to the peak over the first 10 % of the
steps, then half a cosine back to the floor. The first steps of Adagrad are as large as
the rate allows, whatever the gradient, so the rate must not rise too fast: with `least_rise` it rises by at
most peak / least_rise a step, for at most half of the run, and a run too short for that has a lower peak.
The reference sets the rate after a step for the next one, and
its first such call gives the floor again: it reads the curve one step late. `lag=1` keeps that; with
`lag=0` the second step already rises.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from recnas.errors import ConfigError

FLOOR = 1e-8


@dataclass(frozen=True)
class Schedule:
    """`schedule(step)` is the rate of step 0, 1, ... `total - 1`; the end of the curve holds from there on.

    Args:
        kind: `cosine`, or `constant` (the peak, from the first step on), or `plateau` (likewise; the trainer cuts it).
        peak: the highest rate. floor: the rate at the start and at the end of `cosine`.
        total: number of steps of the whole run.
        warmup: share of the steps that rise. least_rise: steps a rise to the full peak takes at least.
        lag: steps by which the curve is read late.
    """

    kind: Literal["cosine", "constant", "plateau"]
    peak: float
    total: int
    warmup: float = 0.1
    floor: float = FLOOR
    lag: int = 1
    least_rise: int = 0

    def __post_init__(self) -> None:
        faults = []
        if self.kind not in ("cosine", "constant", "plateau"):
            faults.append(f"kind is {self.kind!r}; choose cosine, constant or plateau")
        if not (self.peak > 0 and 0 <= self.floor <= self.peak):
            faults.append(f"peak {self.peak} must be positive and floor {self.floor} between 0 and the peak")
        if self.total < 1 or self.lag < 0:
            faults.append(f"total {self.total} must be at least 1 and lag {self.lag} at least 0")
        if not 0 <= self.warmup <= 1:
            faults.append(f"warmup is {self.warmup}; it is a share of the steps, between 0 and 1")
        if faults:
            raise ConfigError(f"learning-rate schedule: {'; '.join(faults)}.")

    @property
    def warmup_steps(self) -> int:
        return max(int(self.warmup * self.total), min(self.least_rise, self.total // 2))

    @property
    def top(self) -> float:
        """The highest rate of this run."""
        rise = self.warmup_steps
        return self.peak if rise >= self.least_rise else max(self.floor, self.peak * max(1, rise) / self.least_rise)

    def __call__(self, step: int) -> float:
        if self.kind != "cosine":
            return self.peak
        place, rise, top = min(max(step - self.lag, 0), self.total), self.warmup_steps, self.top
        if place < rise:
            return self.floor + (top - self.floor) * place / rise
        if rise == self.total:  # nothing is left to fall
            return top
        share = (place - rise) / (self.total - rise)
        return self.floor + (top - self.floor) * (1 + math.cos(math.pi * share)) / 2

"""NASI: one step from an even distribution over architectures, along the gradient of a figure at initialisation.

Shu, Cai, Dai, Ooi and Low, "NASI: Label- and Data-agnostic Neural Architecture Search at Initialization"
(2022), algorithm 1. T(A) is the squared norm of a batch's gradient (`recnas.searchers.nasi_trace`), and

    R(A)    = T - mu max(0, T - nu)
    G_t     = gradient of R by alpha, at alpha = 0, for the architecture drawn at step t
    alpha*  = (1 / T) sum_t G_t / max(|G_1|, ..., |G_t|)

The architecture is the most likely one under alpha*. The limit nu is a number, the mean T of random
architectures ("mean"), or moves along ("adaptive"): nu_t = (nu_0 + T_1 + ... + T_{t-1}) / t.

Not in the paper, for spaces where T spans orders of magnitude:

    nu: median            of random architectures; a few great T make the mean a limit that next to none reaches
    scale: own            divides every G_t by its own norm; in the published rule one draw with a great T makes
                          all later steps as good as nothing
    estimator: averages   takes the gradient of the expected R by alpha from R itself. At alpha = 0 it is, up to a
                          factor, the average R of the draws that have an option less that of all draws. G_t
                          estimates the same from derivatives of one draw, with the bias of straight-through.

No torch here: the state is what the ledger says, so a search is resumed by telling the same steps again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from recnas.searchers.oneshot_settings import NasiSettings


def objective(trace: float, mu: float, nu: float) -> float:
    """R of a trace T."""
    return trace - mu * max(0.0, trace - nu)


def slope(trace: float, mu: float, nu: float) -> float:
    """dR / dT; at the limit itself, the one below it."""
    return 1.0 - mu if trace > nu else 1.0


def draw_noise(sizes: Sequence[int], rng: Generator) -> list[np.ndarray]:
    """Gumbel noise per decision; with alpha = 0 its greatest entries are an even draw."""
    return [rng.gumbel(size=size) for size in sizes]


class Nasi:
    """The state of a search: what was measured, and the step it amounts to.

    Args:
        settings: mu, and where nu comes from.
        sizes: options of every decision; gradients are these vectors one after the other.
    """

    def __init__(self, settings: NasiSettings, sizes: Sequence[int]) -> None:
        self.settings, self.sizes = settings, tuple(sizes)
        self.random: list[float] = []  # T of random architectures, for nu = "mean"
        self.traces: list[float] = []
        self.sums, self.counts = np.zeros(sum(sizes)), np.zeros(sum(sizes))  # of R by option, for "averages"
        self.starts = np.cumsum([0, *sizes[:-1]])
        self.largest = 0.0
        self.total = np.zeros(sum(sizes))
        self.steps = 0  # gone, those that failed included

    @property
    def wants_random(self) -> bool:
        """Whether nu needs more random architectures before the first step."""
        return self.settings.nu in ("mean", "median") and len(self.random) < self.settings.nu_archs

    @property
    def done(self) -> bool:
        return self.steps >= self.settings.steps

    def nu(self) -> float:
        """The limit of the next step."""
        if self.settings.nu == "mean":
            return float(np.mean(self.random))
        if self.settings.nu == "median":
            return float(np.median(self.random))
        if self.settings.nu == "adaptive":
            return (self.settings.nu_first + sum(self.traces)) / (len(self.traces) + 1)
        return float(self.settings.nu)

    def tell(self, trace: float, gradient: np.ndarray) -> None:
        """A step: T of the drawn architecture, and the gradient of R (not of T) by alpha."""
        self.traces.append(trace)
        norm = float(np.linalg.norm(gradient))
        self.largest = max(self.largest, norm)
        divisor = norm if self.settings.scale == "own" else self.largest
        if divisor > 0:
            self.total = self.total + gradient / divisor
        self.steps += 1

    def tell_drawn(self, choices: Sequence[int], trace: float) -> None:
        """A step of `estimator: averages`: what was drawn, and its T."""
        places = self.starts + np.array(choices)
        self.sums[places] += objective(trace, self.settings.mu, self.nu())
        self.counts[places] += 1
        self.traces.append(trace)
        self.steps += 1

    def tell_failed(self) -> None:
        """A step whose figures were not finite: it counts, and moves nothing."""
        self.steps += 1

    def alpha(self) -> list[np.ndarray]:
        """What the steps so far amount to, per decision."""
        found = self._averages() if self.settings.estimator == "averages" else self.total / max(self.steps, 1)
        return np.split(found, self.starts[1:])

    def _averages(self) -> np.ndarray:
        """Average R by option less that of all draws; 0 for an option that was never drawn."""
        first = slice(0, self.sizes[0])  # every draw has one option of the first decision
        overall = self.sums[first].sum() / max(self.counts[first].sum(), 1)
        return np.where(self.counts > 0, self.sums / np.maximum(self.counts, 1) - overall, 0.0)

    def choices(self) -> list[int]:
        """The most likely architecture; of equals the first option."""
        return [int(np.argmax(part)) for part in self.alpha()]

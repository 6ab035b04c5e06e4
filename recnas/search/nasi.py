"""NASI: one step from an even distribution over architectures, along the gradient of a figure at initialisation.

Shu, Cai, Dai, Ooi and Low, "NASI: Label- and Data-agnostic Neural Architecture Search at Initialization"
(2022), algorithm 1. T(A) is the squared norm of a batch's gradient (`recnas.search.nasi_trace`), and

    R(A)    = T - mu max(0, T - nu)
    G_t     = gradient of R by alpha, at alpha = 0, for the architecture drawn at step t
    alpha*  = (1 / T) sum_t G_t / max(|G_1|, ..., |G_t|)

The architecture is the most likely one under alpha*. The limit nu is a number, the mean T of random
architectures ("mean"), or moves along ("adaptive"): nu_t = (nu_0 + T_1 + ... + T_{t-1}) / t.

`scale: own` divides every G_t by its own norm instead. It is not in the paper: where T spans orders of magnitude,
one draw with a great T makes all later steps of the published rule as good as nothing.

No torch here: the state is what the ledger says, so a search is resumed by telling the same steps again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from recnas.search.oneshot_settings import NasiSettings


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
        self.largest = 0.0
        self.total = np.zeros(sum(sizes))
        self.steps = 0  # gone, those that failed included

    @property
    def wants_random(self) -> bool:
        """Whether nu needs more random architectures before the first step."""
        return self.settings.nu == "mean" and len(self.random) < self.settings.nu_archs

    @property
    def done(self) -> bool:
        return self.steps >= self.settings.steps

    def nu(self) -> float:
        """The limit of the next step."""
        if self.settings.nu == "mean":
            return float(np.mean(self.random))
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

    def tell_failed(self) -> None:
        """A step whose figures were not finite: it counts, and moves nothing."""
        self.steps += 1

    def alpha(self) -> list[np.ndarray]:
        """What the steps so far amount to, per decision."""
        ends = np.cumsum(self.sizes)[:-1]
        return np.split(self.total / max(self.steps, 1), ends)

    def choices(self) -> list[int]:
        """The most likely architecture; of equals the first option."""
        return [int(np.argmax(part)) for part in self.alpha()]

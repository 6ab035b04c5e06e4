"""Eigen-NAS on the space of MLPs, with the exact limiting kernel: which activations and skips come out on top.

    rows = uniform_study(layers=10, x=sphere(32, 64), skips=True)      # one activation throughout, best first
    best = top(MlpSpace(10), x, candidates=200, k=20)                  # of random networks
    shares(best)                                                       # who is in them, layer by layer

Every network has three figures, each at most the next: the smallest eigenvalue of its kernel, the mean of the diagonal
(what Eigen-NAS ranks by) and the Frobenius norm (what KNAS ranks by).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from recnas.errors import ConfigError
from recnas.space.mlp import ACTIVATIONS, MlpArch, MlpSpace
from recnas.theory.ntk import Reading, ntk

Figure = Literal["min_eigenvalue", "trace_bound", "frobenius"]


@dataclass(frozen=True)
class Ranked:
    """A network and its figures."""

    arch: MlpArch
    min_eigenvalue: float
    trace_bound: float
    frobenius: float


def rate(arch: MlpArch, x: np.ndarray, reading: Reading = "network") -> Ranked:
    """The figures of one network on the rows of `x`."""
    kernel = ntk(arch, x, reading)
    return Ranked(arch, kernel.min_eigenvalue(), kernel.mean_diagonal, kernel.frobenius)


def ranked(found: Sequence[Ranked], by: Figure = "min_eigenvalue") -> list[Ranked]:
    """Best first."""
    if by not in ("min_eigenvalue", "trace_bound", "frobenius"):
        raise ConfigError(f"there is no figure {by!r}.", "Use min_eigenvalue, trace_bound or frobenius.")
    return sorted(found, key=lambda one: -getattr(one, by))


def uniform_study(
    layers: int, x: np.ndarray, skips: bool = True, by: Figure = "min_eigenvalue", reading: Reading = "network"
) -> list[Ranked]:
    """One network per activation, the same in every layer."""
    archs = [MlpArch((kind,) * (layers - 1), (skips,) * (layers - 2), 1) for kind in ACTIVATIONS]
    return ranked([rate(arch, x, reading) for arch in archs], by)


def layer_study(base: MlpArch, x: np.ndarray, reading: Reading = "network") -> np.ndarray:
    """Smallest eigenvalue with one layer's activation changed: `[layers - 1, activations]`, in the order of `ACTIVATIONS`."""
    found = np.empty((len(base.activations), len(ACTIVATIONS)))
    for place in range(len(base.activations)):
        for column, kind in enumerate(ACTIVATIONS):
            kinds = (*base.activations[:place], kind, *base.activations[place + 1 :])
            found[place, column] = ntk(MlpArch(kinds, base.skips, base.width), x, reading).min_eigenvalue()
    return found


def top(
    space: MlpSpace,
    x: np.ndarray,
    candidates: int = 200,
    k: int = 20,
    seed: int = 0,
    by: Figure = "trace_bound",
    reading: Reading = "network",
) -> list[Ranked]:
    """The best `k` of random networks, without training any."""
    if not 1 <= k <= candidates:
        raise ConfigError(f"the best {k} of {candidates} cannot be taken.", "Use candidates >= k >= 1.")
    rng = np.random.default_rng(seed)
    return ranked([rate(space.sample(rng), x, reading) for _ in range(candidates)], by)[:k]


def shares(found: Sequence[Ranked]) -> tuple[np.ndarray, np.ndarray]:
    """How often each activation stands in each layer `[layers - 1, activations]`, and each skip is there `[layers - 2]`."""
    kinds = np.array([[[kind == name for name in ACTIVATIONS] for kind in one.arch.activations] for one in found])
    return kinds.mean(0), np.array([one.arch.skips for one in found]).mean(0)

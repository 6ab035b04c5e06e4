"""The neural tangent kernel of an infinitely wide MLP with mixed activations and skips, layer by layer.

    kernel = ntk(arch, unit_rows(x))           # an MlpArch; x [N, d], rows of length 1
    kernel.matrix, kernel.min_eigenvalue(), kernel.mean_diagonal

Zhu, Liu and Cevher (Eigen-NAS, 2022), lemma 1. G is 2 E[s s^T] of a layer, G' 2 E[s' s'^T], A the covariance of what
the next layer's neurons receive; products are entry by entry:

    K = G_L + sum over l < L of  G_l  G'_(l+1)  (G'_(l+2) + a_l)  ...  (G'_L + a_(L-2))          reading "paper"

Two things are missing there once a layer has a skip, and reading "network" (the default) has them:

- The gradient of W_l is made of what the layer reads, f_(l-1), which holds the skipped part as well: A_l in place
  of G_l, and A_L in place of G_L.
- f = s(W f') + f' has mixed terms: a neuron's s and f' are independent, so they average to the product of
  their means, which is not zero for ReLU, leaky ReLU and swish. A = G + a (A' + 2 (e m^T + m e^T)), e = E[s], m = E[f'].

Without skips the two are the same. "network" is what wide finite networks converge to; "paper" is the printed formula.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from recnas.errors import ConfigError
from recnas.space.mlp import MlpArch
from recnas.theory.activations import SLOPE, averages

Reading = Literal["network", "paper"]


@dataclass(frozen=True)
class Ntk:
    """A kernel matrix `[N, N]` and how far to trust it.

    Args:
        matrix: K.
        variances: the largest diagonal entry of A_1, ..., A_L.
        error: the largest share of a diagonal entry that truncated sums may have left out of any layer's
            averages; 0 if all layers have closed forms.
    """

    matrix: np.ndarray
    variances: tuple[float, ...]
    error: float

    def eigenvalues(self) -> np.ndarray:
        """In ascending order."""
        return np.linalg.eigvalsh(self.matrix)

    def min_eigenvalue(self) -> float:
        return float(self.eigenvalues()[0])

    @property
    def mean_diagonal(self) -> float:
        """(1 / N) sum K_ii, what Eigen-NAS ranks by: never below the smallest eigenvalue."""
        return float(np.diagonal(self.matrix).mean())

    @property
    def frobenius(self) -> float:
        """What KNAS ranks by: never below `mean_diagonal`."""
        return float(np.linalg.norm(self.matrix))


def ntk(arch: MlpArch, x: np.ndarray, reading: Reading = "network", slope: float = SLOPE) -> Ntk:
    """The limiting kernel of `arch` on the rows of `x`; the width of `arch` plays no part.

    Args:
        x: `[N, d]`. Rows of length 1 are what the theorems speak of; others are allowed.
        slope: of the leaky ReLU for negative values.
    """
    if reading not in ("network", "paper"):
        raise ConfigError(f"there is no reading {reading!r} of lemma 1.", "Use network or paper.")
    x = checked_rows(x)
    exact = reading == "network"
    covariance = x @ x.T  # A_1
    reads = [covariance]  # what the gradient of W_l is made of, l = 1 ... L
    slopes = []  # G'_2 ... G'_L
    mean = np.zeros(len(x))
    variances = [float(np.diagonal(covariance).max())]
    error = 0.0
    for kind, skip in zip(arch.activations, (False, *arch.skips)):
        found = averages(kind, covariance, slope)
        gram = 2 * found.value
        slopes.append(2 * found.slope)
        error = max(error, found.error / max(float(np.diagonal(found.value).min()), 1e-300))
        covariance_next, mean_next = gram, found.mean
        if skip:
            covariance_next = gram + covariance
            mean_next = found.mean + mean
            if exact:
                mixed = np.outer(found.mean, mean)
                covariance_next = covariance_next + 2 * (mixed + mixed.T)
        covariance, mean = covariance_next, mean_next
        variances.append(float(np.diagonal(covariance).max()))
        reads.append(covariance if exact else gram)
    matrix = reads[-1].copy()
    back = np.ones_like(matrix)  # from the output down to layer l
    for number in range(arch.layers - 2, -1, -1):  # layer number + 1
        matrix += reads[number] * slopes[number] * back
        skip = number > 0 and arch.skips[number - 1]
        back = back * (slopes[number] + skip)
    return Ntk((matrix + matrix.T) / 2, tuple(variances), error)


def unit_rows(x: np.ndarray) -> np.ndarray:
    """Rows scaled to length 1 (assumption 1 of Eigen-NAS)."""
    x = checked_rows(x)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def sphere(rows: int, inputs: int, seed: int = 0) -> np.ndarray:
    """Points spread evenly on the unit sphere: length 1 and isotropic (assumptions 1 and 3)."""
    return unit_rows(np.random.default_rng(seed).standard_normal((rows, inputs)))


def checked_rows(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x, np.float64)
    if x.ndim != 2 or not x.size or not np.isfinite(x).all() or not (x != 0).any(1).all():
        raise ConfigError(
            f"a kernel needs finite inputs [N, d], none of them all zero; these have shape {x.shape}.",
            "Flatten the examples and leave out empty ones.",
        )
    return x

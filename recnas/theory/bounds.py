"""Bounds on the smallest eigenvalue of the kernel: theorems 1 and 2 of Eigen-NAS, with the constants of its table 1.

    found = theorem1(arch, n, d)                   # for isotropic inputs of length 1
    found.lower, found.upper, found.eigenvalue

    kind        beta_1       beta_2       beta_3
    relu        1            1            1
    leaky_relu  1 + s^2      1 + s^2      1 + s^2          s: slope for negative values
    sigmoid     1/8          1/8          2 E[s'(sqrt(t) z)^2]
    tanh        2            2            2 E[s'(sqrt(t) z)^2]          t = 3 (1 + s^2) (2 + s^2)^(L - 3)
    swish       1            1.22         1/2

beta_1 bounds G_ii / A_ii, beta_2 and beta_3 bound G'_ii from above and below (`recnas.theory.ntk`).

**Which eigenvalue.** The theorems ask for N >= d^4 and give bounds of size N / d. The smallest of the N eigenvalues of K
cannot be that large: it is at most the mean of the diagonal, which does not grow with N. The d-th largest can, and for
it both sides follow: lambda_d <= (1/d) sum K_ii, and lambda_d of X X^T is about N / d. So the figures here are about the
r-th largest eigenvalue, r = min(N, d): for N <= d this is the smallest.

**Theta.** What the paper hides in Theta is an argument, 1 unless told. For N <= d and `gram` = lambda_min(X X^T) the lower
bound holds with 1: K is at least its l = 1 term, and Schur's product theorem takes the diagonals out.

**Readings.** "paper" bounds the printed lemma; "network" the kernel of the network itself, whose variances grow by up to
(sqrt(beta_1) + a)^2 per layer instead of beta_1 + a (triangle inequality); t is then the largest variance so bounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod, sqrt

import numpy as np

from recnas.errors import ConfigError
from recnas.space.mlp import MlpArch
from recnas.theory.activations import SLOPE, first_hermite, moment
from recnas.theory.ntk import Reading, checked_rows, ntk

SWISH_SLOPE = 1.22  # the paper's bound on 2 E[swish'^2]; its largest value is 1.017


@dataclass(frozen=True)
class Betas:
    """Table 1 for one activation."""

    one: float
    two: float
    three: float


@dataclass(frozen=True)
class Bounds:
    """Between these lies an eigenvalue of the kernel.

    Args:
        eigenvalue: which one, counted from the largest; N (the smallest) if N <= d.
    """

    lower: float
    upper: float
    eigenvalue: int


def table1(kind: str, layers: int, slope: float = SLOPE, variance: float | None = None) -> Betas:
    """The constants of an activation in a network of `layers` layers of weights.

    Args:
        variance: t, if another than the paper's.
    """
    if kind == "relu":
        return Betas(1.0, 1.0, 1.0)
    if kind == "leaky_relu":
        return Betas(1 + slope**2, 1 + slope**2, 1 + slope**2)
    if kind == "swish":
        return Betas(1.0, SWISH_SLOPE, 0.5)
    t = largest_variance(layers, slope) if variance is None else variance
    lower = 2 * moment(kind, t, "slope")  # also where an unknown name is refused
    return Betas(1 / 8, 1 / 8, lower) if kind == "sigmoid" else Betas(2.0, 2.0, lower)


def largest_variance(layers: int, slope: float = SLOPE) -> float:
    """t of table 1."""
    return 3 * (1 + slope**2) * (2 + slope**2) ** (layers - 3)


def theorem1(
    arch: MlpArch,
    n: int,
    d: int,
    gram: float | None = None,
    reading: Reading = "paper",
    slope: float = SLOPE,
    theta: float = 1.0,
) -> Bounds:
    """Bounds for the limiting kernel on `n` inputs of length 1 in `d` dimensions.

    Args:
        gram: the min(n, d)-th largest eigenvalue of X X^T; n / d (isotropic inputs, n much above d) by default.
        theta: the constant of the lower bound.
    """
    _sizes(n, d)
    rank = min(n, d)
    skips = (0, *map(int, arch.skips))  # a_0 = 0, a_1, ...: around layers 1, 2, ...
    variance = None
    growth = [1.0]  # bounds on the diagonals of what W_1, ..., W_L read
    if reading == "network":
        for kind, skip in zip(arch.activations, skips):
            growth.append(growth[-1] * (sqrt(table1(kind, arch.layers, slope, 1.0).one) + skip) ** 2)
        variance = max(growth[:-1])
    betas = [table1(kind, arch.layers, slope, variance) for kind in arch.activations]
    if reading == "paper":
        whole = 1.0  # of A
        for beta, skip in zip(betas, skips):
            growth.append(whole * beta.one)
            whole *= beta.one + skip
    back = [beta.two + skip for beta, skip in zip(betas, skips)]
    upper = n / rank * sum(size * prod(back[layer:]) for layer, size in enumerate(growth))
    down = prod(beta.three + skip for beta, skip in zip(betas[1:], skips[1:]))
    start = 2 * first_hermite(arch.activations[0], slope) ** 2
    return Bounds(theta * start * (n / d if gram is None else gram) * down, upper, rank)


def theorem2(
    arch: MlpArch,
    n: int,
    d: int,
    slope: float = SLOPE,
    theta_lower: float = 1.0,
    theta_upper: float = 1.0,
) -> Bounds:
    """The same for networks of finite width, with high probability over their weights.

    The theorem leaves every constant to Theta, also those that depend on depth: with W ~ N(0, 1/m), as printed, each
    layer of ReLU halves the signal, which the products do not show. They fit weights of variance 2/m.
    """
    _sizes(n, d)
    betas = [table1(kind, arch.layers, slope) for kind in arch.activations][1:]
    lower = prod(beta.three + skip for beta, skip in zip(betas, arch.skips))
    steps = [beta.two + skip for beta, skip in zip(betas, arch.skips)]  # layers 2 ... L - 1
    upper = sum(prod(steps[k:]) for k in range(arch.layers))
    rank = min(n, d)
    return Bounds(theta_lower * n / d * lower, theta_upper * n / rank * upper, rank)


def bracket(arch: MlpArch, x: np.ndarray, reading: Reading = "paper", slope: float = SLOPE) -> tuple[Bounds, float]:
    """Theorem 1 on given inputs of length 1, with the eigenvalue of X X^T they have, and the eigenvalue of K it bounds."""
    x = checked_rows(x)
    if np.abs((x * x).sum(1) - 1).max() > 1e-9:
        raise ConfigError("theorem 1 is about inputs of length 1, and these are not.", "Use unit_rows(x).")
    n, d = x.shape
    gram = float(np.linalg.eigvalsh(x @ x.T)[-min(n, d)])
    found = theorem1(arch, n, d, max(gram, 0.0), reading, slope)
    return found, float(ntk(arch, x, reading, slope).eigenvalues()[-found.eigenvalue])


def _sizes(n: int, d: int) -> None:
    if n < 1 or d < 1:
        raise ConfigError(f"{n} inputs of {d} dimensions have no kernel.", "Use one or more of each.")

"""Gaussian averages of activations: what a layer of infinitely many neurons does to a pair of inputs.

For (u, v) normal with variances p, q and correlation r, and an activation s:

    value       E[s(u) s(v)]
    slope       E[s'(u) s'(v)]
    mean        E[s(u)]

**ReLU and leaky ReLU** have closed forms (arc-cosine kernels; Cho and Saul, 2009): exact to rounding.

**Sigmoid (shifted), tanh and swish** have none. With h_k the normalised Hermite polynomials and
a_k(p) = E[s(sqrt(p) z) h_k(z)], Mehler's formula gives

    E[s(u) s(v)] = sum_k a_k(p) a_k(q) r^k

The a_k come from the trapezoid rule on a fine grid, whose error for these functions (analytic in a strip) is below
1e-13 as long as p is at most `MAX_VARIANCE`. The sum stops at K, where the rest is rounding or at `ORDER`; what is left
out is at most |r|^(K + 1) sqrt(t(p) t(q)), t(p) = E[s^2] - sum a_k^2, and is returned beside the value. For r = 1 the
average is taken directly, so diagonals do not depend on K.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import pi, sqrt

import numpy as np

from recnas.errors import ConfigError
from recnas.space.base import nearest_name
from recnas.space.mlp import ACTIVATIONS

Array = np.ndarray
SLOPE = 0.01  # of the leaky ReLU for negative values, unless told
ORDER = 256  # Hermite polynomials kept
MAX_VARIANCE = 2.0**16  # beyond it the grid would be too coarse for sigmoid, tanh and swish
_REACH = 13.0  # exp(-13^2 / 4) is below rounding
_NOTHING = 1e-20  # share of E[s^2] below which the last coefficients are dropped
_SAME = 1e-14  # 1 - r below this is one and the same input


@dataclass(frozen=True)
class Averages:
    """Of one layer, for every pair of inputs.

    Args:
        value, slope: `[N, N]`.
        mean: `[N]`.
        error: bound on what the Hermite sums leave out, in any entry; 0 for closed forms.
    """

    value: Array
    slope: Array
    mean: Array
    error: float = 0.0


def averages(kind: str, covariance: Array, slope: float = SLOPE) -> Averages:
    """Gaussian averages of an activation, given the covariance `[N, N]` of what it is applied to."""
    _known(kind)
    covariance = np.asarray(covariance, np.float64)
    root = np.sqrt(np.diagonal(covariance))
    if (root <= 0).any() or not np.isfinite(root).all():
        raise ConfigError("an input has length 0, so its kernel is not defined.", "Leave out inputs that are all zero.")
    r = np.clip(covariance / np.outer(root, root), -1.0, 1.0)
    np.fill_diagonal(r, 1.0)
    if kind in ("relu", "leaky_relu"):
        return _leaky(root, r, 0.0 if kind == "relu" else slope)
    return _series(kind, root, r)


def activation(kind: str, slope: float = SLOPE) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """The function and its derivative."""
    _known(kind)
    if kind == "relu":
        return lambda x: np.maximum(x, 0.0), lambda x: (x > 0) * 1.0
    if kind == "leaky_relu":
        return lambda x: np.where(x > 0, x, slope * x), lambda x: np.where(x > 0, 1.0, slope)
    return _SMOOTH[kind]


def moment(kind: str, variance: float, what: str = "value", slope: float = SLOPE) -> float:
    """E[s^2] ("value"), E[s'^2] ("slope") or E[s] ("mean") at one variance."""
    found = averages(kind, np.array([[variance]]), slope)
    return float(found.mean[0]) if what == "mean" else float(getattr(found, what)[0, 0])


def first_hermite(kind: str, slope: float = SLOPE) -> float:
    """mu_1 = E[s(z) z] = E[s'(z)], z standard normal."""
    if kind in ("relu", "leaky_relu"):
        return 0.5 if kind == "relu" else (1 + slope) / 2
    _known(kind)
    z, weight, _ = _grid(_cells(1.0))
    return float((_SMOOTH[kind][1](z) * weight).sum())


def _leaky(root: Array, r: Array, slope: float) -> Averages:
    """s(x) = a x + b |x|; the mixed terms are odd and vanish."""
    a, b = (1 + slope) / 2, (1 - slope) / 2
    angle = np.arcsin(r)
    size = np.outer(root, root)
    value = size * (a * a * r + b * b * (2 / pi) * (np.sqrt(np.maximum(1 - r * r, 0.0)) + r * angle))
    return Averages(value, a * a + b * b * (2 / pi) * angle, b * sqrt(2 / pi) * root)


def _series(kind: str, root: Array, r: Array) -> Averages:
    if root.max() ** 2 > MAX_VARIANCE:
        raise ConfigError(
            f"the variance before a {kind} has grown to {root.max() ** 2:.3g}, beyond {MAX_VARIANCE:.3g}.",
            "Use fewer layers with skips, or shorter inputs.",
        )
    z, weight, basis = _grid(_cells(float(root.max())))
    # Inputs of one length share their coefficients; lengths are told apart to 13 digits.
    different, which = np.unique(np.round(root / root.max(), 13), return_inverse=True)
    at = np.outer(different * root.max(), z)
    pairs = np.ix_(which, which)
    same = r > 1 - _SAME
    found, errors = [], []
    mean = np.zeros(0)
    for function in _SMOOTH[kind]:
        values = function(at)
        coefficients = (values * np.sqrt(weight)) @ basis  # [lengths, ORDER + 1]; basis carries the other root
        exact = (values * weight) @ values.T
        square = np.diagonal(exact)
        matters = np.flatnonzero((coefficients**2 > _NOTHING * square[:, None]).any(0))
        coefficients = coefficients[:, : matters[-1] + 1]
        left = np.maximum(square - (coefficients**2).sum(1), 0.0)
        total = np.zeros_like(r)
        for column in coefficients.T[::-1]:  # Horner's rule
            total *= r
            total += column[0] ** 2 if len(column) == 1 else np.outer(column, column)[pairs]
        found.append(np.where(same, exact[pairs], total))
        tail = np.where(same, 0.0, np.abs(r) ** coefficients.shape[1]) * np.sqrt(np.outer(left, left))[pairs]
        errors.append(float(tail.max()))
        if not len(mean):
            mean = coefficients[which, 0]
    return Averages(found[0], found[1], mean, max(errors))


def _cells(root: float) -> int:
    """Grid cells on each side of 0, a power of two: the poles are pi / (2 root) away from the real line."""
    need = _REACH * max(64.0, 4.0 * root)
    return 1 << int(np.ceil(np.log2(need)))


@lru_cache(maxsize=4)
def _grid(cells: int) -> tuple[Array, Array, Array]:
    """Nodes, weights of the normal density, and Hermite functions `[nodes, ORDER + 1]` times the weights' roots."""
    z = np.linspace(-_REACH, _REACH, 2 * cells + 1)
    weight = np.exp(-z * z / 2) / sqrt(2 * pi) * (_REACH / cells)
    basis = np.empty((len(z), ORDER + 1))
    basis[:, 0] = np.sqrt(weight)
    basis[:, 1] = z * basis[:, 0]
    for k in range(1, ORDER):
        basis[:, k + 1] = (z * basis[:, k] - sqrt(k) * basis[:, k - 1]) / sqrt(k + 1)
    return z, weight, basis


def _sigmoid(x: Array) -> Array:
    return 0.5 * np.tanh(0.5 * x)


def _sigmoid_slope(x: Array) -> Array:
    return 0.25 - _sigmoid(x) ** 2


def _tanh_slope(x: Array) -> Array:
    return 1 - np.tanh(x) ** 2


def _swish(x: Array) -> Array:
    return x * (0.5 + _sigmoid(x))


def _swish_slope(x: Array) -> Array:
    return 0.5 + _sigmoid(x) + x * _sigmoid_slope(x)


_SMOOTH: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "sigmoid": (_sigmoid, _sigmoid_slope),
    "tanh": (np.tanh, _tanh_slope),
    "swish": (_swish, _swish_slope),
}


def _known(kind: str) -> None:
    if kind not in ACTIVATIONS:
        raise ConfigError(
            f"there is no activation {kind!r} ({nearest_name(kind, ACTIVATIONS)}).", f"Use {', '.join(ACTIVATIONS)}."
        )

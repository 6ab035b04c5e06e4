"""Wide against deep: theorem 3 of HNAS (Shu et al. 2022), computed.

    wide   f(x) = 1^T (W_1 + ... + W_L) x         kernel L n X^T X, whatever the weights
    deep   f(x) = 1^T W_L ... W_1 x               kernel L n^L X^T X on average over the weights

All W are n x n standard normal. For X^T X = I the wide kernel is L n I, its condition number 1; the deep one is a multiple
of I only on average, its condition number is above 1 and its trace is larger. (Factors as re-derived here: the
printed ones cannot be read in the copy at hand.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recnas.errors import ConfigError


@dataclass(frozen=True)
class Topology:
    """What `compare_topologies` saw.

    Args:
        wide: the wide kernel, `[m, m]`.
        deep_mean, deep_error: mean of the deep kernels over draws of the weights, and its standard error.
        wide_kappa: condition number of `wide`.
        deep_kappa: condition number of each draw.
        wide_trace, deep_trace: M_Trace = sqrt(trace / m); of each draw for the deep one.
    """

    wide: np.ndarray
    deep_mean: np.ndarray
    deep_error: np.ndarray
    wide_kappa: float
    deep_kappa: np.ndarray
    wide_trace: float
    deep_trace: np.ndarray


def wide_kernel(x: np.ndarray, layers: int) -> np.ndarray:
    """The gradient for every W_i is 1 x^T, so no weights are needed. `x` is `[n, m]`, examples as columns."""
    return layers * len(x) * (x.T @ x)


def deep_kernel(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Of one draw, `weights` `[L, n, n]`: the gradient for W_i is (W_L ... W_(i+1))^T 1 times (W_(i-1) ... W_1 x)^T."""
    forward = [x]
    for w in weights[:-1]:
        forward.append(w @ forward[-1])
    back = np.ones(len(x))
    kernel = np.zeros((x.shape[1], x.shape[1]))
    for w, a in zip(weights[::-1], forward[::-1]):
        kernel += (back @ back) * (a.T @ a)
        back = w.T @ back
    return kernel


def expected_deep(n: int, layers: int) -> float:
    """Diagonal of the deep kernel on average, for X^T X = I."""
    return float(layers * n**layers)


def compare_topologies(n: int = 8, layers: int = 3, examples: int = 8, draws: int = 1000, seed: int = 0) -> Topology:
    """Both kernels on orthonormal examples (columns of a random rotation)."""
    if not 1 <= examples <= n or layers < 1 or draws < 2:
        raise ConfigError(
            f"{examples} orthonormal examples in {n} dimensions, {layers} layers and {draws} draws do not go together.",
            "Use at most n examples, a layer or more, and two draws or more.",
        )
    rng = np.random.default_rng(seed)
    x = np.linalg.qr(rng.standard_normal((n, n)))[0][:, :examples]
    wide = wide_kernel(x, layers)
    deep = np.array([deep_kernel(x, rng.standard_normal((layers, n, n))) for _ in range(draws)])
    traces = np.trace(deep, axis1=1, axis2=2)
    return Topology(
        wide,
        deep.mean(0),
        deep.std(0, ddof=1) / np.sqrt(draws),
        float(np.linalg.cond(wide)),
        np.array([np.linalg.cond(kernel) for kernel in deep]),
        float(np.sqrt(np.trace(wide) / examples)),
        np.sqrt(traces / examples),
    )

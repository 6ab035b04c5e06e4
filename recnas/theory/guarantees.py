"""Generalisation guarantees of training-free search, as functions to look at.

HNAS (Shu et al. 2022). M is any of its metrics, kappa the condition number of the kernel, m the number of examples, n the
width, eta the learning rate, t the steps of gradient descent:

    theorem 2       L_D <= L_S + gap,   gap = c kappa / M  [+ 2 c_n / sqrt(n) + 3 sqrt(ln(2 / delta) / (2 m))]
    corollary 1     realizable, L_S = 0 and kappa <= kappa_0:   L_D <= c kappa_0 / M
    corollary 2     otherwise:   L_D <= (m / 2) (1 - eta M^2 / C)^(2 t) + c kappa / M

The paper states them with O(.); c, c_n and C are the constants it leaves open and are 1 unless told (c is 2 in its
appendix). The terms in brackets do not depend on the architecture; they are added when `width` or `examples` is given.
Such values order architectures; they are no error rates, and above 1 they say nothing.

Eigen-NAS (Zhu et al. 2022), theorem 3, is `eigen_nas_bound`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

from recnas.errors import ConfigError


@dataclass(frozen=True)
class Descent:
    """What corollary 2 needs to know about training.

    Args:
        examples: m.
        rate: eta.
        steps: t.
        constant: C, which ties M^2 to the eigenvalues of the kernel.
    """

    examples: int
    rate: float
    steps: int = 1
    constant: float = 1.0

    def __post_init__(self) -> None:
        if self.examples < 1 or self.rate <= 0 or self.steps < 1 or self.constant <= 0:
            raise ConfigError(f"examples, rate, steps and constant must be above 0 (got {self}).")

    @property
    def turn(self) -> float:
        """sqrt(C / eta): up to here a larger M is better in both terms, beyond it they pull apart."""
        return sqrt(self.constant / self.rate)

    @property
    def nu(self) -> float:
        """C / eta, the nu of HNAS's objective."""
        return self.constant / self.rate

    def mu(self, c: float = 1.0) -> float:
        """The mu of HNAS's objective, after division by c."""
        return self.examples / 2 * (self.rate / self.constant) ** (2 * self.steps) / c


def gap(
    metric: float,
    kappa: float,
    c: float = 1.0,
    width: int | None = None,
    examples: int | None = None,
    delta: float = 0.05,
    c_width: float = 1.0,
) -> float:
    """What theorem 2 adds to the training error; falls with M, the width and the examples, grows with kappa."""
    _positive(metric, kappa)
    found = c * kappa / metric
    if width is not None:
        found += 2 * c_width / sqrt(width)
    if examples is not None:
        found += 3 * sqrt(log(2 / delta) / (2 * examples))
    return found


def realizable(metric: float, kappa_max: float = 1.0, c: float = 1.0) -> float:
    """Corollary 1: falls with M alone."""
    return gap(metric, kappa_max, c)


def training_error(metric: float, descent: Descent) -> float:
    """First term of corollary 2; 0 where M is `descent.turn`, growing on both sides."""
    _positive(metric, 1.0)
    return descent.examples / 2 * (1 - metric**2 / descent.nu) ** (2 * descent.steps)


def non_realizable(metric: float, kappa: float, descent: Descent, c: float = 1.0) -> float:
    """Corollary 2."""
    return training_error(metric, descent) + gap(metric, kappa, c)


def objective(metric: float, kappa: float, mu: float, nu: float, power: int = 1) -> float:
    """HNAS's objective 7, kappa / M + mu (M^2 - nu)^(2 power): corollary 2 divided by c, for `Descent.mu` and `.nu`."""
    _positive(metric, kappa)
    return kappa / metric + mu * (metric**2 - nu) ** (2 * power)


def best_metric(kappa: float, descent: Descent, c: float = 1.0) -> float:
    """The M with the lowest value of corollary 2: a little above `descent.turn`, farther for a larger kappa.

    Between the turn and this point the falling gap still wins; found by bisection of the derivative's sign.
    """
    _positive(1.0, kappa)

    def rises(m: float) -> bool:
        inner = m * m / descent.nu - 1
        first = descent.examples * descent.steps * inner ** (2 * descent.steps - 1) * 2 * m / descent.nu
        return first > c * kappa / (m * m)

    low = high = descent.turn
    while not rises(high):
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if rises(middle) else (middle, high)
    return high


def eigen_nas_bound(
    min_eigenvalue: float,
    examples: int,
    layers: int,
    label_square: float | None = None,
    lipschitz: float = 1.1,
    delta: float = 0.05,
    c: float = 1.0,
) -> float:
    """Theorem 3 of Eigen-NAS on the expected 0-1 error, without its logarithms: falls with lambda_min and N.

    Args:
        label_square: y^T y; N for labels of 1 and -1, the default.
        lipschitz: the largest slope of any activation used; 1 without swish, 1.1 with it.
        c: what the O(.) of both terms hide.
    """
    if min_eigenvalue <= 0 or examples < 1 or layers < 1 or not 0 < delta < 1:
        raise ConfigError(
            f"no bound for smallest eigenvalue {min_eigenvalue}, {examples} examples, {layers} layers and delta {delta}.",
            "The kernel must be positive definite: leave out inputs that are there twice.",
        )
    factor = sqrt(layers) * (3 * lipschitz + 1) ** (layers - 1)
    square = examples if label_square is None else label_square
    return c * factor * sqrt(square / (min_eigenvalue * examples)) + c * sqrt(log(1 / delta) / examples)


def _positive(metric: float, kappa: float) -> None:
    if metric <= 0 or kappa <= 0:
        raise ConfigError(
            f"a guarantee needs M and kappa above 0 (got {metric}, {kappa}).",
            "A network with M = 0 does not learn, and a singular kernel has no condition number: leave them out.",
        )

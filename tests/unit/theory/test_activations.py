from __future__ import annotations

import numpy as np
import pytest

from recnas.errors import ConfigError
from recnas.space.mlp import ACTIVATIONS
from recnas.theory.activations import activation, averages, first_hermite, moment

SMOOTH = ("sigmoid", "tanh", "swish")


def covariance(p: float, q: float, r: float) -> np.ndarray:
    mixed = r * np.sqrt(p * q)
    return np.array([[p, mixed], [mixed, q]])


def plane(p: float, q: float, r: float, z: np.ndarray, weight: np.ndarray, function) -> float:
    """E[s(u) s(v)] by a product rule over two independent normal variables."""
    u = np.sqrt(p) * z[:, None]
    v = np.sqrt(q) * (r * z[:, None] + np.sqrt(1 - r * r) * z[None, :])
    return float((weight[:, None] * weight * function(u) * function(v)).sum())


def hermite_rule(n: int) -> tuple[np.ndarray, np.ndarray]:
    z, weight = np.polynomial.hermite_e.hermegauss(n)
    return z, weight / weight.sum()


def even_rule(step: float) -> tuple[np.ndarray, np.ndarray]:
    z = np.arange(-9 + step / 2, 9, step)
    weight = np.exp(-z * z / 2)
    return z, weight / weight.sum()


@pytest.mark.parametrize("kind", SMOOTH)
@pytest.mark.parametrize("r", [-0.9, 0.0, 0.4, 0.97])
def test_series_equal_gauss_hermite(kind: str, r: float):
    p, q = 0.7, 0.4
    found = averages(kind, covariance(p, q, r))
    assert found.error < 1e-9
    for got, function in zip((found.value, found.slope), activation(kind)):
        assert got[0, 1] == pytest.approx(plane(p, q, r, *hermite_rule(120), function), abs=2e-9)


@pytest.mark.parametrize("kind", ["relu", "leaky_relu"])
@pytest.mark.parametrize("r", [-0.9, 0.0, 0.4, 0.97])
def test_closed_forms_equal_a_fine_grid(kind: str, r: float):
    found = averages(kind, covariance(2.0, 0.5, r), slope=0.2)
    value, slope = activation(kind, 0.2)
    rule = even_rule(0.01)
    assert found.value[0, 1] == pytest.approx(plane(2.0, 0.5, r, *rule, value), abs=2e-5)
    assert found.slope[0, 1] == pytest.approx(plane(2.0, 0.5, r, *rule, slope), abs=5e-3)  # a jump along a line


@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_all_agree_with_random_draws(kind: str):
    rng = np.random.default_rng(3)
    cov = np.array([[1.0, 0.6, -0.2], [0.6, 3.0, 0.5], [-0.2, 0.5, 0.3]])
    draws = rng.standard_normal((400_000, 3)) @ np.linalg.cholesky(cov).T
    found = averages(kind, cov, slope=0.1)
    value, slope = activation(kind, 0.1)
    for got, function in ((found.value, value), (found.slope, slope)):
        seen = function(draws)
        for i in range(3):
            for j in range(i + 1):
                products = seen[:, i] * seen[:, j]
                assert abs(got[i, j] - products.mean()) < 5 * products.std() / len(draws) ** 0.5 + 1e-12
    means = value(draws)
    assert (np.abs(found.mean - means.mean(0)) < 5 * means.std(0) / len(draws) ** 0.5).all()


@pytest.mark.parametrize("kind", SMOOTH)
def test_the_stated_error_covers_what_a_large_variance_costs(kind: str):
    p, r = 400.0, 0.995
    found = averages(kind, covariance(p, p, r))
    for got, function in zip((found.value, found.slope), activation(kind)):
        true = plane(p, p, r, *even_rule(0.0125), function)
        assert abs(got[0, 1] - true) <= found.error + 1e-6 * abs(true)


@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_an_input_that_is_there_twice_has_equal_rows(kind: str):
    x = np.array([[1.0, 0.0], [1.0, 0.0], [0.6, 0.8]])
    found = averages(kind, x @ x.T)
    for matrix in (found.value, found.slope):
        np.testing.assert_allclose(matrix[0], matrix[1], rtol=1e-12)
        assert matrix[0, 0] == pytest.approx(matrix[2, 2])


@pytest.mark.parametrize("kind", SMOOTH)
def test_moments_and_the_first_hermite_coefficient(kind: str):
    z, weight = hermite_rule(150)
    value, slope = activation(kind)
    assert first_hermite(kind) == pytest.approx((weight * z * value(z)).sum(), abs=1e-10)
    assert moment(kind, 0.5) == pytest.approx((weight * value(0.5**0.5 * z) ** 2).sum(), abs=1e-10)
    assert moment(kind, 0.5, "slope") == pytest.approx((weight * slope(0.5**0.5 * z) ** 2).sum(), abs=1e-10)
    assert moment(kind, 0.5, "mean") == pytest.approx((weight * value(0.5**0.5 * z)).sum(), abs=1e-10)


def test_faults_are_named():
    with pytest.raises(ConfigError, match="did you mean 'tanh'"):
        averages("tanx", np.eye(2))
    with pytest.raises(ConfigError, match="length 0"):
        averages("relu", np.diag([1.0, 0.0]))
    with pytest.raises(ConfigError, match="variance before a tanh"):
        averages("tanh", 1e6 * np.eye(2))

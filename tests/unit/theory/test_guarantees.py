from __future__ import annotations

import numpy as np
import pytest

from recnas.errors import ConfigError
from recnas.searchers.hnas import guarantee
from recnas.theory.guarantees import (
    Descent,
    best_metric,
    eigen_nas_bound,
    gap,
    non_realizable,
    objective,
    realizable,
    training_error,
)


def falls(values) -> bool:
    return bool((np.diff(values) < 0).all())


def test_realizable_falls_with_the_metric_alone():
    assert falls([realizable(m) for m in (0.1, 1, 2, 30)])
    assert realizable(4, kappa_max=3, c=2) == pytest.approx(1.5)


def test_the_gap_falls_with_metric_width_and_examples_and_grows_with_kappa():
    assert falls([gap(m, 3) for m in (0.1, 1, 2, 30)])
    assert falls([-gap(2, kappa) for kappa in (1, 2, 30)])
    assert falls([gap(2, 3, width=n) for n in (10, 100, 1000)])
    assert falls([gap(2, 3, examples=m) for m in (10, 100, 1000)])
    assert falls([gap(2, 3, examples=100, delta=delta) for delta in (0.01, 0.05, 0.5)])


@pytest.mark.parametrize("steps", [1, 3])
def test_up_to_the_turn_a_larger_metric_is_better_in_both_terms(steps: int):
    descent = Descent(examples=50, rate=0.2, steps=steps, constant=5)
    assert descent.turn == pytest.approx(5)
    grid = np.linspace(0.5, descent.turn, 40)
    assert falls([training_error(m, descent) for m in grid])
    assert falls([non_realizable(m, 10, descent) for m in grid])
    beyond = np.linspace(descent.turn, 3 * descent.turn, 40)
    assert falls([-training_error(m, descent) for m in beyond])  # while the gap still falls: a trade-off
    assert non_realizable(2, 3, descent) < non_realizable(2, 4, descent)


@pytest.mark.parametrize("kappa", [1.0, 40.0, 5000.0])
@pytest.mark.parametrize(("steps", "c"), [(1, 1.0), (2, 1.0), (1, 30.0)])
def test_the_best_metric_is_the_lowest_point_of_a_scan(kappa: float, steps: int, c: float):
    descent = Descent(examples=50, rate=0.2, steps=steps, constant=5)
    best = best_metric(kappa, descent, c)
    assert best > descent.turn
    scan = np.geomspace(descent.turn / 3, descent.turn * 30, 20_001)
    lowest = scan[np.argmin([non_realizable(m, kappa, descent, c) for m in scan])]
    assert best == pytest.approx(lowest, rel=1e-3)


@pytest.mark.parametrize("steps", [1, 2])
def test_the_objective_is_corollary_2_with_its_constants_absorbed(steps: int):
    descent, c = Descent(examples=64, rate=0.03, steps=steps, constant=2.5), 1.7
    for metric, kappa in ((0.5, 3.0), (9.0, 40.0), (20.0, 1.0)):
        wanted = non_realizable(metric, kappa, descent, c) / c
        assert objective(metric, kappa, descent.mu(c), descent.nu, steps) == pytest.approx(wanted)


def test_the_searcher_minimises_the_same_objective():
    m, kappa = np.array([0.5, 1.0, 2.0]), np.array([3.0, 1.0, 2.0])
    wanted = [objective(float(a), float(b), 0.3, 1.5) for a, b in zip(m, kappa)]
    np.testing.assert_allclose(guarantee(m, kappa, 0.3, 1.5, "paper"), wanted)


def test_eigen_nas_bound_falls_with_the_eigenvalue_and_the_examples():
    assert falls([eigen_nas_bound(v, 100, 4) for v in (0.1, 1, 10)])
    assert falls([eigen_nas_bound(1, n, 4, label_square=100) for n in (100, 200, 400)])
    assert falls([-eigen_nas_bound(1, 100, layers) for layers in (3, 4, 8)])
    by_hand = 2 * 4**3 * (100 / (2 * 100)) ** 0.5 + (np.log(1 / 0.05) / 100) ** 0.5
    assert eigen_nas_bound(2, 100, 4, lipschitz=1) == pytest.approx(by_hand)


def test_faults_are_named():
    with pytest.raises(ConfigError, match="above 0"):
        gap(0, 1)
    with pytest.raises(ConfigError, match="above 0"):
        Descent(10, rate=0)
    with pytest.raises(ConfigError, match="positive definite"):
        eigen_nas_bound(0, 10, 3)

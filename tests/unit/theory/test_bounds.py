from __future__ import annotations

import numpy as np
import pytest

from recnas.errors import ConfigError
from recnas.model.blueprint import Network
from recnas.space.mlp import ACTIVATIONS, MlpArch, MlpSpace
from recnas.space.mlp.skeleton import MlpBlueprint, MlpSkeleton
from recnas.theory.activations import first_hermite, moment
from recnas.theory.bounds import bracket, largest_variance, table1, theorem1, theorem2
from recnas.theory.finite import empirical_ntk
from recnas.theory.ntk import sphere


@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_table_1_bounds_what_it_says(kind: str):
    layers, slope = 6, 0.3
    betas = table1(kind, layers, slope)
    for variance in np.geomspace(1e-3, largest_variance(layers, slope), 25):
        value, square = (2 * moment(kind, variance, what, slope) for what in ("value", "slope"))
        assert value <= betas.one * variance * (1 + 1e-12)
        assert betas.three * (1 - 1e-12) <= square <= betas.two * (1 + 1e-12)


@pytest.mark.parametrize("reading", ["paper", "network"])
@pytest.mark.parametrize(("rows", "inputs"), [(16, 40), (120, 5)])  # the smallest eigenvalue; the d-th
def test_eigenvalues_lie_between_the_bounds(reading, rows: int, inputs: int):
    x = sphere(rows, inputs, seed=2)
    rng = np.random.default_rng(5)
    for layers in (3, 5, 8):
        for _ in range(6):
            arch = MlpSpace(layers, 1).sample(rng)
            bounds, eigenvalue = bracket(arch, x, reading)
            assert bounds.eigenvalue == min(rows, inputs)
            assert bounds.lower <= eigenvalue <= bounds.upper, arch.text


def test_the_printed_bounds_cannot_be_about_the_smallest_of_more_inputs_than_dimensions():
    from recnas.theory.ntk import ntk

    x = sphere(120, 5, seed=2)
    arch = MlpArch.from_text("relu-relu", 1)
    assert ntk(arch, x).min_eigenvalue() < theorem1(arch, 120, 5).lower


def test_a_finite_network_lies_between_them_too():
    x = sphere(8, 30, seed=3)
    for text in ("relu-leaky_relu+-tanh+", "swish-relu-sigmoid+"):
        arch = MlpArch.from_text(text, 512)
        kernel = empirical_ntk(Network(MlpBlueprint(arch, MlpSkeleton((30,), 1, "ntk")), seed=1), x)
        bounds, _ = bracket(arch, x, "network")
        assert bounds.lower < np.linalg.eigvalsh(kernel)[0] < bounds.upper


def test_theorem_1_written_out():
    """L = 4, relu-tanh+-swish: sums and products by hand, a_0 = 0."""
    arch = MlpArch.from_text("relu-tanh+-swish", 1)
    n, d = 50, 10
    tanh = 2 * moment("tanh", 3 * (1 + 1e-4) * (2 + 1e-4), "slope")
    found = theorem1(arch, n, d)
    assert found.lower == pytest.approx(2 * 0.25 * n / d * (tanh + 1) * 0.5)
    terms = [1 * 1 * 3 * 1.22, 1 * 3 * 1.22, 2 * 1 * 1.22, 1 * (2 + 1) * 1]
    assert found.upper == pytest.approx(n / d * sum(terms))


def test_theorem_2_is_theorem_1_without_the_first_layer():
    rng = np.random.default_rng(1)
    for _ in range(10):
        arch = MlpSpace(6, 1).sample(rng)
        factor = 2 * first_hermite(arch.activations[0]) ** 2
        assert theorem2(arch, 90, 9, theta_lower=factor).lower == pytest.approx(theorem1(arch, 90, 9).lower)
    relu = MlpArch(("relu",) * 5, (False,) * 4, 1)
    assert theorem2(relu, 90, 9).upper == pytest.approx(theorem1(relu, 90, 9).upper) == 90 / 9 * 6


def test_a_skip_more_and_a_larger_theta_raise_the_bounds():
    with_skip, without = (MlpArch(("relu",) * 4, (skip, True, False), 1) for skip in (True, False))
    for theorem in (theorem1, theorem2):
        assert theorem(with_skip, 20, 4).lower > theorem(without, 20, 4).lower
        assert theorem(with_skip, 20, 4).upper > theorem(without, 20, 4).upper
    assert theorem1(without, 20, 4, theta=2).lower == 2 * theorem1(without, 20, 4).lower


def test_faults_are_named():
    arch = MlpArch.from_text("relu-relu", 1)
    with pytest.raises(ConfigError, match="length 1"):
        bracket(arch, 2 * np.eye(3))
    with pytest.raises(ConfigError, match="no kernel"):
        theorem1(arch, 0, 3)

from __future__ import annotations

import numpy as np
import pytest

from recnas.errors import ConfigError
from recnas.model.blueprint import Network
from recnas.space.mlp import ACTIVATIONS, MlpArch, MlpSpace
from recnas.space.mlp.skeleton import MlpBlueprint, MlpSkeleton
from recnas.theory.finite import empirical_ntk
from recnas.theory.ntk import ntk, sphere, unit_rows

WIDTH, SEEDS = 256, 24


def finite(text: str, x: np.ndarray, seeds: int = SEEDS) -> tuple[np.ndarray, np.ndarray]:
    """Mean kernel of finite networks over their weights, and its standard error."""
    plan = MlpBlueprint(MlpArch.from_text(text, WIDTH), MlpSkeleton((x.shape[1],), 1, "ntk"))
    found = np.array([empirical_ntk(Network(plan, seed), x) for seed in range(seeds)])
    return found.mean(0), found.std(0, ddof=1) / seeds**0.5


# Entries are within 4.5 standard errors of the mean of 24 networks, which is 3 to 9 % of the entry.
@pytest.mark.parametrize("text", ["relu-tanh-swish", "leaky_relu-swish+-relu+-sigmoid", "relu-relu+-relu+"])
def test_the_limit_is_where_finite_networks_are(text: str):
    x = sphere(3, 4, seed=1)
    mean, error = finite(text, x)
    arch = MlpArch.from_text(text, 1)
    assert (np.abs(ntk(arch, x).matrix - mean) < 4.5 * error).all()
    if "+" in text:  # the printed lemma leaves out what skips carry
        assert (mean - ntk(arch, x, "paper").matrix > 8 * error).diagonal().all()


def test_odd_activations_have_no_mixed_terms_but_their_skips_are_still_read():
    x = sphere(3, 4, seed=1)
    text = "tanh-tanh+-tanh+"
    mean, error = finite(text, x)
    arch = MlpArch.from_text(text, 1)
    assert (np.abs(ntk(arch, x).matrix - mean) < 4.5 * error).all()
    assert (mean - ntk(arch, x, "paper").matrix > 8 * error).diagonal().all()


def test_readings_agree_without_skips_and_only_then():
    x = sphere(6, 5)
    rng = np.random.default_rng(0)
    for _ in range(5):
        arch = MlpSpace(5, 1).sample(rng)
        plain = MlpArch(arch.activations, (False,) * 3, 1)
        np.testing.assert_allclose(ntk(plain, x).matrix, ntk(plain, x, "paper").matrix, rtol=1e-12)
        if any(arch.skips):
            assert (ntk(arch, x).matrix.diagonal() > ntk(arch, x, "paper").matrix.diagonal()).all()


def test_lemma_1_term_by_term_for_relu():
    """The printed sum written out for L = 4 with arc-cosine kernels of one angle."""
    x = sphere(7, 3)
    a1, a2 = 1, 1

    def value(a):
        root = np.sqrt(np.outer(a.diagonal(), a.diagonal()))
        t = np.arccos(np.clip(a / root, -1, 1))
        return root * (np.sin(t) + (np.pi - t) * np.cos(t)) / np.pi

    def slope(a):
        root = np.sqrt(np.outer(a.diagonal(), a.diagonal()))
        return 1 - np.arccos(np.clip(a / root, -1, 1)) / np.pi

    g1 = x @ x.T
    g2, d2 = value(g1), slope(g1)
    g3, d3 = value(g2), slope(g2)
    a3 = g3 + a1 * g2
    g4, d4 = value(a3), slope(a3)
    wanted = g4 + g1 * d2 * (d3 + a1) * (d4 + a2) + g2 * d3 * (d4 + a2) + g3 * d4
    found = ntk(MlpArch.from_text("relu-relu+-relu+", 1), x, "paper").matrix
    np.testing.assert_allclose(found, wanted, rtol=1e-7)  # arccos near 1


@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_kernels_are_positive_and_follow_their_inputs(kind: str):
    x = sphere(8, 12)
    arch = MlpArch((kind,) * 4, (True, False, True), 1)
    kernel = ntk(arch, x)
    assert 0 < kernel.min_eigenvalue() <= kernel.mean_diagonal <= kernel.frobenius
    order = np.random.default_rng(0).permutation(8)
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((12, 12)))[0]
    np.testing.assert_allclose(ntk(arch, x[order] @ turn).matrix, kernel.matrix[np.ix_(order, order)], rtol=1e-9)


def test_relu_kernels_of_unit_inputs_have_their_depth_on_the_diagonal():
    for layers in (3, 6, 9):
        arch = MlpArch(("relu",) * (layers - 1), (False,) * (layers - 2), 1)
        np.testing.assert_allclose(ntk(arch, sphere(4, 3)).matrix.diagonal(), layers)


def test_inputs_of_other_lengths_are_allowed():
    x = 3 * sphere(3, 4) * np.array([[1.0], [0.5], [0.1]])
    relu, tanh = (MlpArch((kind,) * 3, (True, True), 1) for kind in ("relu", "tanh"))
    np.testing.assert_allclose(ntk(relu, 2 * x).matrix, 4 * ntk(relu, x).matrix, rtol=1e-12)  # homogeneous
    assert ntk(tanh, x).min_eigenvalue() > 0
    np.testing.assert_allclose(np.linalg.norm(unit_rows(x), axis=1), 1)


def test_faults_are_named():
    arch = MlpArch.from_text("relu-relu", 1)
    for bad in (np.zeros((2, 3)), np.ones(3), np.array([[np.nan, 1.0]]), np.empty((0, 3))):
        with pytest.raises(ConfigError, match="finite inputs"):
            ntk(arch, bad)
    with pytest.raises(ConfigError, match="no reading"):
        ntk(arch, np.eye(2), "other")  # type: ignore[arg-type]
    two = Network(MlpBlueprint(MlpArch.from_text("relu-relu", 4), MlpSkeleton((2,), 2, "ntk")))
    with pytest.raises(ConfigError, match="one output"):
        empirical_ntk(two, np.eye(2))

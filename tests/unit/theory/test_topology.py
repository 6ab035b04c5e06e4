from __future__ import annotations

import numpy as np
import pytest
import torch

from recnas.errors import ConfigError
from recnas.theory.topology import compare_topologies, deep_kernel, expected_deep, wide_kernel


def by_autograd(function, weights: np.ndarray, x: np.ndarray) -> np.ndarray:
    leaves = [torch.tensor(w, requires_grad=True) for w in weights]
    rows = []
    for column in torch.tensor(x).T:
        gradients = torch.autograd.grad(function(leaves, column), leaves)
        rows.append(torch.cat([g.flatten() for g in gradients]))
    jacobian = torch.stack(rows)
    return (jacobian @ jacobian.T).numpy()


def wide(weights, x):
    return sum(weights).matmul(x).sum()


def deep(weights, x):
    for w in weights:
        x = w.matmul(x)
    return x.sum()


def test_kernels_equal_those_of_autograd():
    rng = np.random.default_rng(0)
    weights, x = rng.standard_normal((3, 5, 5)), rng.standard_normal((5, 4))
    np.testing.assert_allclose(wide_kernel(x, 3), by_autograd(wide, weights, x), rtol=1e-12)
    np.testing.assert_allclose(deep_kernel(x, weights), by_autograd(deep, weights, x), rtol=1e-10)


@pytest.mark.parametrize(("n", "layers"), [(8, 3), (6, 2)])
def test_wide_is_exact_and_deep_only_on_average(n: int, layers: int):
    seen = compare_topologies(n, layers, n, draws=1500)
    np.testing.assert_allclose(seen.wide, layers * n * np.eye(n), atol=1e-10)
    assert seen.wide_kappa == pytest.approx(1)
    assert (np.abs(seen.deep_mean - expected_deep(n, layers) * np.eye(n)) < 5 * seen.deep_error).all()
    assert (seen.deep_kappa > 1.1).all()
    assert seen.deep_trace.mean() > seen.wide_trace
    assert (seen.deep_trace > seen.wide_trace).mean() > 0.9


def test_one_layer_is_both():
    seen = compare_topologies(4, 1, 3, draws=2)
    np.testing.assert_allclose(seen.deep_mean, seen.wide, atol=1e-12)


def test_faults_are_named():
    with pytest.raises(ConfigError, match="at most n examples"):
        compare_topologies(4, 2, 5)

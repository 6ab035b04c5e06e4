"""What Eigen-NAS reports of its space, seen in the exact kernels."""

from __future__ import annotations

import numpy as np
import pytest

from recnas.errors import ConfigError
from recnas.space.mlp import ACTIVATIONS, MlpArch, MlpSpace
from recnas.theory.eigen_nas import Ranked, layer_study, ranked, shares, top, uniform_study
from recnas.theory.ntk import sphere

X = sphere(20, 40)


@pytest.mark.parametrize("reading", ["network", "paper"])
@pytest.mark.parametrize("by", ["min_eigenvalue", "trace_bound"])
@pytest.mark.parametrize(("layers", "skips"), [(4, True), (10, True), (4, False), (6, False)])
def test_relu_and_leaky_relu_come_first_and_sigmoid_last(reading, by, layers: int, skips: bool):
    kinds = [one.arch.activations[0] for one in uniform_study(layers, X, skips, by, reading)]
    assert set(kinds[:2]) == {"relu", "leaky_relu"}
    assert kinds[-1] == "sigmoid"


def test_at_ten_layers_without_skips_tanh_overtakes():
    """A gain of 2 is more than tanh needs: its slopes stay above those of ReLU. The bounds overlap, as the paper says."""
    for by in ("min_eigenvalue", "trace_bound"):
        assert uniform_study(10, X, False, by)[0].arch.activations[0] == "tanh"  # type: ignore[arg-type]


def test_the_first_layer_matters_most_with_skips():
    found = layer_study(MlpArch(("relu",) * 5, (True,) * 4, 1), X)
    assert found.shape == (5, len(ACTIVATIONS))
    spread = found.max(1) / found.min(1)
    assert spread[0] > 3 * spread[1:].max()


def test_skips_raise_the_smallest_eigenvalue_and_are_in_the_best():
    for kind in ACTIVATIONS:
        values = []
        for count in range(4):
            arch = MlpArch((kind,) * 4, tuple(place < count for place in range(3)), 1)
            values.append(layer_study(arch, X)[0, ACTIVATIONS.index(kind)])
        assert (np.diff(values) > 0).all()
    kinds, skips = shares(top(MlpSpace(5, 1), X, candidates=120, k=10))
    assert skips.mean() > 0.85
    np.testing.assert_allclose(kinds.sum(1), 1)
    assert kinds[0, ACTIVATIONS.index("sigmoid")] == 0


def test_the_trace_bound_ranks_much_as_the_smallest_eigenvalue():
    found = top(MlpSpace(5, 1), X, candidates=60, k=60, seed=3)
    places = [found.index(one) for one in ranked(found, "min_eigenvalue")]
    assert np.corrcoef(places, np.arange(60))[0, 1] > 0.9
    for one in found:
        assert one.min_eigenvalue <= one.trace_bound <= one.frobenius


def test_faults_are_named():
    with pytest.raises(ConfigError, match="no figure"):
        ranked([Ranked(MlpArch.from_text("relu-relu", 1), 1, 2, 3)], "size")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="best 5 of 3"):
        top(MlpSpace(3, 1), X, candidates=3, k=5)

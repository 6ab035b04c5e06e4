"""NASI's rules by hand-computed numbers, and its second-order gradient against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from recnas.data.images.sets import Inputs, Labels, generated_images, image_batches
from recnas.model.supernets.supernet import CellSupernet, build_supernet, one_hot
from recnas.searchers.gradient.nasi import Nasi, draw_noise, objective, slope
from recnas.searchers.gradient.nasi_trace import straight_through, trace, trace_gradient
from recnas.searchers.gradient.settings import NasiSettings

SIZES: dict[str, dict[str, int]] = {
    "nasbench201": {"channels": 2, "cells": 1},
    "darts": {"channels": 2, "cells": 2},
    "nasbench1shot1-1": {"channels": 6, "cells": 1, "stacks": 1},
    "mlp": {"layers": 4, "width": 6},
}


def test_objective_and_nu_rules():
    assert objective(5.0, 2.0, 8.0) == 5.0
    assert objective(10.0, 2.0, 8.0) == 6.0
    assert [slope(t, 2.0, 8.0) for t in (5.0, 8.0, 8.1)] == [1.0, 1.0, -1.0]
    mean = Nasi(NasiSettings(nu="mean", nu_archs=3), [2])
    for value in (1.0, 2.0, 6.0):
        assert mean.wants_random
        mean.random.append(value)
    assert not mean.wants_random
    assert mean.nu() == 3.0
    assert Nasi(NasiSettings(nu="median", nu_archs=1), [2]).wants_random
    middle = Nasi(NasiSettings(nu="median", nu_archs=3), [2])
    middle.random = [1.0, 2.0, 600.0]
    assert middle.nu() == 2.0
    moving = Nasi(NasiSettings(nu="adaptive", nu_first=500.0), [2])
    seen = []
    for value in (100.0, 40.0, 60.0):
        seen.append(moving.nu())
        moving.tell(value, np.ones(2))
    assert [*seen, moving.nu()] == [500.0, 300.0, 640 / 3, 175.0]
    assert Nasi(NasiSettings(nu=7), [2]).nu() == 7.0


def test_steps_are_divided_by_the_largest_norm_so_far():
    search = Nasi(NasiSettings(steps=4, nu=1.0), [2, 1])
    search.tell(1.0, np.array([3.0, 4.0, 0.0]))  # norm 5
    search.tell(1.0, np.array([0.0, 3.0, 0.0]))  # still 5
    search.tell(1.0, np.array([0.0, -6.0, 8.0]))  # norm 10
    search.tell_failed()
    assert search.done
    first, second = search.alpha()
    np.testing.assert_allclose(first, [0.6 / 4, (0.8 + 0.6 - 0.6) / 4])
    np.testing.assert_allclose(second, [0.8 / 4])
    assert search.choices() == [1, 0]


def test_steps_can_be_divided_by_their_own_norm():
    search = Nasi(NasiSettings(steps=3, nu=1.0, scale="own"), [2])
    search.tell(1.0, np.array([300.0, 400.0]))
    search.tell(1.0, np.array([-2.0, 0.0]))
    search.tell(1.0, np.zeros(2))
    np.testing.assert_allclose(search.alpha()[0], [(0.6 - 1.0) / 3, 0.8 / 3])


def test_averages_are_the_gradient_of_the_expected_objective():
    """Of all architectures once each; the gradient of sum_A p(A) R(A) by alpha at 0 is 1/size times what is found."""
    sizes, mu, nu = [3, 2], 2.0, 4.0
    traces = {(0, 0): 1.0, (0, 1): 9.0, (1, 0): 3.0, (1, 1): 4.0, (2, 0): 5.0, (2, 1): 2.0}
    search = Nasi(NasiSettings(steps=6, mu=mu, nu=nu, estimator="averages"), sizes)
    for choices, value in traces.items():
        search.tell_drawn(choices, value)
    assert search.done
    alphas = [torch.zeros(size, dtype=torch.float64, requires_grad=True) for size in sizes]
    shares = [alpha.softmax(0) for alpha in alphas]
    expected = sum(shares[0][a] * shares[1][b] * objective(value, mu, nu) for (a, b), value in traces.items())
    for found, exact, size in zip(search.alpha(), torch.autograd.grad(expected, alphas), sizes):
        np.testing.assert_allclose(found / size, exact.numpy(), atol=1e-12)
    assert search.choices() == [1, 0]


def test_an_option_that_was_never_drawn_stands_at_the_average():
    search = Nasi(NasiSettings(nu=9.0, estimator="averages"), [3])
    assert search.choices() == [0]
    search.tell_drawn([0], 1.0)
    search.tell_drawn([2], 3.0)
    np.testing.assert_allclose(search.alpha()[0], [-1.0, 0.0, 1.0])


def test_nothing_told_chooses_the_first_options():
    search = Nasi(NasiSettings(nu=1.0), [3, 2])
    search.tell(1.0, np.zeros(5))
    assert search.choices() == [0, 0]


def test_draws_at_zero_are_even():
    rng = np.random.default_rng(0)
    drawn = np.array([np.argmax(draw_noise([4], rng)[0]) for _ in range(4000)])
    assert np.abs(np.bincount(drawn, minlength=4) / 4000 - 0.25).max() < 0.03


def setting(name: str) -> tuple[CellSupernet, tuple[torch.Tensor, torch.Tensor]]:
    rng = np.random.default_rng(5)
    supernet = build_supernet(name, classes=3, image=4, seed=2, **SIZES[name]).double()
    return supernet, (torch.from_numpy(rng.standard_normal((4, 3, 4, 4))), torch.tensor([0, 1, 2, 1]))


def softmax_jacobian(logits: np.ndarray) -> np.ndarray:
    shares = np.exp(logits - logits.max())
    shares /= shares.sum()
    return np.diag(shares) - np.outer(shares, shares)


@pytest.mark.parametrize("name", SIZES)
def test_the_gradient_is_that_of_finite_differences(name):
    """dT / d alpha = (softmax Jacobian) (dT / d pick), the latter by differences of T around the one-hot picks."""
    supernet, batch = setting(name)
    decisions = supernet.plan.decisions
    rng = np.random.default_rng(1)
    noise = draw_noise([decision.size for decision in decisions], rng)
    if name == "nasbench201":
        noise[3][3] = 9.0  # a convolution leads from input to output
    value, gradient = trace_gradient(supernet, noise, batch)
    picks = {d.name: np.eye(d.size)[int(np.argmax(part))] for d, part in zip(decisions, noise)}

    def trace_at(changed: dict[str, np.ndarray]) -> float:
        gates = supernet.plan.gates({n: torch.from_numpy(v) for n, v in changed.items()})
        return trace(supernet, gates, batch).item()

    assert value == pytest.approx(trace_at(picks), rel=1e-9)
    step, at, compared = 1e-6, 0, 0
    for number, (decision, part) in enumerate(zip(decisions, noise)):
        mine = gradient[at : at + decision.size]
        at += decision.size
        if name == "darts" and number % 7:  # 34 decisions; every seventh is enough
            continue
        by_pick = np.zeros(decision.size)
        for place in range(decision.size):
            ends = []
            for sign in (1, -1):
                moved = {n: v.copy() for n, v in picks.items()}
                moved[decision.name][place] += sign * step
                ends.append(trace_at(moved))
            by_pick[place] = (ends[0] - ends[1]) / (2 * step)
        expected = softmax_jacobian(part) @ by_pick
        np.testing.assert_allclose(mine, expected, rtol=2e-3, atol=1e-5 * max(1.0, value))
        compared += bool(np.abs(expected).max() > 0)
    assert compared >= 2, "most decisions must matter, or nothing was compared"


def test_the_trace_is_the_squared_norm_of_the_batch_gradient():
    supernet, batch = setting("mlp")
    choices = [0, 3, 4, 1, 0]
    gates = {d.name: torch.eye(d.size, dtype=torch.float64)[c] for d, c in zip(supernet.plan.decisions, choices)}
    total = 0.0
    for name, leaf in supernet.params.items():  # one weight at a time
        for place in range(leaf.numel()):
            ends = []
            for sign in (1, -1):
                params = {n: p.detach().clone() for n, p in supernet.params.items()}
                params[name].view(-1)[place] += sign * 1e-6
                ends.append(torch.nn.functional.cross_entropy(supernet(params, gates, batch[0]), batch[1]).item())
            total += ((ends[0] - ends[1]) / 2e-6) ** 2
    assert trace(supernet, gates, batch).item() == pytest.approx(total, rel=1e-4)


def test_straight_through_is_one_hot_and_has_the_softmax_derivative():
    alpha = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    noise = torch.tensor([0.3, -1.0, 2.0, 0.1], dtype=torch.float64)
    pick = straight_through(alpha, noise, temperature=0.5)
    assert pick.tolist() == [0, 0, 1, 0]
    weights = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    (found,) = torch.autograd.grad((pick * weights).sum(), alpha)
    np.testing.assert_allclose(found.numpy(), softmax_jacobian(noise.numpy() / 0.5) @ weights.numpy() / 0.5)


@pytest.mark.parametrize(
    ("name", "body"),
    [("nasbench201", {"channels": 4, "cells": 1}), ("nasbench1shot1-1", {"channels": 6, "cells": 1, "stacks": 2})],
)
def test_the_trace_hardly_depends_on_labels_and_images(name, body):
    """NASI's figure 1 on small networks; tests/paper/test_nasi_claims.py has it on CIFAR-10."""
    images = generated_images(rows=64, side=8, seed=0)
    supernet = build_supernet(name, images.classes, 8, 0, **body)
    kinds: list[tuple[Labels, Inputs]] = [("true", "data"), ("random", "data"), ("true", "gaussian")]
    batches = [image_batches(images, 32, 1, 0, labels, inputs)[0] for labels, inputs in kinds]
    rng, sizes = np.random.default_rng(0), [decision.size for decision in supernet.plan.decisions]
    drawn = [[int(np.argmax(part)) for part in draw_noise(sizes, rng)] for _ in range(16)]
    gates = [supernet.plan.gates(one_hot(supernet.plan, choices)) for choices in drawn]
    traces = np.array([[trace(supernet, chosen, batch).item() for batch in batches] for chosen in gates])
    _, labels, inputs = np.corrcoef(traces.T)[0]
    assert min(labels, inputs) > 0.9

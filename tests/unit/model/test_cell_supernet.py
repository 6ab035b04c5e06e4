"""A supernet under one-hot gates is the discrete network with the same weights; what is skipped cannot matter."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
import torch
from torch import Tensor

from recnas.errors import ConfigError
from recnas.model.blueprint import Network
from recnas.model.supernets.supernet import CellSupernet, build_supernet, one_hot
from recnas.space.darts.arch import canonical
from recnas.space.darts.skeleton import DartsBlueprint
from recnas.space.mlp.skeleton import MlpBlueprint
from recnas.space.nasbench101.arch import live_vertices
from recnas.space.nasbench101.skeleton import Nb101Blueprint
from recnas.space.nasbench201.arch import Nb201Arch
from recnas.space.nasbench201.skeleton import Nb201Blueprint, Nb201Skeleton, parameters_of_edge
from recnas.space.registry import get_space


def nb201_network(arch: Nb201Arch, skeleton: Nb201Skeleton | None = None, seed: int = 0) -> Network:
    return Network(Nb201Blueprint.of(arch, skeleton), seed)


SIZES: dict[str, dict[str, int]] = {
    "nasbench201": {"channels": 2, "cells": 2},
    "darts": {"channels": 2, "cells": 3},
    "nasbench1shot1-1": {"channels": 6, "cells": 1, "stacks": 2},
    "nasbench1shot1-2": {"channels": 6, "cells": 1, "stacks": 2},
    "nasbench1shot1-3": {"channels": 6, "cells": 2, "stacks": 2},
    "mlp": {"layers": 5, "width": 8},
}


def space_of(name: str):
    return get_space(name, **SIZES[name]) if name == "mlp" else get_space(name)


def small(name: str) -> CellSupernet:
    return build_supernet(name, classes=3, image=8, seed=1, **SIZES[name]).double()


def images(rows: int = 4) -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).standard_normal((rows, 3, 8, 8)))


def run(supernet: CellSupernet, choices) -> Tensor:
    gates = supernet.plan.gates(one_hot(supernet.plan, choices, torch.float64))
    return supernet(supernet.params, gates, images())


def with_weights(network, names: Mapping[str, str], supernet: CellSupernet) -> Tensor:
    """Logits of a discrete network whose parameter `a.b` is the supernet's `names[a].b`; the rest keep their names."""
    mine = supernet.params
    params = {}
    for name in network.params:
        start = max((prefix for prefix in names if name.startswith(prefix + ".")), key=len, default=None)
        params[name] = mine[name if start is None else names[start] + name[len(start) :]]
        assert params[name].shape == network.params[name].shape
    return network(params, (images(),))


@pytest.mark.parametrize("digits", ["341311", "333333", "012341", "402310", "300001", "000000", "130204"])
def test_nasbench201(digits):
    supernet, arch = small("nasbench201"), Nb201Arch.from_digits(digits)
    network = nb201_network(arch, supernet.plan.skeleton).double()
    names = {}
    for stage in range(3):
        for cell in range(2):
            for edge, op in enumerate(arch.ops):
                if (found := parameters_of_edge(arch, stage, cell, edge)) is not None:
                    names[found] = f"stages.{stage}.{cell}.edge{edge}.{op}"
    expected = with_weights(network, names, supernet)
    torch.testing.assert_close(run(supernet, supernet.plan.choices(arch)), expected)


@pytest.mark.parametrize("seed", range(4))
def test_darts(seed):
    supernet = small("darts")
    arch = canonical(space_of("darts").sample(np.random.default_rng(seed)))
    network = Network(DartsBlueprint(arch, supernet.plan.skeleton)).double()
    names = {}
    for number in range(3):
        cell = arch.reduce if number in supernet.plan.skeleton.reductions else arch.normal
        for node, edges in enumerate(cell, start=2):
            for place, (op, source) in enumerate(edges):
                names[f"cells.{number}.node{node}.{place}"] = f"cells.{number}.edge{source}-{node}.{op}"
    expected = with_weights(network, names, supernet)
    torch.testing.assert_close(run(supernet, supernet.plan.choices(arch)), expected)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_nasbench1shot1(number):
    name = f"nasbench1shot1-{number}"
    supernet, space, rng = small(name), space_of(name), np.random.default_rng(number)
    compared = 0
    while compared < 3:
        arch = space.sample(rng)
        if 0 in arch.parents[-1]:
            continue  # NAS-Bench-101 divides the channels otherwise
        compared += 1
        network = Network(Nb101Blueprint(arch.cell(), supernet.plan.skeleton)).double()
        n = len(arch.parents) + 1
        whole = type(arch.cell())(
            tuple(tuple(int(j > 0 and i in arch.parents[j - 1]) for j in range(n)) for i in range(n)),
            arch.ops,
        )
        names = {}
        for new, old in enumerate(live_vertices(whole)[1:-1], start=1):
            place = supernet.plan.choices(arch)[[d.name for d in supernet.plan.decisions].index(f"op{old}")]
            for stack in range(2):
                for cell in range(SIZES[name]["cells"]):
                    here = f"stacks.{stack}.{cell}"
                    names[f"{here}.vertex{new}"] = f"{here}.vertex{old}.{place}"
                    names[f"{here}.project{new}"] = f"{here}.project{old}"
        expected = with_weights(network, names, supernet)
        torch.testing.assert_close(run(supernet, supernet.plan.choices(arch)), expected)


@pytest.mark.parametrize("seed", range(3))
def test_mlp(seed):
    supernet = small("mlp")
    arch = space_of("mlp").sample(np.random.default_rng(seed))
    network = Network(MlpBlueprint(arch, supernet.plan.skeleton)).double()
    torch.testing.assert_close(run(supernet, supernet.plan.choices(arch)), with_weights(network, {}, supernet))


@pytest.mark.parametrize("name", SIZES)
def test_choices_name_architectures_and_back(name):
    plan, space, rng = small(name).plan, space_of(name), np.random.default_rng(3)
    for _ in range(20):
        arch = space.sample(rng)
        assert space.key(plan.arch(plan.choices(arch))) == space.key(arch)
        choices = [int(rng.integers(decision.size)) for decision in plan.decisions]
        space.validate(plan.arch(choices))


@pytest.mark.parametrize("name", ["nasbench201", "darts", "nasbench1shot1-3", "mlp"])
def test_a_mixture_is_what_it_says_for_the_last_decision(name):
    """Of a mixture in one decision, the derivative by a share is that of the whole sum: nothing needed was skipped."""
    supernet, rng = small(name), np.random.default_rng(0)
    if name.startswith("nasbench1shot1"):  # max pooling of zeros has no derivative, so no pooling after the cell
        supernet = build_supernet(name, 3, 8, seed=1, channels=6, cells=1, stacks=1).double()
    choices = [int(rng.integers(decision.size)) for decision in supernet.plan.decisions]
    picks = one_hot(supernet.plan, choices, torch.float64)
    decision = supernet.plan.decisions[-1]
    leaf = picks[decision.name].requires_grad_()
    out = supernet(supernet.params, supernet.plan.gates(picks), images())
    (found,) = torch.autograd.grad(out.square().sum(), leaf)
    step = 1e-6
    for place in range(decision.size):
        values = []
        for sign in (1, -1):
            moved = {n: p.detach().clone() for n, p in picks.items()}
            moved[decision.name][place] += sign * step
            values.append(supernet(supernet.params, supernet.plan.gates(moved), images()).square().sum().item())
        assert found[place].item() == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-4, abs=1e-5)


def test_darts_derives_the_two_strongest_edges_without_none():
    plan = small("darts").plan
    shares = {decision.name: [0.1] * 7 + [0.3] for decision in plan.relaxed}
    shares["normal.op1-3"][4] = 0.2
    shares["normal.op2-3"][6] = 0.15
    shares["normal.op0-3"][7] = 0.9  # a great share of none counts for nothing
    arch = plan.derive(shares)
    assert arch.normal[1] == (("sep_conv_5x5", 1), ("dil_conv_5x5", 2))
    assert arch.reduce[1] == (("max_pool_3x3", 0), ("max_pool_3x3", 1))


def test_unknown_spaces_and_sizes_are_refused():
    with pytest.raises(ConfigError, match="no supernet"):
        build_supernet("resnet-like")
    with pytest.raises(ConfigError, match="no setting stacks"):
        build_supernet("darts", stacks=2)
    with pytest.raises(ConfigError, match="cannot be divided"):
        build_supernet("nasbench1shot1-2", channels=16)

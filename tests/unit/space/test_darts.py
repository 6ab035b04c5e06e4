"""DARTS: the promises of a space, genotypes as papers write them, and which writings are one network."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from recnas.errors import ConfigError, SpaceError
from recnas.space.blueprint import count
from recnas.space.darts import DARTS_V2, DartsSpace
from recnas.space.darts.arch import INPUTS, NODES, OPS, Cell, DartsArch, canonical, key
from recnas.space.darts.skeleton import DartsBlueprint, DartsSkeleton
from recnas.space.registry import get_space
from recnas.testing.space_suite import SpaceConformance

SMALL = DartsSkeleton(channels=4, cells=3, image=8)


class TestDarts(SpaceConformance):
    neighbours_per_arch = 60

    def space(self):
        return get_space("darts")

    def cost_of(self, arch):
        cost = count(DartsBlueprint(arch, SMALL))
        return cost.params, cost.macs


def test_the_published_sizes_of_darts_v2():
    arch = DartsArch.from_text(DARTS_V2)
    cifar = count(DartsBlueprint(arch, DartsSkeleton()))
    assert cifar.params == 3_349_342  # 3.3 M in the paper, without the auxiliary head
    assert count(DartsBlueprint(arch, DartsSkeleton()), auxiliary=True).params == 3_825_768
    assert count(DartsBlueprint(arch, DartsSkeleton.imagenet())).params == 4_718_752  # 4.7 M in the paper


def test_size_counts_writings():
    pairs = 1
    for node in range(NODES):
        earlier = node + INPUTS
        pairs *= sum(a < b for a in range(earlier) for b in range(earlier)) * len(OPS) ** 2
    assert DartsSpace().size() == pairs**2 == 1_076_746_950_455_072_400


def shuffled(cell: Cell, rng: np.random.Generator) -> Cell:
    """Another writing of the same cell: nodes in another order that keeps reading backwards, inputs swapped."""
    while True:
        order = [int(i) for i in rng.permutation(NODES)]
        new = {0: 0, 1: 1} | {INPUTS + old: INPUTS + place for place, old in enumerate(order)}
        nodes = [tuple((op, new[source]) for op, source in cell[old]) for old in order]
        if all(source < INPUTS + place for place, node in enumerate(nodes) for _, source in node):
            return tuple((node[1], node[0]) if rng.integers(2) else node for node in nodes)


def test_keys_do_not_depend_on_the_writing():
    space, rng = DartsSpace(), np.random.default_rng(0)
    different = 0
    for _ in range(200):
        arch = space.sample(rng)
        other = DartsArch(shuffled(arch.normal, rng), shuffled(arch.reduce, rng))
        different += arch != other
        space.validate(other)
        assert key(other) == key(arch)
        assert canonical(other) == canonical(arch)
        space.validate(canonical(arch))
    assert different > 100


def _same(one: Cell, other: Cell) -> bool:
    """Is there a renaming of nodes that turns one set of edges into the other?"""

    def edges(cell: Cell) -> list[tuple[int, str, int]]:
        return [(source, op, number) for number, node in enumerate(cell, start=INPUTS) for op, source in node]

    wanted = sorted(edges(other))
    for order in permutations(range(INPUTS, INPUTS + NODES)):
        new = (0, 1, *order)
        if sorted((new[source], op, new[number]) for source, op, number in edges(one)) == wanted:
            return True
    return False


def test_equal_keys_are_exactly_the_isomorphic_cells():
    rng = np.random.default_rng(1)
    space = DartsSpace()
    plain = [_with_one_operation(space.sample(rng).normal) for _ in range(60)]  # few operations: many coincide
    keys = [key(DartsArch(cell, plain[0])) for cell in plain]
    assert len(set(keys)) < len(set(plain))
    for i, one in enumerate(plain):
        for j in range(i):
            assert (keys[i] == keys[j]) == _same(one, plain[j])


def _with_one_operation(cell: Cell) -> Cell:
    return tuple(((OPS[0], a[1]), (OPS[0], b[1])) for a, b in cell)


def test_genotypes_round_trip_as_published():
    arch = DartsArch.from_text(DARTS_V2)
    assert arch.text == DARTS_V2
    spaced = DARTS_V2.replace(", (", ",\n   (").replace("range(2, 6)", "[2, 3, 4, 5]")
    assert DartsArch.from_text(spaced) == arch
    assert DartsSpace().from_dict({"space": "darts", "arch": DARTS_V2}) == arch
    rng = np.random.default_rng(2)
    for _ in range(50):
        drawn = DartsSpace().sample(rng)
        assert DartsArch.from_text(drawn.text) == drawn


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("'sep_conv_3x3', 0), ('sep_conv_3x3', 1)", "'sep_conv_7x7', 0), ('sep_conv_3x3', 1)", "no operation 'sep_conv_7x7' .did you mean 'sep_conv"),
        ("('sep_conv_3x3', 0), ('sep_conv_3x3', 1)", "('sep_conv_3x3', 0), ('sep_conv_3x3', 0)", "node 2: reads 0 twice"),
        ("('dil_conv_3x3', 2)", "('dil_conv_3x3', 5)", "node 5: reads 5, which is not before it"),
        ("('dil_conv_3x3', 2)", "'dil_conv_3x3'", r"normal\[7\] must be a pair"),
        (", ('dil_conv_3x3', 2)", "", "normal must be a list of 8 pairs"),
        ("normal_concat=range(2, 6), ", "", "normal_concat is missing"),
        ("normal_concat=range(2, 6)", "normal_concat=range(3, 6)", "normal_concat joins"),
        ("Genotype(", "__import__('os').system(", "must be Genotype"),
        ("range(2, 6)", "open('x')", "not a plain value"),
        ("Genotype(", "Genotype(7, ", "by name"),
        ("Genotype(", "Genotype((", "Python literal"),
        ("reduce_concat", "shrink_concat", "no field 'shrink_concat'"),
        ("'none'", "'none'", None),
    ],
)  # fmt: skip
def test_faults_are_named_and_nothing_is_run(old, new, said):
    text = DARTS_V2.replace(old, new, 1)
    if said is None:
        text, said = DARTS_V2.replace("'skip_connect'", "'none'", 1), "no operation 'none'"
    with pytest.raises(SpaceError, match=said):
        DartsArch.from_text(text)


def test_json_faults_are_named():
    space = DartsSpace()
    good = space.to_dict(DartsArch.from_text(DARTS_V2))
    for bad in ({}, {"space": "nasbench201", **{k: good[k] for k in ("normal", "reduce")}}, []):
        with pytest.raises(SpaceError, match="does not describe"):
            space.from_dict(bad)
    with pytest.raises(SpaceError, match="reduce must be a list of 8 pairs"):
        space.from_dict(good | {"reduce": []})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"channels": 0, "cells": 0}, "channels is 0.*cells is 0"),
        ({"channels": 7}, "cannot be halved"),
        ({"image": 30}, "multiple of 4"),
        ({"image": 100, "stem": "imagenet"}, "multiple of 32"),
        ({"stem": "mnist"}, "no stem"),
    ],
)
def test_bodies_that_cannot_be_built_are_refused(settings, said):
    with pytest.raises(ConfigError, match=said):
        DartsSkeleton(**settings)


def test_the_auxiliary_head_needs_pixels():
    with pytest.raises(ConfigError, match="auxiliary head"):
        count(DartsBlueprint(DartsArch.from_text(DARTS_V2), SMALL), auxiliary=True)

"""NAS-Bench-201: the promises of a space, how cells are written, and how many there are of each kind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recnas.errors import ConfigError, SpaceError
from recnas.space.nasbench201 import Nb201Space
from recnas.space.nasbench201.arch import EDGES, NONE, OPS, SIZE, Nb201Arch, live_edges, live_graph
from recnas.space.nasbench201.key import CONVS, compile_cell, key, published_class
from recnas.space.nasbench201.skeleton import Nb201Skeleton, count
from recnas.space.registry import get_space
from recnas.testing.space_suite import SpaceConformance

cells = st.builds(Nb201Arch, st.tuples(*[st.sampled_from(OPS)] * len(EDGES)))


class TestNasbench201(SpaceConformance):
    def space(self):
        return get_space("nasbench201")

    def cost_of(self, arch):
        cost = count(arch)
        return cost.params, cost.macs


@pytest.fixture(scope="module")
def every() -> list[Nb201Arch]:
    return list(Nb201Space().every())


def test_the_published_counts(every):
    assert len(set(every)) == Nb201Space().size() == SIZE == 15_625
    assert len({published_class(arch) for arch in every}) == 6_466
    assert len({live_graph(arch) for arch in every}) == 9_445
    assert sum(not any(live_edges(arch)) for arch in every) == 341


def test_keys_name_networks(every):
    keys: dict[str, set[tuple[int, int]]] = {}
    for arch in every:
        cost = count(arch)
        keys.setdefault(key(arch), set()).add((cost.params, cost.macs))
    assert len(keys) == 5_260
    assert all(len(costs) == 1 for costs in keys.values()), "one key, one network"
    assert sum(key(arch) == "nb201-out" for arch in every) == 341, "all cells without a live path are one"


def test_the_published_classes_hold_different_networks(every):
    """Why `key` is not the published class: see the module docstring of nasbench201_key."""
    classes: dict[str, set[int]] = {}
    for arch in every:
        classes.setdefault(published_class(arch), set()).add(count(arch).params)
    assert sum(len(params) > 1 for params in classes.values()) == 430
    shared, apart = Nb201Arch.from_digits("301011"), Nb201Arch.from_digits("330011")
    assert published_class(shared) == published_class(apart)
    assert (key(shared), key(apart)) == ("nb201-30-out11", "nb201-30-30-out12")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("300010", "030001", True),  # the other middle node
        ("301001", "000300", True),  # a chain of skips is the edge itself
        ("300300", "000300", True),  # node 1 is read by nobody
        ("420001", "020001", True),
        ("003301", "000300", True),  # node 1 is never reached
        ("440011", "401011", True),  # one pooling, counted twice
        ("330011", "301011", False),  # two convolutions are not one counted twice
        ("301001", "303001", False),
        ("200000", "000000", True),
        ("230011", "320011", True),
        ("331043", "331034", False),  # a pooled convolution plus a convolved sum, and the other way round
    ],
)
def test_which_cells_are_the_same_network(one, other, same):
    assert (key(Nb201Arch.from_digits(one)) == key(Nb201Arch.from_digits(other))) is same


def _values(arch: Nb201Arch, weights: dict[int, float], x: float) -> float:
    """What the cell makes of a number, edge by edge, with a stand-in for every operation."""
    nodes = {0: x, 1: 0.0, 2: 0.0, 3: 0.0}
    live = live_edges(arch)
    for edge, (start, end) in enumerate(EDGES):
        value = nodes[start]
        if live[edge]:
            nodes[end] += {"skip_connect": value, "avg_pool_3x3": np.sin(value)}.get(
                arch.ops[edge], np.tanh(weights.get(edge, 0.0) * value + len(arch.ops[edge].split("3")))
            )
    return nodes[3]


@given(cells, st.integers(0, 10**6))
def test_the_program_computes_what_the_edges_say(arch, seed):
    program, placed = compile_cell(arch)
    rng = np.random.default_rng(seed)
    drawn = rng.normal(size=len(program.ops) + 1)
    weights = {edge: drawn[number] for edge, number in enumerate(placed) if number}
    values = [0.7]
    for number, step in enumerate(program.ops, start=1):
        total = sum(values[j] for j in step.inputs)
        conv = np.tanh(drawn[number] * total + len(step.op.split("3")))
        values.append(conv if step.op in CONVS else np.sin(total))
    assert _values(arch, weights, 0.7) == pytest.approx(sum(values[j] for j in program.output), abs=1e-12)
    assert len({step.label for step in program.ops}) == len(program.ops)
    assert sum(op in CONVS and alive for op, alive in zip(arch.ops, live_edges(arch))) == sum(
        step.op in CONVS for step in program.ops
    )


@given(cells)
def test_middle_nodes_may_trade_places(arch):
    one, two, between, out, first, second = arch.ops
    if between == NONE:
        assert key(Nb201Arch((two, one, between, out, second, first))) == key(arch)


@given(cells)
def test_three_ways_to_write_a_cell(arch):
    assert Nb201Arch.from_text(arch.text) == arch
    assert Nb201Arch.from_digits(arch.digits) == arch
    assert Nb201Arch.from_number(arch.number) == arch


def test_numbers_follow_the_digits():
    assert Nb201Arch.from_number(0).digits == "000000"
    assert Nb201Arch.from_number(1).digits == "000001"
    assert Nb201Arch.from_number(SIZE - 1).digits == "444444"
    assert Nb201Arch.from_digits("341311").number == 12_081
    assert Nb201Arch.from_digits("341311").text == (
        "|nor_conv_3x3~0|+|avg_pool_3x3~0|skip_connect~1|+|nor_conv_3x3~0|skip_connect~1|skip_connect~2|"
    )


def test_mutation_changes_one_edge_and_reaches_every_network_beside():
    space, rng = Nb201Space(), np.random.default_rng(0)
    arch = Nb201Arch.from_digits("341311")
    children = [space.mutate(arch, rng) for _ in range(400)]
    assert all(sum(a != b for a, b in zip(arch.ops, child.ops)) == 1 for child in children)
    assert {key(child) for child in children} == {key(other) for other in space.neighbours(arch)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "|none~0|",
        "|none~0|+|none~0|none~1|",
        "|none~0|+|none~0|none~2|+|none~0|none~1|none~2|",
        "none~0+|none~0|none~1|+|none~0|none~1|none~2|",
        "|none~0|+|none~0|none~1|+|none~0|none~1|none~2|+|none~0|none~1|none~2|none~3|",
    ],
)
def test_malformed_text_says_how_to_write_it(text):
    with pytest.raises(SpaceError, match=r"is not a NAS-Bench-201 cell\n.*write it like \|nor_conv"):
        Nb201Arch.from_text(text)


def test_faults_are_named():
    with pytest.raises(SpaceError, match=r"no operation 'nor_conv_5x5'\n.*did you mean"):
        Nb201Arch.from_text("|nor_conv_5x5~0|+|none~0|none~1|+|none~0|none~1|none~2|")
    with pytest.raises(SpaceError, match="2 operations where a cell has 6 edges; unknown operation 'pool'"):
        Nb201Space().validate(Nb201Arch(("pool", NONE)))
    with pytest.raises(SpaceError, match="no cell number 15625"):
        Nb201Arch.from_number(SIZE)
    with pytest.raises(SpaceError, match="six digits"):
        Nb201Arch.from_digits("34131")
    for data in ({}, {"arch": 3}, {"space": "nasrec-full", "arch": Nb201Arch((NONE,) * 6).text}):
        with pytest.raises(SpaceError, match="does not describe"):
            Nb201Space().from_dict(data)


def test_costs_are_the_benchmark_s_own():
    """Published for CIFAR-10: the largest and the smallest network."""
    body = Nb201Skeleton().trained()
    largest, smallest = (count(Nb201Arch.from_digits(digits), body) for digits in ("333333", "000000"))
    assert (largest.params, largest.macs) == (1_531_546, 220_119_690)
    assert (smallest.params, smallest.macs) == (73_306, 7_783_050)


def test_dead_convolutions_count_only_if_asked():
    dead, empty = Nb201Arch.from_digits("330000"), Nb201Arch.from_digits("000000")
    assert count(dead) == count(empty) == count(empty, keep_dead=True)
    inside = 2 * 5 * sum(9 * width * width + width for width in (16, 32, 64))
    assert count(dead, keep_dead=True).params == count(empty).params + inside


def test_a_body_that_cannot_be_built_is_refused():
    with pytest.raises(ConfigError, match="halved twice"):
        Nb201Skeleton(image=30)
    with pytest.raises(ConfigError, match="channels is 0, classes is -1"):
        Nb201Skeleton(channels=0, classes=-1)

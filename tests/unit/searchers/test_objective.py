"""Comparing candidates: directions, fronts against brute force, crowding worked out by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recnas.errors import ConfigError
from recnas.searchers.objective import Objectives, crowding, dominates, fronts

TABLES = st.integers(1, 4).flatmap(
    lambda width: st.lists(
        st.lists(st.sampled_from([0.0, -0.0, 1.0, 2.5, 3.0, -1e9, math.inf]), min_size=width, max_size=width),
        min_size=1,
        max_size=25,
    )
)


def peel(table):
    """Fronts the slow way: take away what nobody left dominates, again and again."""
    left, rank, found = set(range(len(table))), 0, {}
    while left:
        front = [i for i in left if not any(dominates(table[j], table[i]) for j in left)]
        found |= dict.fromkeys(front, rank)
        left -= set(front)
        rank += 1
    return [found[i] for i in range(len(table))]


@settings(max_examples=400, deadline=None)
@given(TABLES)
def test_fronts_against_brute_force(table):
    assert fronts(np.array(table)).tolist() == peel(table)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=1, max_size=30))
def test_order_is_a_permutation_that_respects_fronts(rows):
    objectives = Objectives.of({"a": "min", "b": "min"})
    order = objectives.order(rows)
    assert sorted(order) == list(range(len(rows)))
    ranks = peel(rows)
    assert [ranks[i] for i in order] == sorted(ranks)


def test_many_candidates_are_sorted_quickly_enough_to_do_it_every_generation():
    table = np.random.default_rng(0).normal(size=(5000, 3))
    ranks = fronts(table)
    first = table[ranks == 0]
    assert not any((np.all(table <= row, axis=1) & np.any(table < row, axis=1)).any() for row in first)


def test_dominates():
    assert dominates((1, 2), (1, 3))
    assert not dominates((1, 2), (1, 2))
    assert not dominates((1, 2), (0, 3))
    assert dominates((1,), (2,))
    assert not dominates((math.inf, math.inf), (math.inf, math.inf))


def test_crowding_by_hand():
    costs = np.array([[0, 4], [1, 3], [3, 1], [4, 0]], dtype=float)
    assert crowding(costs).tolist() == [math.inf, 3 / 4 + 3 / 4, 3 / 4 + 3 / 4, math.inf]


def test_crowding_with_equal_columns_few_rows_and_failures():
    assert crowding(np.array([[1.0, 2.0]])).tolist() == [0]
    assert crowding(np.array([[1.0, 5.0], [1.0, 2.0]])).tolist() == [math.inf, math.inf]
    assert crowding(np.full((3, 2), np.inf)).tolist() == [0, 0, 0]


def test_one_objective_orders_by_value_and_age():
    objectives = Objectives.of({"auc": "max"})
    rows = [objectives.costs(v) for v in ({"auc": 0.7}, None, {"auc": 0.8}, {"auc": 0.7}, {"auc": 0.8})]
    assert objectives.order(rows) == [2, 4, 0, 3, 1]


def test_sparse_regions_come_first_within_a_front():
    objectives = Objectives.of({"a": "min", "b": "min"})
    rows = [(0, 10), (1, 9), (1.5, 8.5), (6, 4), (10, 0)]
    assert objectives.order(rows) == [0, 4, 3, 2, 1]


def test_costs_change_the_sign_of_what_is_maximised():
    objectives = Objectives.of({"loss": "min", "auc": "max"})
    assert objectives.costs({"loss": 0.4, "auc": 0.8}) == (0.4, -0.8)
    assert objectives.costs(None) == (math.inf, math.inf)
    assert objectives.to_dict() == {"loss": "min", "auc": "max"}
    assert objectives.order([]) == []


def test_a_wrong_direction_names_the_right_ones():
    with pytest.raises(ConfigError, match=r"'auc' has the direction 'maximum'.*\n.*max"):
        Objectives.of({"auc": "maximum"})
    with pytest.raises(ConfigError, match="at least one objective"):
        Objectives.of({})


def test_a_vote_adds_ranks_up_whatever_the_scales():
    votes = Objectives.of({"a": "min", "b": "max", "c": "min"}, combine="vote")
    rows = [votes.costs(v) for v in ({"a": 1, "b": 1e9, "c": 3}, {"a": 2, "b": 2e9, "c": 1}, {"a": 3, "b": 0, "c": 2})]
    # ranks: 0 + 1 + 2, 1 + 0 + 0, 2 + 2 + 1
    assert votes.order(rows) == [1, 0, 2]
    assert not votes.has_front
    assert votes.order([*rows, votes.costs(None)])[-1] == 3
    assert votes.better_than(rows[0], [rows[1], rows[2], rows[0]]) == [True, False, False]
    with pytest.raises(ConfigError, match="votes"):
        Objectives.of({"a": "min"}, combine="votes")


def test_better_than_dominates_where_there_is_a_front():
    both = Objectives.of({"a": "min", "b": "min"})
    assert both.has_front
    assert both.better_than((1, 1), [(0, 1), (0, 2), (1, 1)]) == [True, False, False]

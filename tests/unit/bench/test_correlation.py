"""Rank correlation against hand values and its own laws."""

from __future__ import annotations

import json
from itertools import combinations, pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from recnas.bench.correlation import best_found, rank_correlation, top_overlap
from recnas.errors import DataError

numbers = st.integers(-5, 5)  # few values, so that ties are common
pairs = st.lists(st.tuples(numbers, numbers), min_size=2, max_size=12)


def figures(pairs):
    a, b = zip(*pairs)
    return rank_correlation(a, b, resamples=0)


def test_hand_values():
    # Ranks 1..5 against 2,1,4,3,5: squared differences sum to 4; two of ten pairs are out of order.
    found = rank_correlation([1, 2, 3, 4, 5], [20, 10, 40, 30, 50], resamples=0)
    assert found.spearman == pytest.approx(1 - 6 * 4 / (5 * 24))
    assert found.kendall == pytest.approx((8 - 2) / 10)
    assert (found.n, found.spearman_interval, found.reason) == (5, None, None)


def test_hand_values_with_ties():
    # Ranks 1.5, 1.5, 3 against 1, 2, 3. One pair is tied in the first, two are in order: 2 / sqrt(2 * 3).
    found = rank_correlation([7, 7, 9], [1, 2, 3], resamples=0)
    assert found.spearman == pytest.approx(1.5 / np.sqrt(1.5 * 2))
    assert found.kendall == pytest.approx(2 / np.sqrt(6))


def test_order_and_its_reverse():
    up = list(range(30))
    assert rank_correlation(up, np.exp(up)).spearman == 1
    down = rank_correlation(up, up[::-1])
    assert (down.spearman, down.kendall) == (-1, -1)
    assert down.spearman_interval == (-1, -1)


@given(pairs)
def test_kendall_counts_pairs(pairs):
    signs = [(np.sign(p[0] - q[0]), np.sign(p[1] - q[1])) for p, q in combinations(pairs, 2)]
    left, right = (sum(sign[side] != 0 for sign in signs) for side in (0, 1))
    found = figures(pairs)
    if left and right:
        assert found.kendall == pytest.approx(sum(a * b for a, b in signs) / np.sqrt(left * right))
        assert found.reason is None
    else:
        assert found.kendall is found.spearman is None
        assert "is the same for all" in found.reason


@pytest.mark.parametrize(("n", "values"), [(2, 9), (40, 5), (1000, 30), (3000, 10**9)])
def test_agrees_with_scipy(n, values):
    rng = np.random.default_rng(n)
    a = rng.integers(values, size=n) / 7
    b = a + rng.integers(values, size=n)
    found = rank_correlation(a, b, resamples=0)
    assert found.spearman == pytest.approx(stats.spearmanr(a, b).statistic, abs=1e-12)
    assert found.kendall == pytest.approx(stats.kendalltau(a, b).statistic, abs=1e-12)


@given(pairs)
def test_only_order_matters_and_negation_turns_the_sign(pairs):
    a, b = map(np.array, zip(*pairs))
    plain, stretched = figures(pairs), rank_correlation(np.exp(a), b * 3 + 1, resamples=0)
    turned = rank_correlation(-a, b, resamples=0)
    if plain.reason:
        assert stretched.reason
        assert turned.reason
    else:
        for name in ("spearman", "kendall"):
            value = getattr(plain, name)
            assert -1 <= value <= 1
            assert getattr(stretched, name) == pytest.approx(value)
            assert getattr(turned, name) == pytest.approx(-value)


@given(pairs, st.integers(0, 100))
def test_intervals_are_ordered_and_repeatable(pairs, seed):
    a, b = zip(*pairs)
    one, two = (rank_correlation(a, b, resamples=20, seed=seed) for _ in range(2))
    assert one == two
    assert json.loads(json.dumps(one.to_dict(), allow_nan=False))["n"] == len(pairs)
    for interval in (one.spearman_interval, one.kendall_interval):
        if interval is not None:
            assert -1 <= interval[0] <= interval[1] <= 1


def test_intervals_cover_as_often_as_they_say():
    """Normal pairs with correlation 0.6: Spearman's population value is 6/pi asin(0.3)."""
    rng = np.random.default_rng(0)
    true, hits, tries = 6 / np.pi * np.arcsin(0.3), 0, 100
    for number in range(tries):
        x = rng.normal(size=60)
        y = 0.6 * x + 0.8 * rng.normal(size=60)
        found = rank_correlation(x, y, resamples=100, seed=number)
        low, high = found.spearman_interval
        hits += low <= true <= high
        assert low < found.spearman < high
    assert 0.88 <= hits / tries <= 0.99


def test_a_constant_side_gives_a_reason():
    found = rank_correlation([3, 3, 3], [1, 2, 3])
    assert (found.spearman, found.kendall, found.spearman_interval) == (None, None, None)
    assert found.reason == "the score is the same for all 3 architectures"
    assert rank_correlation([1, 2], [5, 5]).reason == "the truth is the same for all 2 architectures"
    assert rank_correlation([1], [5]).reason.startswith("1 architecture:")
    assert rank_correlation([], []).reason.startswith("0 architectures:")


def test_resamples_that_cannot_be_ranked_are_left_out_and_counted():
    found = rank_correlation([1, 2], [1, 2], resamples=200)
    assert 60 < found.resamples < 140
    assert found.spearman_interval == (1, 1)


def test_figures_that_cannot_be_used_are_named():
    with pytest.raises(DataError, match=r"score of architecture 1 is nan \(2 such of 3\)"):
        rank_correlation([1, np.nan, np.inf], [1, 2, 3])
    with pytest.raises(DataError, match="cannot be paired"):
        rank_correlation([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="level"):
        rank_correlation([1, 2], [1, 2], level=1.5)


def test_top_of_the_list_by_hand():
    truth = [1, 2, 3, 4, 5, 6]
    assert top_overlap(truth, truth, 3) == 1
    assert top_overlap(truth[::-1], truth, 3) == 0
    assert top_overlap([1, 2, 6, 3, 4, 5], truth, 3) == pytest.approx(2 / 3)
    assert best_found([1, 2, 6, 3, 4, 5], truth, 3, budget=4) == 1
    assert best_found([6, 5, 4, 3, 2, 1], truth, 2, budget=5) == pytest.approx(1 / 2)


def test_ties_are_broken_fairly():
    assert top_overlap([1] * 10, range(10), 3) == pytest.approx(0.3)
    assert best_found([0, 1, 1, 1], [1, 2, 3, 4], 1, budget=2) == pytest.approx(2 / 3)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=2, max_size=5), st.data())
def test_ties_are_the_mean_over_all_orders(pairs, data):
    n = len(pairs)
    k, budget = data.draw(st.integers(1, n)), data.draw(st.integers(1, n))
    a, b = zip(*pairs)

    def tops(values, size):
        orders = [o for o in permutations(range(n)) if all(values[i] >= values[j] for i, j in pairwise(o))]
        return [set(order[:size]) for order in orders]

    shares = [len(s & t) / k for s in tops(a, budget) for t in tops(b, k)]
    assert best_found(a, b, k, budget) == pytest.approx(np.mean(shares))


def test_a_top_longer_than_the_list_is_refused():
    with pytest.raises(DataError, match="k is 4, but there are 3 architectures"):
        top_overlap([1, 2, 3], [1, 2, 3], 4)
    with pytest.raises(DataError, match="budget is 0"):
        best_found([1, 2, 3], [1, 2, 3], 1, 0)

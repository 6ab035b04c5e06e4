import math

import pytest

from recnas.bench.intervals import mean_interval
from recnas.report.stats import auc_interval, expected_best, quantile, share_interval


def test_expected_best_of_n_by_counting():
    # Pairs of 10, 20, 30, 40 have the maxima 20, 30, 40, 30, 40, 40; triples 30, 40, 40, 40.
    assert expected_best([30, 10, 40, 20], lower=False) == pytest.approx([25, 200 / 6, 37.5, 40])
    assert expected_best([30, 10, 40, 20], lower=True) == pytest.approx([25, 100 / 6, 12.5, 10])
    assert expected_best([7], lower=True) == [7]
    assert expected_best([], lower=True) == []


def test_expected_best_of_a_large_population_does_not_overflow():
    found = expected_best(list(range(2048)), lower=False)
    assert found[0] == pytest.approx(1023.5)
    assert found[-1] == 2047
    assert found == sorted(found)


def test_intervals():
    assert mean_interval([1.0, 2.0, 3.0]) == pytest.approx((2 - 4.303 / math.sqrt(3), 2 + 4.303 / math.sqrt(3)))
    assert mean_interval([1.0]) is None
    assert share_interval(0.5, 100) == pytest.approx((0.4038, 0.5962), abs=1e-4)  # Wilson's, from a table
    assert share_interval(0.0, 10)[0] == 0
    low, high = auc_interval(0.5, 51, 58)  # at 0.5 it is the variance of the rank-sum test, (m + n + 1) / 12mn
    assert (low, high) == pytest.approx(
        (0.5 - 1.96 * math.sqrt(110 / (12 * 51 * 58)), 0.5 + 1.96 * math.sqrt(110 / (12 * 51 * 58)))
    )
    assert auc_interval(0.7, 0, 10) is None


def test_quantile():
    assert quantile([1.0, 2.0, 4.0], 0.5) == 2
    assert quantile([1.0, 2.0, 4.0], 0.75) == 3
    assert quantile([5.0], 0.25) == 5

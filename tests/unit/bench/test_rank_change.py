"""Differences of rank correlations: exact on small cases, and paired."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from recnas.bench.correlation import rank_correlation
from recnas.bench.rank_change import rank_change


def test_the_difference_is_that_of_two_correlations():
    rng = np.random.default_rng(0)
    truth, before, after = rng.normal(size=(3, 40))
    found = rank_change(before, after, truth, resamples=50)
    assert found.spearman == pytest.approx(spearmanr(after, truth).statistic - spearmanr(before, truth).statistic)
    assert found.interval is not None
    low, high = found.interval
    assert low < found.spearman < high
    assert rank_change(before, after, truth, resamples=50) == found


def test_what_both_share_does_not_widen_the_interval():
    """Two scores with the same large noise: apart they look alike, paired the better one is told."""
    rng = np.random.default_rng(1)
    truth = rng.normal(size=150)
    noise = 2 * rng.normal(size=150)
    before, after = truth + noise, truth + 0.8 * noise
    found = rank_change(before, after, truth)
    assert found.real
    assert found.spearman is not None
    assert found.spearman > 0
    alone = [rank_correlation(scores, truth).spearman_interval for scores in (before, after)]
    assert alone[0] is not None
    assert alone[1] is not None
    assert alone[0][1] > alone[1][0], "their own intervals overlap"
    assert not rank_change(before, before, truth).real


def test_nothing_to_rank_says_so():
    truth = np.arange(5.0)
    found = rank_change(np.ones(5), truth, truth)
    assert found.to_dict() == {"change": None, "change_interval": None}
    assert not found.real
    alone = rank_change(truth, -truth, truth, resamples=0)
    assert (alone.spearman, alone.interval) == (-2.0, None)

"""The bootstrap of weighted rows: point estimates against repeated rows, intervals against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from recnas.bench.bootstrap import paired_bootstrap, row_sums
from recnas.errors import DataError


def two_models(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.normal(-0.5, 1.5, n)
    label = (rng.random(n) < 1 / (1 + np.exp(-truth))).astype(np.int8)
    good, bad = (np.round(truth + rng.normal(0, noise, n), 1) for noise in (0.5, 1.0))
    return good, bad, label, rng.integers(0, 5, n).astype(np.float32)


@pytest.mark.parametrize("groups", [64, 2**14])
def test_whole_weights_are_repeated_rows(groups: int):
    good, bad, label, weight = two_models(900)
    times = weight.astype(int)
    for score in (good, bad):
        found = row_sums(score, label, groups, weight)
        repeated = row_sums(score.repeat(times), label.repeat(times))
        assert found.logloss == pytest.approx(repeated.logloss, rel=1e-12)
        assert found.auc == pytest.approx(repeated.auc, rel=1e-12)
        chance = 1 / (1 + np.exp(-score))
        assert found.logloss == pytest.approx(log_loss(label, chance, sample_weight=weight), rel=1e-9)
        assert found.auc == pytest.approx(roc_auc_score(label, score, sample_weight=weight), rel=1e-9)
    difference = paired_bootstrap(
        [row_sums(good, label, weight=weight)], [row_sums(bad, label, weight=weight)], resamples=64
    )
    repeated_rows = [[row_sums(score.repeat(times), label.repeat(times))] for score in (good, bad)]
    expected = paired_bootstrap(*repeated_rows, resamples=64)
    assert difference.logloss == pytest.approx(expected.logloss, rel=1e-10)
    assert difference.auc == pytest.approx(expected.auc, rel=1e-10)


def weighted_auc(score: np.ndarray, label: np.ndarray, weight: np.ndarray) -> float:
    """Weight of the pairs in which the click has the higher score, half of it where they are equal: fast enough for a thousand resamples."""
    _, place = np.unique(score, return_inverse=True)
    clicks, others = (np.bincount(place, weight * kind, place.max() + 1) for kind in (label, 1 - label))
    return float(clicks @ (np.cumsum(others) - others / 2) / (clicks.sum() * others.sum()))


def test_intervals_are_those_of_rows_drawn_one_resample_at_a_time():
    good, bad, label, weight = two_models(800, seed=3)
    sums = [[row_sums(score, label, weight=weight)] for score in (good, bad)]
    found = paired_bootstrap(*sums, resamples=4000)
    loss_of_row = [np.logaddexp(0, score) - label * score for score in (good, bad)]
    assert weighted_auc(good, label, weight) == pytest.approx(
        roc_auc_score(label, good, sample_weight=weight), rel=1e-9
    )
    rng, losses, aucs = np.random.default_rng(17), [], []
    for _ in range(1000):
        rows = rng.integers(800, size=800)
        losses.append(np.subtract(*(np.average(loss[rows], weights=weight[rows]) for loss in loss_of_row)))
        aucs.append(np.subtract(*(weighted_auc(score[rows], label[rows], weight[rows]) for score in (good, bad))))
    for interval, drawn in ((found.logloss_interval, losses), (found.auc_interval, aucs)):
        low, high = np.quantile(drawn, [0.025, 0.975])
        assert interval == pytest.approx((low, high), abs=0.1 * (high - low))
    # Rows drawn singly, not by weight: repeated rows would look like more evidence than there is.
    times = weight.astype(int)
    naive = paired_bootstrap(*([row_sums(score.repeat(times), label.repeat(times))] for score in (good, bad)))
    assert np.diff(found.logloss_interval) > 1.2 * np.diff(naive.logloss_interval)


def test_wrong_weights_are_refused():
    good, _, label, weight = two_models(50)
    for wrong in (weight[:49], -weight, np.zeros(50), np.full(50, np.nan)):
        with pytest.raises(DataError, match="weights must be"):
            row_sums(good, label, weight=wrong)

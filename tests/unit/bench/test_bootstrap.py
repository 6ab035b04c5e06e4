from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import rankdata
from sklearn.metrics import log_loss, roc_auc_score

from recnas.bench.bootstrap import paired_bootstrap, row_sums
from recnas.errors import DataError


def sample(rows: int, seed: int, noise: float = 1.0):
    """A truth, and scores of two models that see it through different noise."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(-1, 1.2, rows)
    label = (rng.random(rows) < 1 / (1 + np.exp(-truth))).astype(np.float32)
    one, two = (np.round(truth + s * rng.normal(0, 1, rows), 1) for s in (0.3, 0.3 + 0.3 * noise))
    return label, one, two


def probability(logits):
    return 1 / (1 + np.exp(-logits))


def by_pairs(label, score):
    """AUC with ties as half, from mean ranks."""
    ranks = rankdata(score)
    clicks = label.sum()
    return (ranks[label == 1].sum() - clicks * (clicks + 1) / 2) / (clicks * (len(label) - clicks))


def loss_of(label, score):
    p = probability(score)
    return -np.mean(np.where(label == 1, np.log(p), np.log1p(-p)))


def brute(label, models, references, resamples, seed):
    """Rows and seeds drawn one resample after the other, each metric computed anew."""
    rng = np.random.default_rng(seed)
    n, losses, aucs = len(label), [], []
    for _ in range(resamples):
        rows = rng.integers(n, size=n)
        found = []
        for scores in (models, references):
            drawn = rng.integers(len(scores), size=len(scores))
            for metric in (loss_of, by_pairs):
                values = np.array([metric(label[rows], score[rows]) for score in scores])
                stretch = np.sqrt(len(scores) / max(1, len(scores) - 1))
                found.append(values.mean() + (values[drawn].mean() - values.mean()) * stretch)
        losses.append(found[0] - found[2])
        aucs.append(found[1] - found[3])
    return [np.quantile(values, [0.025, 0.975]) for values in (losses, aucs)]


def test_sums_give_exact_metrics_with_ties():
    label, one, _ = sample(3001, 0)
    for groups in (2**14, 100):
        sums = row_sums(one, label, groups)
        assert sums.logloss == pytest.approx(log_loss(label, probability(one)))
        assert sums.auc == pytest.approx(roc_auc_score(label, one))
        assert sums.rows.sum() == 3001
        assert len(sums.rows) == min(3001, groups)
        assert sums.clicks.sum() == label.sum()


@pytest.mark.parametrize("groups", [2**14, 400])
def test_intervals_equal_brute_force(groups: int):
    label, one, two = sample(2000, 3)
    rng = np.random.default_rng(9)
    models = [one + 0.05 * rng.normal(size=2000) for _ in range(3)]
    references = [two + 0.05 * rng.normal(size=2000) for _ in range(2)]
    found = paired_bootstrap(
        [row_sums(s, label, groups) for s in models],
        [row_sums(s, label, groups) for s in references],
        resamples=2000,
    )
    expected_loss, expected_auc = brute(label, models, references, 400, 1)
    for (low, high), expected in (
        (found.logloss_interval, expected_loss),
        (found.auc_interval, expected_auc),
    ):
        width = expected[1] - expected[0]
        assert high - low == pytest.approx(width, rel=0.15)
        assert low == pytest.approx(expected[0], abs=0.12 * width)
        assert high == pytest.approx(expected[1], abs=0.12 * width)
    mean = np.mean([roc_auc_score(label, s) for s in models]) - np.mean([roc_auc_score(label, s) for s in references])
    assert found.auc == pytest.approx(mean)
    assert found.logloss < 0
    assert found.real


def test_the_same_model_is_never_really_different():
    label, one, _ = sample(1000, 5)
    found = paired_bootstrap([row_sums(one, label)], [row_sums(one, label)], resamples=200)
    assert found.logloss == 0
    assert found.logloss_interval == (0.0, 0.0)
    assert not found.real


def test_a_small_difference_needs_many_rows():
    verdicts = {}
    for rows in (300, 60_000):
        label, one, two = sample(rows, 7, noise=0.5)
        found = paired_bootstrap([row_sums(one, label)], [row_sums(two, label)], resamples=400)
        verdicts[rows] = found.real
    assert verdicts == {300: False, 60_000: True}


def test_seed_noise_widens_the_interval():
    label, one, two = sample(5000, 8)
    calm = [row_sums(one, label)] * 3
    noisy = [row_sums(one * scale, label) for scale in (0.5, 1.0, 2.0)]
    reference = [row_sums(two, label)]
    narrow, wide = (paired_bootstrap(m, reference, resamples=400).logloss_interval for m in (calm, noisy))
    assert wide[1] - wide[0] > 2 * (narrow[1] - narrow[0])


def test_repeatable_and_other_rows_are_refused():
    label, one, two = sample(500, 1)
    sums, reference = [row_sums(one, label)], [row_sums(two, label)]
    assert paired_bootstrap(sums, reference, resamples=100) == paired_bootstrap(sums, reference, resamples=100)
    with pytest.raises(DataError, match="different test rows"):
        paired_bootstrap(sums, [row_sums(two, 1 - label)], resamples=10)
    only = paired_bootstrap([row_sums(one, label * 0)], [row_sums(two, label * 0)], resamples=50)
    assert only.auc is None
    assert only.auc_interval is None

"""Against scikit-learn, and against a calibration error written row by row."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss, roc_auc_score
from torch import Tensor

from recnas.errors import DataError, RunError
from recnas.train import sorted_scores
from recnas.train.metrics import Metrics

torch.set_num_threads(1)


def feed(metrics: Metrics, score: Tensor, label: Tensor, size: int = 700) -> dict:
    for start in range(0, len(score), size):
        metrics.update(score[start : start + size], label[start : start + size])
    return metrics.result()


def clicks(rows: int, distinct: int | None = None, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    score = torch.randn(rows, generator=generator) * 2 - 1
    if distinct is not None:
        score = (score * distinct).round() / distinct
    return score, (torch.rand(rows, generator=generator) < score.sigmoid()).float()


def slow_calibration_error(score: Tensor, label: Tensor, bins: int) -> float:
    """Row by row in rising order; a bin closes once it has its share and the score changes."""
    rows = sorted(zip(score.tolist(), label.tolist()))
    total, gap, closed = 0.0, 0.0, 0
    for i, (x, y) in enumerate(rows):
        gap += 1 / (1 + math.exp(-x)) - y
        last_of_tie = i + 1 == len(rows) or rows[i + 1][0] != x
        if last_of_tie and i + 1 >= -(-len(rows) * (closed + 1) // bins):
            total, gap = total + abs(gap), 0.0
            while closed < bins and i + 1 >= -(-len(rows) * (closed + 1) // bins):
                closed += 1
    return (total + abs(gap)) / len(rows)


@pytest.mark.parametrize("distinct", [None, 1, 50])
def test_equals_scikit_learn(distinct: int | None) -> None:
    score, label = clicks(20_000, distinct)
    metrics = Metrics()
    result = feed(metrics, score, label)
    probability = score.double().sigmoid()
    assert result["auc"] == pytest.approx(roc_auc_score(label, score), abs=1e-12)
    assert result["logloss"] == pytest.approx(log_loss(label, probability), abs=1e-12)
    rate = float(label.mean(dtype=torch.float64))
    assert result["click_rate"] == pytest.approx(rate)
    assert result["normalized_entropy"] == pytest.approx(
        log_loss(label, probability) / log_loss(label, torch.full_like(probability, rate))
    )
    assert result["calibration"] == pytest.approx(float(probability.mean()) / rate)
    assert result["calibration_error"] == pytest.approx(slow_calibration_error(score, label, 20), abs=1e-9)
    assert metrics.reasons() == {}
    json.dumps(result, allow_nan=False)


def test_result_does_not_depend_on_batches() -> None:
    score, label = clicks(5000)
    assert feed(Metrics(), score, label, 13)["auc"] == feed(Metrics(), score, label, 5000)["auc"]


def test_probabilities() -> None:
    score, label = clicks(5000)
    probability = score.sigmoid()
    result = feed(Metrics(logits=False), probability, label)
    assert result["logloss"] == pytest.approx(log_loss(label, probability), abs=1e-6)
    assert result["calibration_error"] == pytest.approx(feed(Metrics(), score, label)["calibration_error"], abs=1e-6)
    assert math.isfinite(feed(Metrics(logits=False), torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.0]))["logloss"])


def test_logits_far_from_zero_stay_exact() -> None:
    result = feed(Metrics(), torch.tensor([200.0, -200.0, 90.0]), torch.tensor([1.0, 1.0, 0.0]))
    assert result["logloss"] == pytest.approx(290 / 3)


@pytest.mark.parametrize("distinct", [None, 30, 0.5])
def test_counted_range_by_range_gives_the_same(distinct: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    score, label = clicks(30_000, distinct)  # type: ignore[arg-type]
    score[::97] = -0.0
    expected = feed(Metrics(), score, label)
    monkeypatch.setattr(sorted_scores, "ROWS_AT_A_TIME", 1000)
    metrics = Metrics()
    result = feed(metrics, score, label)
    ranges = list(metrics._plain.runs())
    assert len(ranges) > 1
    assert sum(int((misses + hits).sum()) for _, misses, hits in ranges) == 30_000
    found = np.concatenate([values for values, _, _ in ranges])
    assert (np.diff(found) > 0).all(), "a score is in two ranges"
    assert result.pop("calibration_error") == pytest.approx(expected.pop("calibration_error"), abs=1e-12)
    assert result == expected
    assert result["auc"] == pytest.approx(roc_auc_score(label, score), abs=1e-12)
    more = feed(metrics, score, label)  # reading a result must not end the accumulation
    assert more["rows"] == 60_000
    assert more["auc"] == pytest.approx(result["auc"], abs=1e-12)


def test_one_class_and_empty_splits_say_why() -> None:
    empty = Metrics().result()
    assert empty["auc"] is None
    assert empty["logloss"] is None
    without_a_number = {name for name, value in empty.items() if value is None}
    assert Metrics().reasons() == dict.fromkeys(without_a_number, "the split has no rows")
    misses = Metrics()
    nothing = feed(misses, torch.tensor([0.3, -2.0]), torch.zeros(2))
    assert nothing["auc"] is nothing["normalized_entropy"] is nothing["calibration"] is None
    assert nothing["logloss"] > 0
    assert misses.reasons()["calibration"] == "all 2 rows are non-clicks"
    assert set(misses.reasons()) == {name for name, value in nothing.items() if value is None}
    clicked = Metrics()
    everything = feed(clicked, torch.tensor([0.3, -2.0]), torch.ones(2))
    assert everything["auc"] is None
    assert everything["calibration"] < 1
    assert set(clicked.reasons()) == {"auc", "normalized_entropy"}


def test_what_is_not_a_score_or_a_label_is_refused() -> None:
    metrics = Metrics()
    with pytest.raises(RunError, match="NaN"):
        metrics.update(torch.tensor([float("nan")]), torch.ones(1))
    with pytest.raises(DataError, match="0 or 1"):
        metrics.update(torch.ones(1), torch.tensor([0.5]))
    with pytest.raises(RunError, match="2 scores"):
        metrics.update(torch.ones(2), torch.ones(1))
    with pytest.raises(RunError, match="probabilities"):
        Metrics(logits=False).update(torch.tensor([1.5]), torch.ones(1))
    assert metrics.result()["rows"] == 0

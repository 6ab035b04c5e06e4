"""Weighted loss and metrics: against scikit-learn, and against rows repeated as often as they weigh."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss, roc_auc_score

from recnas.errors import DataError, RunError
from recnas.train import sorted_scores
from recnas.train.loss import click_loss
from recnas.train.metrics import Metrics


def some_rows(n: int = 3000, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Logits with many ties, labels that follow them, and whole weights, some of them zero."""
    rng = np.random.default_rng(seed)
    logits = np.round(rng.normal(-1, 1.5, n), 1).astype(np.float32)
    label = (rng.random(n) < 1 / (1 + np.exp(-logits))).astype(np.float32)
    return torch.from_numpy(logits), torch.from_numpy(label), torch.from_numpy(rng.integers(0, 5, n).astype(np.float32))


def fed(metrics: Metrics, logits: torch.Tensor, label: torch.Tensor, weight: torch.Tensor | None) -> Metrics:
    for start in range(0, len(logits), 700):
        part = slice(start, start + 700)
        metrics.update(logits[part], label[part], None if weight is None else weight[part])
    return metrics


def test_the_loss_and_its_gradient_are_those_of_repeated_rows():
    logits, label, weight = some_rows(200)
    once, often = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    loss = click_loss(once, label, weight)
    times = weight.long()
    repeated = click_loss(often.repeat_interleave(times), label.repeat_interleave(times))
    loss.backward()
    repeated.backward()
    assert float(loss.detach()) == pytest.approx(float(repeated.detach()), rel=1e-6)
    torch.testing.assert_close(once.grad, often.grad)
    assert float(loss.detach()) == pytest.approx(log_loss(label, logits.sigmoid(), sample_weight=weight), rel=1e-6)


def test_weights_of_one_size_change_nothing_and_none_at_all_is_no_loss():
    logits, label, _ = some_rows(200)
    assert float(click_loss(logits, label, torch.full((200,), 0.3))) == pytest.approx(float(click_loss(logits, label)))
    leaf = logits.clone().requires_grad_()
    loss = click_loss(leaf, label, torch.zeros(200))
    loss.backward()
    assert float(loss.detach()) == 0
    assert not leaf.grad.any()


def test_whole_weights_are_repeated_rows_in_every_number():
    logits, label, weight = some_rows()
    found = fed(Metrics(), logits, label, weight).result()
    times = weight.long()
    repeated = fed(Metrics(), logits.repeat_interleave(times), label.repeat_interleave(times), None).result()
    for name in set(found) - {"rows", "clicks"}:
        assert found[name] == pytest.approx(repeated[name], rel=1e-12), name
    assert (found["rows"], found["clicks"]) == (3000, int(label.sum()))
    plain = fed(Metrics(), logits, label, None).result()
    assert all(found[name] != pytest.approx(plain[name], rel=1e-6) for name in ("auc", "logloss", "calibration"))


@pytest.mark.parametrize("at_a_time", [2**21, 100])
def test_fractional_weights_are_scikit_learns(at_a_time: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sorted_scores, "ROWS_AT_A_TIME", at_a_time)
    logits, label, _ = some_rows()
    weight = torch.from_numpy(np.random.default_rng(1).gamma(0.5, size=3000).astype(np.float32))
    found = fed(Metrics(), logits, label, weight).result()
    assert found["auc"] == pytest.approx(roc_auc_score(label, logits, sample_weight=weight), abs=1e-9)
    wide = logits.double().sigmoid()
    assert found["logloss"] == pytest.approx(log_loss(label, wide, sample_weight=weight.double()), rel=1e-9)
    mean, clicks = np.average(wide, weights=weight.double()), np.average(label.double(), weights=weight.double())
    assert found["mean_prediction"] == pytest.approx(mean, rel=1e-9)
    assert found["click_rate"] == pytest.approx(clicks, rel=1e-9)
    assert found["calibration"] == pytest.approx(mean / clicks, rel=1e-9)
    entropy = -(clicks * np.log(clicks) + (1 - clicks) * np.log(1 - clicks))
    assert found["normalized_entropy"] == pytest.approx(found["logloss"] / entropy, rel=1e-9)


@pytest.mark.parametrize("at_a_time", [50, 1000, 10_000], ids=["small ranges", "ranges", "all at once"])
def test_ranges_of_scores_give_the_same_sums(at_a_time: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sorted_scores, "ROWS_AT_A_TIME", at_a_time)
    logits, label, weight = some_rows()
    logits = torch.cat([logits[:2000], logits[2000:] * 1e-3 + 1])  # some scores far apart, many close together
    scores = sorted_scores.WeightedScores()
    for start in range(0, 3000, 400):
        part = slice(start, start + 400)
        scores.add(logits[part].numpy() + 0.0, label[part].numpy() == 1, weight[part].numpy())
    values, misses, clicks = (np.concatenate(arrays) for arrays in zip(*scores.runs()))
    expected: dict[float, list[float]] = {}
    for score, click, heavy in zip((logits + 0.0).tolist(), label.tolist(), weight.tolist()):
        expected.setdefault(score, [0.0, 0.0])[int(click)] += heavy
    assert values.tolist() == sorted(expected)
    assert misses.tolist() == [expected[value][0] for value in sorted(expected)]
    assert clicks.tolist() == [expected[value][1] for value in sorted(expected)]


def test_rows_without_any_weight_have_no_numbers_but_a_reason():
    logits, label, _ = some_rows(50)
    metrics = fed(Metrics(), logits, label, torch.zeros(50))
    assert metrics.result()["logloss"] is None
    assert metrics.reasons()["logloss"] == "all rows have weight 0"
    only_clicks = fed(Metrics(), logits, label, label)
    assert only_clicks.result()["auc"] is None
    assert only_clicks.reasons()["auc"] == "all rows that have a weight are clicks"


def test_wrong_weights_are_refused():
    logits, label, weight = some_rows(50)
    metrics = fed(Metrics(), logits, label, weight)
    with pytest.raises(RunError, match="some batches have weights"):
        metrics.update(logits, label)
    with pytest.raises(RunError, match="50 scores but 49 weights"):
        metrics.update(logits, label, weight[:49])
    for wrong in (-1.0, float("nan")):
        with pytest.raises(DataError, match="finite and not negative"):
            metrics.update(logits, label, torch.full((50,), wrong))

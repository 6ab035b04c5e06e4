"""The difference that rows can show, against the bootstrap."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from recnas.bench.bootstrap import paired_bootstrap, row_sums
from recnas.bench.decidable import USUAL, decidable, smallest_difference
from recnas.bench.verdict import decidable_lines


def two_models(rows: int, centre: float, disagreement: float, seed: int):
    """Labels that follow the mean of two models whose logits differ by `disagreement`."""
    rng = np.random.default_rng(seed)
    truth, apart = rng.normal(centre, 0.4, rows), rng.normal(0, disagreement, rows)
    label = (rng.random(rows) < 1 / (1 + np.exp(-truth))).astype(np.float32)
    return label, truth + apart / 2, truth - apart / 2


@pytest.mark.parametrize("centre", [0.0, -1.2, -3.5])
@pytest.mark.parametrize("disagreement", [0.2, 0.8])
def test_it_is_where_the_interval_of_the_bootstrap_ends(centre: float, disagreement: float):
    label, one, two = two_models(20_000, centre, disagreement, seed=3)
    found = paired_bootstrap([row_sums(one, label)], [row_sums(two, label)])
    reach = (found.logloss_interval[1] - found.logloss_interval[0]) / 2
    assert smallest_difference(20_000, float(label.mean()), disagreement) == pytest.approx(reach, rel=0.12)


@pytest.mark.parametrize(("times", "seen"), [(0.3, 0.1), (3.0, 0.95)])
def test_a_smaller_difference_is_seldom_seen_and_a_larger_one_nearly_always(times: float, seen: float):
    """Over many logs: one model is worse than the other by a known amount."""
    rows, rng = 2000, np.random.default_rng(5)
    hits = []
    for _ in range(200):
        label, one, two = two_models(rows, -1.0, USUAL, seed=int(rng.integers(2**31)))
        difference = np.logaddexp(0, one) - one * label - (np.logaddexp(0, two) - two * label)
        planted = times * smallest_difference(rows, 0.27)
        mean, error = difference.mean() + planted, difference.std() / np.sqrt(rows)
        hits.append(abs(mean) > 1.96 * error)
    assert np.mean(hits) > seen if times > 1 else np.mean(hits) < seen + 0.05


def test_weights_leave_fewer_rows(weighted_rows, tmp_path: Path):
    from recnas.data.prepare.options import PrepareOptions
    from recnas.data.prepare.prepare import prepare
    from tests.conftest import WEIGHTED_RECIPE

    frame: pd.DataFrame = weighted_rows(3000)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "recipe.yaml").write_text(WEIGHTED_RECIPE)
    data = prepare(str(tmp_path / "recipe.yaml"), [tmp_path / "rows.csv"], tmp_path / "data", PrepareOptions())
    weight = np.asarray(data.array("test", "weight"), np.float64)
    same, rate = weight.sum() ** 2 / (weight**2).sum(), data.manifest["click_rate"]["train"]
    assert same < len(weight)
    found = decidable(data)["test"]
    assert found.rows == len(weight)
    assert found.usual == pytest.approx(1.96 * USUAL * np.sqrt(rate * (1 - rate) / same))


def test_the_sentence(criteo_data):
    found = decidable(criteo_data)
    test, valid = decidable_lines(found)
    assert (
        f"with {criteo_data.rows('test'):,} test rows a difference in log loss under {found['test'].usual:.4f} cannot be seen"
        in test
    )
    assert "validation rows" in valid
    assert decidable_lines({}) == []

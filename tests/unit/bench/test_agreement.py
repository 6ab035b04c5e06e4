"""Pairs of score columns against scipy, with gaps."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kendalltau, pearsonr, spearmanr

from recnas.bench.agreement import agreement


def test_pairs_agree_with_scipy_and_leave_gaps_out():
    rng = np.random.default_rng(0)
    a, b, c = rng.lognormal(0, 2, (3, 60))
    b += a
    a[3] = c[5] = np.nan
    found = {(row["first"], row["second"]): row for row in agreement({"a": a, "b": b, "c": c})}
    assert list(found) == [("a", "b"), ("a", "c"), ("b", "c")]
    assert [row["n"] for row in found.values()] == [59, 58, 59]
    known = np.isfinite(a) & np.isfinite(c)
    row = found["a", "c"]
    assert row["spearman"] == pytest.approx(spearmanr(a[known], c[known]).statistic)
    assert row["kendall"] == pytest.approx(kendalltau(a[known], c[known]).statistic)
    assert row["pearson"] == pytest.approx(pearsonr(a[known], c[known]).statistic)


def test_a_constant_column_agrees_with_nothing():
    (row,) = agreement({"a": np.ones(5), "b": np.arange(5.0)})
    assert row["spearman"] is row["kendall"] is row["pearson"] is None

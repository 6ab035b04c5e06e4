"""Score tables, and the correlations of HNAS's guarantees against slow computations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from recnas.bench.guarantee import FORMS, best_constants, correlate_guarantee
from recnas.bench.score_table import ScoreTable
from recnas.errors import DataError


def small() -> ScoreTable:
    columns = {"a@4": np.array([1.0, np.nan, 3.0]), "a@16": np.array([4.0, 5.0, 6.0]), "b@4": np.array([7.0, 8.0, 9.0])}
    return ScoreTable(("x", "y", "z"), ("X", "Y", "Z"), columns, facts={"runs": [{"seed": 3}]})


def test_what_is_written_is_read(tmp_path: Path):
    small().write(tmp_path / "s.parquet")
    found = ScoreTable.read(tmp_path / "s.parquet", key_of=str.lower)
    assert (found.keys, found.archs, found.facts) == (small().keys, small().archs, {"runs": [{"seed": 3}]})
    np.testing.assert_array_equal(found.scores(["Z", "Y", "Z"], ["a@4", "b"]), [[3, np.nan, 3], [9, 8, 9]])


def test_names_without_a_width_must_be_clear():
    table = small()
    assert table.column("b") is table.columns["b@4"]
    with pytest.raises(DataError, match="several widths") as error:
        table.column("a")
    assert "a@4, a@16" in str(error.value)
    with pytest.raises(DataError, match="no scores called 'bb'"):
        table.column("bb")


def test_networks_that_are_not_there_are_counted():
    with pytest.raises(DataError, match="no scores for 2 of 3 networks, the first of them q"):
        small().scores(["x", "q", "r"], ["b@4"])


def test_files_that_are_no_score_table(tmp_path: Path):
    with pytest.raises(DataError, match="no score table at"):
        ScoreTable.read(tmp_path / "none.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"nothing")
    with pytest.raises(DataError, match="not a Parquet table"):
        ScoreTable.read(tmp_path / "bad.parquet")


@pytest.fixture(scope="module")
def planted():
    """Truth that is best at a middle size of M and at low kappa: what the full guarantee can say and M alone cannot."""
    rng = np.random.default_rng(0)
    m, kappa = rng.lognormal(3, 0.6, 300), rng.lognormal(5, 0.8, 300)
    truth = -np.abs(np.log(m / 25)) - 0.5 * np.log(kappa) + rng.normal(0, 0.1, 300)
    m[:7] = np.nan
    truth[:7] = truth.min() - 1
    return m, kappa, truth


@pytest.mark.parametrize("reading", ["paper", "released"])
def test_every_form_is_what_a_plain_computation_gives(planted, reading):
    m, kappa, truth = planted
    rows = {row["form"]: row for row in correlate_guarantee(m, kappa, truth, reading, resamples=0)}
    assert tuple(rows) == FORMS
    scaled_m, scaled_kappa = m / np.nanmedian(m), kappa / np.median(kappa[7:])
    for form, row in rows.items():
        over = np.ones(300) if form.startswith("realizable") else scaled_kappa
        mu, nu = row.get("mu", 0.0), row.get("nu", 0.0)
        x = np.abs(scaled_m**2 - nu)
        value = over / (scaled_m + (1e-6 if reading == "released" else 0)) + mu * (x if reading == "released" else x**2)
        value = np.where(np.isnan(value), 1e300, value)
        assert row["spearman"] == pytest.approx(spearmanr(-value, truth).statistic, abs=1e-9)


def test_the_parts_help_as_they_were_planted(planted):
    rows = {row["form"]: row for row in correlate_guarantee(*planted, resamples=0)}
    order = [rows[form]["spearman"] for form in ("realizable", "kappa/M", "non-realizable")]
    assert order == sorted(order)
    assert rows["non-realizable"]["held_out"] == pytest.approx(rows["non-realizable"]["spearman"], abs=0.1)


def test_constants_that_look_at_noise_do_not_survive_the_other_half():
    rng = np.random.default_rng(1)
    m, kappa, truth = rng.lognormal(0, 1, 60), rng.lognormal(0, 1, 60), rng.normal(size=60)
    row = correlate_guarantee(m, kappa, truth, resamples=0)[-1]
    assert row["spearman"] > row["held_out"] + 0.05


def test_no_trade_off_is_among_the_choices():
    rng = np.random.default_rng(2)
    m, kappa = rng.lognormal(0, 1, 80), rng.lognormal(0, 1, 80)
    assert best_constants(m, kappa, -kappa / m, "paper") == (0.0, 0.0)


def test_metrics_that_are_all_dead_give_a_reason():
    rows = correlate_guarantee(np.full(5, np.nan), np.ones(5), np.arange(5.0))
    assert all(row["spearman"] is None and "same for all" in row["reason"] for row in rows)

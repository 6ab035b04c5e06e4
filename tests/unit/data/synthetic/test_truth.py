"""The planted click model: the truth file is right, and crosses are hidden from linear models."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from recnas.data.synthetic import LAYOUTS, click_model, generate
from recnas.data.synthetic.planted import Inputs
from recnas.data.synthetic.truth import recalibrated_logloss

ROWS = 60_000


def _labels(layout: str, path: Path) -> np.ndarray:
    lines = path.read_text().splitlines()
    if layout == "avazu":
        return np.array([line.split(",")[1] == "1" for line in lines[1:]])
    return np.array([not line.startswith("0\t") for line in lines])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("truth")
    for layout in LAYOUTS:
        generate(layout, ROWS, 3, folder / layout, write_probability=True)
    return folder


@pytest.mark.parametrize("layout", LAYOUTS)
def test_truth_agrees_with_probabilities_and_labels(layout: str, written: Path) -> None:
    truth = json.loads((written / f"{layout}.truth.json").read_text())
    p = np.load(written / f"{layout}.p.npy").astype(np.float64)
    y = _labels(layout, written / layout)
    assert p.shape == y.shape == (ROWS,)
    assert truth["click_rate"] == pytest.approx(y.mean(), abs=1e-12)
    assert truth["expected_click_rate"] == pytest.approx(p.mean(), abs=1e-6)
    assert truth["bayes_logloss"] == pytest.approx(-(p * np.log(p) + (1 - p) * np.log1p(-p)).mean(), abs=1e-6)
    realised = -np.where(y, np.log(p), np.log1p(-p)).mean()
    assert truth["bayes_logloss_realised"] == pytest.approx(realised, abs=1e-6)
    assert abs(y.mean() - p.mean()) < 4 * np.sqrt((p * (1 - p)).mean() / ROWS)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_order_is_worth_something(layout: str, written: Path) -> None:
    truth = json.loads((written / f"{layout}.truth.json").read_text())
    oracles = list(truth["recalibrated_oracle_logloss"].values())
    ladder = [truth["constant_rate_logloss"], *oracles, truth["bayes_logloss_realised"]]
    assert ladder == sorted(ladder, reverse=True)
    linear, pairs, bayes = oracles[0], oracles[-1], truth["bayes_logloss_realised"]
    assert (pairs - bayes) / (linear - bayes) > 0.25  # the third order is at least a quarter of the gap
    assert (linear - bayes) / (truth["constant_rate_logloss"] - bayes) > 0.4
    assert sum(truth["variance_share"].values()) == pytest.approx(1.0)
    assert {1, 2, 3} <= {term["order"] for term in truth["planted_terms"]}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_crosses_average_to_zero_on_their_margins(layout: str) -> None:
    shape, model = LAYOUTS[layout](), click_model(layout, 3)
    rng = np.random.default_rng(0)
    inputs: Inputs = shape.draw(rng, rng.random(300_000)).inputs
    for term in model.terms:
        columns = term.spec.columns
        if len(columns) < 2:
            continue
        values = term.evaluate(inputs).astype(np.float64)
        # Every single column, and for third-order terms every pair, must explain next to nothing.
        margins = [(c,) for c in columns] if len(columns) == 2 else [columns[:2], columns[1:], (columns[0], columns[2])]
        for margin in margins:
            width = 10_000
            codes = sum(inputs.codes[c].astype(np.int64) * width**i for i, c in enumerate(margin))
            _, group, size = np.unique(codes, return_inverse=True, return_counts=True)
            means = np.bincount(group, values) / size
            spread = np.bincount(group, values**2) / size - means**2
            # The sample mean of a group of n rows has variance spread / n even when its truth is zero.
            large = size >= 50
            explained = (size * (means**2 - spread / size))[large].sum() / len(values)
            assert explained / values.var() < 0.01, (term.spec.name, margin)


def test_a_linear_model_leaves_the_gap_and_the_terms_close_it() -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import OneHotEncoder

    rows, shape, model = 60_000, LAYOUTS["criteo"](), click_model("criteo", 3)
    rng = np.random.default_rng(1)
    inputs = shape.draw(rng, rng.random(rows)).inputs
    parts = model.parts(inputs)
    logits = model.intercept + sum(part.astype(np.float64) for part in parts.values())
    y = rng.random(rows) < 1 / (1 + np.exp(-logits))
    train, test = slice(0, 45_000), slice(45_000, rows)

    def logloss(scores: np.ndarray) -> float:
        return float(np.logaddexp(0, np.where(y[test], -scores, scores)).mean())

    ids = np.stack(
        [np.minimum(inputs.codes[c], 100) for c in sorted(inputs.codes) if len(shape.laws()[c]) < 1000],
        axis=1,
    )
    one_hot = OneHotEncoder(handle_unknown="ignore", min_frequency=20).fit(ids[train])
    linear = LogisticRegression(C=0.3, max_iter=60, tol=1e-3).fit(one_hot.transform(ids[train]), y[train])
    margins = logloss(linear.decision_function(one_hot.transform(ids[test])))
    terms = np.stack([term.evaluate(inputs) for term in model.terms], axis=1)
    oracle = LogisticRegression(C=100.0, max_iter=200).fit(terms[train], y[train])
    with_terms, bayes = logloss(oracle.decision_function(terms[test])), logloss(logits[test])
    assert margins - bayes > 0.04
    assert with_terms - bayes < 0.002


def test_effects_depend_on_the_seed_alone() -> None:
    one, two = click_model("kdd12", 3), click_model("kdd12", 4)
    assert click_model("kdd12", 3, 0.5).terms[0].tables[0][0].tolist() == one.terms[0].tables[0][0].tolist()
    assert not np.array_equal(one.terms[0].tables[0][0], two.terms[0].tables[0][0])


def test_recalibration_finds_the_slope() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=200_000)
    chance = 1 / (1 + np.exp(-(0.5 * x - 1)))
    y = rng.random(len(x)) < chance
    place = np.clip(((x + 16) * (4000 / 32)), 0, 3999).astype(int)
    found = recalibrated_logloss(np.bincount(place, minlength=4000), np.bincount(place[y], minlength=4000))
    assert found == pytest.approx(-np.where(y, np.log(chance), np.log1p(-chance)).mean(), abs=1e-4)

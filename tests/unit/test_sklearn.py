"""The scikit-learn classifier: scikit-learn's own checks, and that it is what the commands do."""

from __future__ import annotations

import os
import pickle
import re
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import recnas
from recnas.data.prepared import PreparedData
from recnas.errors import ConfigError, RecnasError
from recnas.serve.predict import predict
from recnas.sklearn import CTRClassifier
from recnas.sklearn.fitting import split_rows

QUICK = {
    "epochs": 2, "lr": 0.05, "embeddings.width": 2, "batch_size": 64, "least_rise": 0,
    "stop": {"patience": None}, "schedule": "constant",
}  # fmt: skip
DO_NOT_APPLY = {
    "check_sample_weight_equivalence_on_dense_data": "batches are rows: three equal rows and one of weight 3 do not train the "
    "same steps; and a class of one row cannot be split",
}


@pytest.fixture(autouse=True)
def in_memory(monkeypatch: pytest.MonkeyPatch):
    """A disk that is told to write through, fifty times a fit, is what takes longest."""
    if os.access("/dev/shm", os.W_OK):
        monkeypatch.setattr(tempfile, "tempdir", "/dev/shm")


@pytest.fixture(scope="module")
def clicks() -> tuple[pd.DataFrame, np.ndarray]:
    rng, n = np.random.default_rng(0), 600
    user, price = rng.integers(0, 12, n), rng.normal(size=n)
    frame = pd.DataFrame(
        {
            "price": np.where(rng.random(n) < 0.1, np.nan, price),
            "user_id": user,
            "city": pd.Categorical(rng.choice(["Köln", "Lyon"], n)),
            "new": rng.random(n) > 0.5,
        }
    )
    rate = 1 / (1 + np.exp(-(np.linspace(-3, 3, 12)[user] + price)))
    return frame, np.where(rng.random(n) < rate, "yes", "no")


def test_scikit_learns_own_checks():
    from sklearn.utils import estimator_checks

    results = check_estimator(
        CTRClassifier("dnn", min_count=1, train={**QUICK, "epochs": 3, "batch_size": 32}),
        expected_failed_checks=DO_NOT_APPLY,
        on_skip=None,
    )
    assert {one["check_name"] for one in results if one["status"] != "passed"} <= {
        *DO_NOT_APPLY,
        "check_array_api_input",
    }
    assert sum(one["status"] == "passed" for one in results) > 50
    assert estimator_checks.check_sample_weight_equivalence_on_dense_data  # a name that is gone would excuse nothing


def test_a_fit_is_what_the_commands_do(clicks, tmp_path: Path):
    frame, y = clicks
    weight = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    model = CTRClassifier("dcn-v2", train=QUICK, options={"crosses": 1}, random_state=3, work_dir=tmp_path)
    model.fit(frame, y, sample_weight=weight)
    assert model.run_ == f"{tmp_path}/fit-1/run:dcn-v2"
    predict(model.run_, [tmp_path / "fit-1/rows.parquet"], tmp_path / "file.csv")
    by_command = pd.read_csv(tmp_path / "file.csv")["probability"]
    np.testing.assert_allclose(model.predict_proba(frame)[:, 1], by_command, rtol=1e-5)
    data = PreparedData.open(tmp_path / "fit-1/data")
    for number, split in enumerate(("train", "valid", "test")):
        rows = np.load(tmp_path / "fit-1/split.npy") == number
        assert np.array_equal(data.array(split, "weight"), weight[rows])
        assert np.array_equal(data.array(split, "label"), (y == "yes")[rows])
    again = tmp_path / "again"
    said = ["seed=3", "seeds=1", "latency_on=none", "options.dcn-v2.crosses=1", "threads=1", "embeddings.width=2"]
    said += ["epochs=2", "lr=0.05", "batch_size=64", "least_rise=0", "stop.patience=null", "schedule=constant"]
    recnas.compare(["dcn-v2"], again, *said, data=data, keep=True, workers=1)
    network = recnas.load(f"{again}:dcn-v2").network.state_dict()
    assert all(np.array_equal(network[name], value) for name, value in model.model_.network.state_dict().items())
    other = model.fit(frame, y)  # in a folder of its own
    assert other.run_ == f"{tmp_path}/fit-2/run:dcn-v2"


def test_it_learns_and_can_be_sent_to_others(clicks):
    frame, y = clicks
    model = CTRClassifier("wide-deep", train={**QUICK, "epochs": 6}).fit(frame, y)
    assert model.run_ is None
    assert model.score(frame, y) > 0.72 > max((y == "yes").mean(), (y == "no").mean())
    assert model.metrics_["test"]["rows"] == pytest.approx(0.05 * len(y), abs=2)
    assert list(model.classes_) == ["no", "yes"]
    found = model.predict_proba(frame)
    np.testing.assert_allclose(found.sum(1), 1)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(frame), found)
    np.testing.assert_array_equal(clone(model).fit(frame, y).predict_proba(frame), found)
    assert not np.array_equal(clone(model).set_params(random_state=1).fit(frame, y).predict_proba(frame), found)


def test_what_a_column_is(clicks):
    frame, y = clicks
    model = CTRClassifier("fm", train=QUICK).fit(frame, y)
    assert model.columns_.numbers == ("price",)
    assert model.columns_.integers == ("user_id",)
    assert model.columns_.texts == ("city", "new")
    # The same values kept as other types by pandas are the same rows.
    other = frame.assign(
        user_id=frame["user_id"].astype(float), city=frame["city"].astype(object), new=frame["new"].astype(object)
    )
    np.testing.assert_array_equal(model.predict_proba(other), model.predict_proba(frame))
    unseen = model.predict_proba(frame.assign(user_id=10**6, city=None))
    assert np.isfinite(unseen).all()
    named = CTRClassifier("fm", numeric=["user_id"], categorical=[3], train=QUICK).fit(frame, y)
    assert named.columns_.numbers == ("price", "user_id")
    array = CTRClassifier("fm", categorical=[0, -1], train=QUICK).fit(
        np.stack([frame["user_id"], y == "no", y == "yes"], 1), y
    )
    assert (array.columns_.integers, array.columns_.numbers) == (("x0", "x2"), ("x1",))


def test_it_goes_where_estimators_go(clicks):
    frame, y = clicks
    frame = frame.iloc[:200]
    scores = cross_val_score(CTRClassifier("lr", train=QUICK), frame, y[:200], cv=2, scoring="roc_auc")
    assert len(scores) == 2
    assert np.isfinite(scores).all()
    columns = ColumnTransformer([("some", "passthrough", ["price", "user_id"])], verbose_feature_names_out=False)
    columns.set_output(transform="pandas")
    pipe = make_pipeline(columns, CTRClassifier("lr", train=QUICK))
    grid = {"ctrclassifier__min_count": [1, 50]}
    found = GridSearchCV(pipe, grid, cv=2, scoring="neg_log_loss").fit(frame, y[:200])
    assert found.best_params_["ctrclassifier__min_count"] == 1  # with 50 no user is known
    assert list(found.best_estimator_[-1].feature_names_in_) == ["price", "user_id"]


def test_a_search_and_an_architecture(clicks, tmp_path: Path):
    frame, y = clicks
    small = {
        "space": {"name": "nasrec-small", "blocks": 2}, "final.race": None, "final.candidates": 1, "final.rows": 200,
        "score.batches": 1, "score.batch_size": 32, "score.proxies": ["params"], "objectives": {}, "combine": "pareto",
        "limits": {}, "warmup.least_steps": 2,
        "search": {"method": "random", "candidates": 2},
    }  # fmt: skip
    model = CTRClassifier("search", search=small, train=QUICK, work_dir=tmp_path).fit(frame, y)
    assert model.run_ == f"{tmp_path}/fit-1/run:best"
    assert recnas.open_run(tmp_path / "fit-1/run").result.winner.key == model.model_.key
    by_name = CTRClassifier(model.run_, train=QUICK).fit(frame, y)
    by_value = CTRClassifier(recnas.open_run(tmp_path / "fit-1/run").best.arch, train=QUICK).fit(frame, y)
    assert by_name.model_.key == model.model_.key
    np.testing.assert_array_equal(by_name.predict_proba(frame), by_value.predict_proba(frame))


def test_every_class_is_in_every_split():
    clicked, weight = np.repeat([0, 1], [1000, 10]), np.ones(1010)
    weight[1000:1004] = 0
    split = split_rows(clicked, weight, (0.1, 0.05), 0)
    assert np.bincount(split[:1000]).tolist() == [850, 100, 50]
    assert (split[1000:1004] == 0).all()
    assert np.bincount(split[1004:]).tolist() == [4, 1, 1]
    assert not np.array_equal(split, split_rows(clicked, weight, (0.1, 0.05), 1))


def test_what_is_refused(clicks):
    frame, y = clicks

    def fit(*args, rows=frame, labels=y, **settings):
        return CTRClassifier(*args, **settings).fit(rows, labels)

    for error, match, make in (
        (ConfigError, "no model 'dcnv22'; did you mean", lambda: fit("dcnv22")),
        (ValueError, "no column 'prize'", lambda: fit(numeric=["prize"])),
        (ValueError, "as numeric and as categorical", lambda: fit(numeric=["price"], categorical=["price"])),
        (ValueError, "holds fractions", lambda: fit(categorical=["price"])),
        (ValueError, "Only binary", lambda: fit(labels=np.arange(len(y)) % 3)),
        (ValueError, "one class", lambda: fit(labels=np.ones(len(y)))),
        (ValueError, "between 0 and 1", lambda: fit(validation_fraction=0)),
        (ValueError, "left for training", lambda: fit(validation_fraction=0.6, test_fraction=0.5)),
        (ValueError, "search has settings", lambda: fit("lr", search={"search.generations": 1})),
        (ValueError, "given as a list", lambda: fit(numeric="price")),
        (RecnasError, "epoch.*did you mean 'epochs'", lambda: fit("lr", train={"epoch": 1})),
        (ValueError, "unique column names", lambda: fit(rows=frame.rename(columns={"user_id": "price"}))),
        (ValueError, "sample_weight", lambda: CTRClassifier("lr").fit(frame, y, sample_weight=-np.ones(len(y)))),
    ):
        with pytest.raises(error, match=match):
            make()


def test_the_page_shows_what_works(clicks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    page = (Path(__file__).parents[2] / "docs" / "ecosystem.md").read_text()
    code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    frame, y = clicks
    frame.assign(clicked=(y == "yes").astype(int)).iloc[:300].to_parquet(tmp_path / "clicks.parquet")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "ecosystem.md", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) >= 2
    arguments = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    named = {name for cell in arguments for name in re.findall(r"`(\w+)`", cell)}
    assert named >= set(CTRClassifier().get_params())

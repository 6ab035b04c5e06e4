"""A scikit-learn classifier for clicks: hand-crafted, searched, or an architecture, by the jobs that the commands run."""

from __future__ import annotations

import tempfile
from collections.abc import Hashable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from recnas.sklearn.columns import BadInput, Columns, as_frame
from recnas.sklearn.fitting import Fit, prepared


class CTRClassifier(ClassifierMixin, BaseEstimator):
    """Predicts a click, or any label of two classes, from numbers and categories as they are.

        CTRClassifier("dcn-v2", categorical=["user_id", "city"]).fit(frame, clicked).predict_proba(frame)[:, 1]

    Args:
        model: a hand-crafted model by name (`dlrm`, `dcn-v2`, ...), "search", ARCH.json, RUN:best or an architecture.
        numeric, categorical: columns by name or place. Of those that neither names, texts, booleans, pandas categories and
            whole numbers called like an id (`user_id`) are categories, other numbers are numeric.
        min_count: values seen less often in training count as unknown.
        scaling: of numeric columns, as in a recipe: standardise, log1p, quantile, none ...
        validation_fraction: rows that decide when training stops.
        test_fraction: rows that are neither: `metrics_["test"]` is of these.
        train: training settings, such as {"epochs": 3, "embeddings.width": 8}; of a search those of `final.train`.
        options: of a hand-crafted model, such as {"crosses": 4}.
        search: settings of model="search", such as {"search.generations": 5}; `search_config` is the config they change.
        random_state: of the split, the weights and the order of rows.
        work_dir: keeps each fit, as folders that the commands read; None keeps the model in memory alone.
        workers: processes of a search.

    Attributes:
        classes_, n_features_in_, feature_names_in_: scikit-learn's.
        metrics_: of validation and test when training ended, by split. model_: the trained model.
        columns_: what each column is taken for. run_: how commands name the model, if work_dir keeps it.
    """

    def __init__(
        self,
        model: Any = "dcn-v2",
        *,
        numeric: Sequence[Hashable] | None = None,
        categorical: Sequence[Hashable] | None = None,
        min_count: int = 2,
        scaling: str = "standardise",
        validation_fraction: float = 0.1,
        test_fraction: float = 0.05,
        train: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        search: Mapping[str, Any] | None = None,
        search_config: str = "synthetic/laptop",
        random_state: Any = 0,
        work_dir: str | Path | None = None,
        workers: int = 1,
    ) -> None:
        self.model = model
        self.numeric = numeric
        self.categorical = categorical
        self.min_count = min_count
        self.scaling = scaling
        self.validation_fraction = validation_fraction
        self.test_fraction = test_fraction
        self.train = train
        self.options = options
        self.search = search
        self.search_config = search_config
        self.random_state = random_state
        self.work_dir = work_dir
        self.workers = workers

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CTRClassifier:
        self._check()
        frame, y = self._labelled(X, y)
        weight = _weights(sample_weight, len(frame))
        self.classes_, clicked = np.unique(y, return_inverse=True)
        if len(self.classes_) == 1:
            raise BadInput("all rows are of one class, and a classifier needs rows of two.")
        if len(self.classes_) > 2:
            raise BadInput(
                f"Only binary classification is supported; there are {len(self.classes_)} classes.",
                "Say what a click is: y = rating >= 4",
            )
        seed = _seed(self.random_state)
        self.columns_ = Columns.of(frame, self.numeric, self.categorical)
        with tempfile.TemporaryDirectory(prefix="recnas-") as passing:
            folder = Path(passing) if self.work_dir is None else _new_folder(Path(self.work_dir))
            data = prepared(
                folder, frame, clicked, weight, self.columns_, scaling=self.scaling, min_count=self.min_count,
                held_out=(self.validation_fraction, self.test_fraction), seed=seed,
            )  # fmt: skip
            train, options, search = (dict(some or {}) for some in (self.train, self.options, self.search))
            fit = Fit(folder, self.model, train, options, search, self.search_config, seed, self.workers)
            self.model_, spec = fit.run(data)
            self.model_.rows  # noqa: B018  reads the vocabularies while the folder is there
        self.run_ = None if self.work_dir is None else spec
        self.metrics_ = dict(self.model_.metrics)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of both classes, in the order of `classes_`."""
        check_is_fitted(self)
        click = self.model_.predict(self.columns_.raw(self._unlabelled(X))).to_numpy(np.float64)
        return np.stack([1 - click, click], axis=1)

    def predict(self, X: Any) -> np.ndarray:
        click = self.predict_proba(X)[:, 1]
        return self.classes_[(click > 0.5).astype(int)]

    def _check(self) -> None:
        for name in ("validation_fraction", "test_fraction"):
            share = getattr(self, name)
            if not isinstance(share, (int, float, np.number)) or not 0 < share < 1:
                raise BadInput(f"{name} is {share!r}; it must lie between 0 and 1.")
        if not isinstance(self.min_count, (int, np.integer)) or self.min_count < 1:
            raise BadInput(f"min_count is {self.min_count!r}; it must be a whole number from 1 on.")
        if self.search and self.model != "search":
            raise BadInput(f"search has settings, and the model is {self.model!r}.", 'Write model="search".')

    def _labelled(self, X: Any, y: Any) -> tuple[pd.DataFrame, np.ndarray]:
        """Rows and labels to fit, checked as scikit-learn checks them: of a frame only the names, as recnas reads its cells."""
        if isinstance(X, pd.DataFrame) and y is not None:
            X = validate_data(self, X, skip_check_array=True)
        else:
            X, y = validate_data(self, X, y, dtype=None, ensure_all_finite="allow-nan")
        frame = as_frame(X)
        if frame.shape[1] == 0:
            raise BadInput("0 feature(s): the rows have no columns.")
        check_classification_targets(y)
        y = column_or_1d(y, warn=True)
        check_consistent_length(frame, y)
        if pd.isna(y).any():
            raise BadInput("Input y contains NaN: some labels are missing.")
        return frame, y

    def _unlabelled(self, X: Any) -> pd.DataFrame:
        if isinstance(X, pd.DataFrame):
            X = validate_data(self, X, reset=False, skip_check_array=True)
        else:
            X = validate_data(self, X, reset=False, dtype=None, ensure_all_finite="allow-nan")
        return as_frame(X).set_axis(list(self.columns_.names), axis=1)


def _weights(given: Any, rows: int) -> np.ndarray | None:
    if given is None:
        return None
    weight = np.full(rows, given, np.float64) if np.isscalar(given) else np.asarray(given, np.float64)
    if weight.shape != (rows,):
        raise BadInput(f"sample_weight.shape == {weight.shape}, expected {(rows,)}!")
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise BadInput("sample_weight must be finite numbers from 0 on.")
    if not weight.any():
        raise BadInput("every sample_weight is zero, so there is nothing to fit.")
    return weight


def _seed(random_state: Any) -> int:
    if isinstance(random_state, (int, np.integer)) and random_state >= 0:
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _new_folder(work_dir: Path) -> Path:
    """work_dir/fit-1, fit-2, ...: the first that nobody has made."""
    work_dir.mkdir(parents=True, exist_ok=True)
    for number in count(1):
        folder = work_dir / f"fit-{number}"
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise AssertionError

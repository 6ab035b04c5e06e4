"""Models of other libraries on the same encoded rows: what a user would try first, as a baseline.

They are fitted on at most `MOST_ROWS` training rows, the first ones, because both libraries want all rows in
memory; the leaderboard says how many. Both repeat themselves exactly, so one fit stands for all seeds.
"""

from __future__ import annotations

import importlib.util
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import torch

from recnas.bench.floor import guess_logits
from recnas.data.bags import rows_at_a_time
from recnas.data.prepared import PreparedData
from recnas.data.schema import MISSING_ID
from recnas.model.embeddings import RowMap
from recnas.train.metrics import Metrics
from recnas.train.settings import TrainSettings

MOST_ROWS = 1_000_000
_EVAL_ROWS = 100_000  # scored at a time
_MOST_IDS = 100_000_000  # of training rows with bags, padded
_FEW_VALUES = 256  # LightGBM takes columns up to this as categories, others as ranks by frequency

Scorer = Callable[[np.ndarray, np.ndarray], np.ndarray]  # (dense [N, I], ids [N, F]) -> logits [N]
Rows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]  # dense, ids, label, weight


@dataclass(frozen=True)
class Fitted:
    score: Scorer
    params: int  # outside what corresponds to embedding tables
    embedding_params: int
    macs: int | None


@dataclass(frozen=True)
class OtherModel:
    """Fits on rows; `needs` is the module that must be installed."""

    fit: Callable[[Rows, RowMap, Mapping[str, Any], int], Fitted]
    needs: str
    default: Mapping[str, Any]
    grid: Mapping[str, tuple[Any, ...]]


def fit_logistic(rows: Rows, tables: RowMap, choice: Mapping[str, Any], seed: int) -> Fitted:
    """One column per id and the standardised dense columns, L2-regularised, by L-BFGS. Of a bag every value has a column,
    also where its table is another field's."""
    from scipy import sparse
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    dense, ids, label, weight = rows
    if weight is not None and not weight.any():
        weight = None  # there is nothing to weigh by among these rows
    mean, std = _moments(dense, weight)
    std[std == 0] = 1.0
    *firsts, total = accumulate(tables.field_rows, initial=0)
    starts = np.repeat(np.array(firsts, np.int64), [len(tables.places_of(field)) for field in range(len(firsts))])

    def features(dense: np.ndarray, ids: np.ndarray) -> sparse.csr_matrix:
        share = np.ones(ids.shape)
        for bag in tables.bags:
            there = ids[:, bag.columns] != MISSING_ID
            share[:, bag.columns] = there / (np.maximum(there.sum(1, keepdims=True), 1) if bag.pool == "mean" else 1)
        row, place = np.nonzero(share)
        columns = (ids + starts)[row, place]
        # Values in the order of rows; one that a bag holds twice counts twice.
        begins = np.concatenate(([0], np.cumsum((share != 0).sum(1))))
        hot = sparse.csr_matrix((share[row, place], columns, begins), shape=(len(ids), total))
        return sparse.hstack([hot, sparse.csr_matrix((dense - mean) / std)], format="csr")

    if (
        len(np.unique(label if weight is None else label[weight > 0])) < 2
    ):  # scikit-learn refuses to fit, and a constant is all there is to learn
        rate, rows_seen = float(np.average(label, weights=weight)), len(label)
        return Fitted(
            lambda dense, ids: guess_logits(rate, rows_seen, len(dense)),
            dense.shape[1] + 1,
            total,
            dense.shape[1],
        )
    model = LogisticRegression(C=choice["C"], max_iter=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a baseline need not be exact
        model.fit(features(dense, ids), label, sample_weight=weight)
    return Fitted(
        lambda dense, ids: model.decision_function(features(dense, ids)),
        dense.shape[1] + 1,
        total,
        dense.shape[1],
    )


def _moments(dense: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of every column."""
    if weight is None or not dense.shape[1]:
        return dense.mean(0, dtype=np.float64), dense.std(0, dtype=np.float64)
    share = weight.astype(np.float64) / weight.sum(dtype=np.float64)
    mean = share @ dense
    return mean, np.sqrt(np.maximum(share @ (dense - mean) ** 2, 0.0))


def fit_lightgbm(rows: Rows, tables: RowMap, choice: Mapping[str, Any], seed: int) -> Fitted:
    """Gradient-boosted trees; ids are ordered by frequency, so a large column serves as a rank."""
    import lightgbm

    dense, ids, label, weight = rows
    singles = tables.field_rows[: tables.singles]  # the places of bags come behind, as ranks
    few = [dense.shape[1] + f for f, size in enumerate(singles) if size <= _FEW_VALUES]
    options = {
        "objective": "binary",
        "learning_rate": choice["learning_rate"],
        "num_leaves": choice["num_leaves"],
        "seed": seed,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "verbosity": -1,
    }
    table = lightgbm.Dataset(_columns(dense, ids), label, weight=weight, categorical_feature=few, free_raw_data=True)
    model = lightgbm.train(options, table, num_boost_round=choice["trees"])
    leaves = sum(tree["num_leaves"] for tree in model.dump_model()["tree_info"])
    return Fitted(lambda dense, ids: np.asarray(model.predict(_columns(dense, ids), raw_score=True)), leaves, 0, None)


def _columns(dense: np.ndarray, ids: np.ndarray) -> np.ndarray:
    return np.concatenate([dense.astype(np.float64), ids.astype(np.float64)], axis=1)


OTHER_MODELS: dict[str, OtherModel] = {
    "sklearn-lr": OtherModel(
        fit_logistic,
        "sklearn",
        {"C": 0.1},
        {"C": (0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0)},
    ),
    "lightgbm": OtherModel(
        fit_lightgbm,
        "lightgbm",
        {"learning_rate": 0.1, "num_leaves": 31, "trees": 200},
        {"learning_rate": (0.03, 0.05, 0.1, 0.2), "num_leaves": (15, 31, 63, 127), "trees": (100, 200, 400)},
    ),
}


def why_not(name: str) -> str | None:
    """Why it cannot be fitted on this machine, or None."""
    if importlib.util.find_spec(OTHER_MODELS[name].needs) is not None:
        return None
    return f"{OTHER_MODELS[name].needs} is not installed; pip install {OTHER_MODELS[name].needs} adds this row"


def run_other_model(
    name: str,
    choice: Mapping[str, Any],
    data: PreparedData,
    settings: TrainSettings,
    seed: int,
    splits: tuple[str, ...],
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Fit one; facts with metrics per split, and the logits of each split."""
    tables = RowMap(data.schema, settings.embeddings.cap, settings.embeddings.hash_rows, torch.device("cpu"))
    rows = min(rows_at_a_time(MOST_ROWS, data.schema, _MOST_IDS), data.rows("train"))
    started = time.monotonic()
    fitted = OTHER_MODELS[name].fit(_rows(data, "train", slice(0, rows), tables), tables, choice, seed)
    seconds = time.monotonic() - started
    facts: dict[str, Any] = {
        "params": fitted.params,
        "embedding_params": fitted.embedding_params,
        "macs": fitted.macs,
        "train_rows": rows,
        "trained_rows": rows,  # counted as one pass, however the library goes over them
        "seconds": seconds,
        "rows_per_second": rows / seconds,
    }
    logits: dict[str, np.ndarray] = {}
    for split in splits:
        metrics, parts = Metrics(), []
        size = rows_at_a_time(_EVAL_ROWS, data.schema)
        for start in range(0, data.rows(split), size):
            dense, ids, label, weight = _rows(data, split, slice(start, start + size), tables)
            parts.append(fitted.score(dense, ids).astype(np.float32))
            heavy = None if weight is None else torch.from_numpy(weight)
            metrics.update(torch.from_numpy(parts[-1]), torch.from_numpy(label.astype(np.float32)), heavy)
        facts[split], logits[split] = metrics.result(), np.concatenate(parts)
    return facts, logits


def _rows(data: PreparedData, split: str, part: slice, tables: RowMap) -> Rows:
    dense, ids, label, *weight = (np.asarray(data.array(split, name)[part]) for name in data.arrays)
    folded = tables.fold(torch.from_numpy(ids.astype(np.int64)))
    return dense, folded.numpy(), label, weight[0] if weight else None

"""Faults of the data that let a job run and its figures mislead: noticed when data are prepared.

The warnings are printed by `prepare` and `inspect` and stored in the manifest, where reports find them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from recnas.data.raw.dense import DenseSummary
from recnas.data.raw.transforms import TRANSFORMS
from recnas.data.schema import Schema

FEW_ROWS = 100
NEARLY_ALL = 0.99  # share of the training rows
MANY_REPEATED = 0.01  # share of the test rows
MOST_HASHES = 4_000_000  # of test rows held at a time; of a larger split every k-th hash is followed
_U = np.uint64


@dataclass(frozen=True)
class DataWarning:
    """Something about a prepared data set that its user should know before trusting figures on it."""

    kind: str
    message: str

    def to_dict(self) -> dict[str, str]:
        return asdict(self)


def data_warnings(
    schema: Schema,
    summaries: list[DenseSummary],
    facts: dict[str, Any],
    repeated: float,
    expected_rows: int | None = None,
) -> list[DataWarning]:
    """All warnings of a data set.

    Args:
        facts: `rows_in`, `rows`, `click_rate`, `weight`, `unknown` and `missing` of the manifest.
        repeated: share of the test rows that the training rows hold too.
        expected_rows: how many the whole data set is known to have; None: not known, or a part was asked for.
    """
    return [
        *_row_count(facts["rows_in"], expected_rows),
        *_splits(facts),
        *_repeated(repeated),
        *_dense(schema, summaries),
        *_sparse(schema, facts),
    ]


def _row_count(read: int, expected: int | None) -> Iterable[DataWarning]:
    if expected is not None and read < expected:
        why = "was the download cut short? If a part is all you want, say so with --limit."
    elif expected is not None and read > expected:
        why = "was a file named twice, or is it another edition?"
    else:
        return
    yield DataWarning("row-count", f"Read {read:,} rows, the data set is known to have {expected:,}: {why}")


def _splits(facts: dict[str, Any]) -> Iterable[DataWarning]:
    for split, rate in facts["click_rate"].items():
        rows = facts["rows"][split]
        if rate in (0.0, 1.0):
            of = " with a weight" if facts.get("weight") else ""
            what = f"no row{of} is a click" if rate == 0 else f"every row{of} is a click"
            yield DataWarning(
                "one-class",
                f"In the {split} split ({rows:,} rows) {what}: AUC has no meaning there, and nothing can be learned from it.",
            )
        if split != "train" and rows < FEW_ROWS:
            yield DataWarning(
                "few-rows",
                f"The {split} split has {rows:,} rows; below {FEW_ROWS} its figures say next to nothing.",
            )


def _repeated(share: float) -> Iterable[DataWarning]:
    if share > MANY_REPEATED:
        yield DataWarning(
            "repeated-rows",
            f"{share:.1%} of the test rows occur in the training rows with the same inputs and the same label. If rows "
            "were logged twice, test figures are too good; with few columns or rare values it is natural.",
        )


def _dense(schema: Schema, summaries: list[DenseSummary]) -> Iterable[DataWarning]:
    for field, summary in zip(schema.dense, summaries):
        known = summary.rows - summary.missing
        if summary.negative and TRANSFORMS[field.transform].drops_sign:
            yield DataWarning(
                "negative-numbers",
                f"Column {field.name}: {summary.negative:,} of {known:,} training values are negative, and {field.transform} makes "
                "them all 0. If they mean something, write in the recipe: transform: none",
            )
        if summary.rows and not known:
            yield DataWarning("no-values", f"Column {field.name}: every training row is missing.")
        elif known and summary.min == summary.max and not summary.missing:
            yield DataWarning("constant", f"Column {field.name}: every training row has the same value.")


def _sparse(schema: Schema, facts: dict[str, Any]) -> Iterable[DataWarning]:
    if not schema.sparse:
        yield DataWarning(
            "no-sparse-columns", "There is no sparse column: of the hand-crafted models only dnn can be compared with."
        )
    rows = facts["rows"]["train"]
    for field in schema.sparse:
        unknown, missing = (facts[what]["train"][field.name] for what in ("unknown", "missing"))
        if rows and unknown + missing == rows:
            yield DataWarning(
                "no-values",
                f"Column {field.name}: every training row is unknown or missing ({unknown:,} rarer than the minimum "
                f"count, {missing:,} missing), so it tells a model nothing.",
            )
        elif rows and unknown / rows >= NEARLY_ALL:
            yield DataWarning(
                "no-values",
                f"Column {field.name}: {unknown / rows:.1%} of the training rows hold a value rarer than the minimum count, so "
                "it tells a model next to nothing. Times and numbers of single rows look like that: leave them out.",
            )
        elif field.rows == 3 and not unknown and not missing:
            yield DataWarning("constant", f"Column {field.name}: every training row has the same value.")


Block = tuple[np.ndarray, np.ndarray, np.ndarray]  # dense [n, I] float32, ids [n, F] int32, label [n] or [n, L] int8


def repeated_share(test: Iterable[Block], train: Iterable[Block], test_rows: int) -> float:
    """Which share of the test rows the training rows hold too, inputs and label; memory does not grow with train."""
    step = _U(max(1, -(-test_rows // MOST_HASHES)))
    hashes = np.concatenate([_every(row_hashes(*block), step) for block in test] or [np.zeros(0, _U)])
    if not len(hashes):
        return 0.0
    wanted, counts = np.unique(hashes, return_counts=True)
    seen = np.zeros(len(wanted), bool)
    for block in train:
        some = _every(row_hashes(*block), step)
        place = np.minimum(np.searchsorted(wanted, some), len(wanted) - 1)
        seen[place[wanted[place] == some]] = True
    return float(counts[seen].sum() / counts.sum())


def _every(hashes: np.ndarray, step: np.uint64) -> np.ndarray:
    return hashes if step == 1 else hashes[hashes % step == 0]


def row_hashes(dense: np.ndarray, ids: np.ndarray, label: np.ndarray) -> np.ndarray:
    """64 bits per row, of everything in it."""
    hashes = (
        label.astype(np.uint64)
        if label.ndim == 1
        else label.astype(np.uint64) @ (_U(1) << np.arange(label.shape[1], dtype=_U))
    )
    for column in (*dense.view(np.uint32).T, *ids.view(np.uint32).T):
        hashes ^= column
        hashes *= _U(0x9E3779B97F4A7C15)
        hashes ^= hashes >> _U(29)
    return hashes


def warn_of_data(data: Any, progress: Any) -> None:
    """Say before a job spends time what makes its results on this data set mean little."""
    for warning in data.warnings:
        if warning.kind in ("one-class", "few-rows"):
            progress.say(f"warning: {warning.message}")

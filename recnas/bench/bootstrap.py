"""Is one model better than another on the same test rows, or is it luck?

    one = [row_sums(logits, label) for logits in logits_per_seed]
    found = paired_bootstrap(one, reference)
    found.logloss, found.logloss_interval, found.real

A bootstrap over test rows and training seeds at once. A resample draws as many rows as there are, with
replacement, the same rows for both models (hence paired), and as many seeds of each model as were trained.
The interval holds the middle 95 % of the differences; a difference is called real if that of the log loss
does not contain zero. Each interval is for one comparison: of twenty models that are no better, one will
look real.

Shortcuts, each checked against the plain computation by a test:

- Log loss is a mean over rows, so a resample needs only how often each row was drawn. AUC is not, but to
  first order it is the sum of two means (its Hajek projection): over clicks, of the share of non-clicks
  scored below; over non-clicks, of the share of clicks scored above. What is left out is of the order of
  one over the number of rows.
- More than `GROUPS` rows are drawn in groups of neighbours, whose sums are taken once.
- Rows may have weights, as `RowSums` holds sums of them: a resample draws rows, whatever they weigh.
- With S seeds, the mean of S draws varies (S - 1) / S times as much as it should: it is stretched by that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from recnas.data.prepared import PreparedData
from recnas.data.schema import Schema
from recnas.errors import DataError
from recnas.runs.records import PairedDifference

GROUPS = 2**14
_AT_A_TIME = 64  # resamples per matrix product

Interval = tuple[float, float]


@dataclass(frozen=True)
class RowSums:
    """What resamples need of one model's scores on all test rows: sums per group `[G]`, of weights if rows have some."""

    logloss: float
    auc: float | None  # None if all rows have one label
    rows: np.ndarray
    clicks: np.ndarray
    losses: np.ndarray
    above: np.ndarray  # over clicks: share of all non-clicks scored lower, ties as half
    below: np.ndarray  # over non-clicks: share of all clicks scored higher, ties as half


def row_sums(logits: np.ndarray, label: np.ndarray, groups: int = GROUPS, weight: np.ndarray | None = None) -> RowSums:
    """Summarise `logits [N]` against `label [N]` of 0 and 1; with `weight [N]`, a row counts that many times."""
    score, clicked = np.asarray(logits, np.float64), np.asarray(label) == 1
    n = len(score)
    if n == 0 or score.shape != clicked.shape:
        raise DataError(f"{score.shape} scores cannot be judged by {clicked.shape} labels.")
    heavy = np.ones(n) if weight is None else np.asarray(weight, np.float64)
    if heavy.shape != score.shape or not (heavy >= 0).all() or not heavy.sum() > 0:
        raise DataError("weights must be one per row, not negative, and not all zero.")
    losses = heavy * (np.logaddexp(0, score) - score * clicked)
    place = np.minimum(np.arange(n) * groups // n, groups - 1) if n > groups else np.arange(n)
    g = min(n, groups)

    def per_group(values: np.ndarray) -> np.ndarray:
        return np.bincount(place, weights=values, minlength=g)

    clicks, misses = float(heavy[clicked].sum()), float(heavy[~clicked].sum())
    share = heavy * _placements(score, clicked, heavy) if clicks and misses else np.zeros(n)
    return RowSums(
        logloss=float(losses.sum() / heavy.sum()),
        auc=float(share[clicked].sum() / clicks) if clicks and misses else None,
        rows=per_group(heavy),
        clicks=per_group(heavy * clicked),
        losses=per_group(losses),
        above=per_group(np.where(clicked, share, 0.0)),
        below=per_group(np.where(clicked, 0.0, share)),
    )


def judge(data: PreparedData, split: str) -> Callable[[np.ndarray], RowSums]:
    """What comparisons need of any logits of the rows of a split."""
    label = np.asarray(data.array(split, "label"))
    weight = np.asarray(data.array(split, "weight")) if data.weighted else None
    return lambda logits: judged(logits, label, weight, data.schema)


def judged(logits: np.ndarray, label: np.ndarray, weight: np.ndarray | None, schema: Schema) -> RowSums:
    """Of several labels, `[N, L]`, the loss is their weighted sum, and clicks and AUC are the first one's."""
    if not schema.labels:
        return row_sums(logits, label, weight=weight)
    each = [row_sums(logits[:, i], label[:, i], weight=weight) for i in range(len(schema.labels))]
    shares = [one.weight for one in schema.labels]
    return replace(
        each[0],
        logloss=sum(share * one.logloss for share, one in zip(shares, each)),
        losses=np.sum([share * one.losses for share, one in zip(shares, each)], axis=0),
    )


def _placements(score: np.ndarray, clicked: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Of each row, the share of (the weight of) rows of the other label that it is ordered rightly with."""
    share = np.empty(len(score))
    share[clicked] = _share_below(score[clicked], score[~clicked], weight[~clicked])
    share[~clicked] = 1 - _share_below(score[~clicked], score[clicked], weight[clicked])
    return share


def _share_below(score: np.ndarray, others: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The share of the others' weight that lies below each score, ties as half."""
    order = np.argsort(others, kind="stable")
    others, up_to = others[order], np.concatenate(([0.0], np.cumsum(weight[order])))
    lower = up_to[np.searchsorted(others, score, "left")] + up_to[np.searchsorted(others, score, "right")]
    return lower / (2 * up_to[-1])


def paired_bootstrap(
    model: Sequence[RowSums],
    reference: Sequence[RowSums],
    *,
    resamples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> PairedDifference:
    """Compare two models by their seeds' sums on the same rows."""
    first, n_groups = model[0], len(model[0].rows)
    for other in (*model, *reference):
        if not np.array_equal(other.rows, first.rows) or not np.array_equal(other.clicks, first.clicks):
            raise DataError("the two models were scored on different test rows, so they cannot be compared row by row.")
    rng = np.random.default_rng(seed)
    losses: list[np.ndarray] = []
    aucs: list[np.ndarray] = []
    has_auc = first.auc is not None
    for start in range(0, resamples, _AT_A_TIME):
        k = min(_AT_A_TIME, resamples - start)
        drawn = rng.integers(n_groups, size=(k, n_groups)) + n_groups * np.arange(k)[:, None]
        weight = np.bincount(drawn.ravel(), minlength=k * n_groups).reshape(k, n_groups).astype(np.float64)
        rows, clicks = weight @ first.rows, weight @ first.clicks
        loss, auc = np.zeros(k), np.zeros(k)
        for sign, sums in ((1, model), (-1, reference)):
            drawn_seeds = rng.integers(len(sums), size=(k, len(sums)))
            with np.errstate(divide="ignore", invalid="ignore"):  # a resample of rows without any weight
                means = weight @ np.stack([s.losses for s in sums], 1) / rows[:, None]
            loss += sign * _over_seeds(means, drawn_seeds)
            if has_auc:
                auc += sign * _over_seeds(_aucs(weight, sums, rows, clicks), drawn_seeds)
        losses.append(loss)
        aucs.append(auc)
    interval = _interval(np.concatenate(losses), level)
    assert interval is not None
    return PairedDifference(
        logloss=_mean(model, "logloss") - _mean(reference, "logloss"),
        logloss_interval=interval,
        auc=_mean(model, "auc") - _mean(reference, "auc") if has_auc else None,
        auc_interval=_interval(np.concatenate(aucs), level) if has_auc else None,
        real=not interval[0] <= 0 <= interval[1],
        resamples=resamples,
        level=level,
    )


def _aucs(weight: np.ndarray, sums: Sequence[RowSums], rows: np.ndarray, clicks: np.ndarray) -> np.ndarray:
    """AUC to first order, `[resamples, seeds]`; NaN for a resample without clicks or without anything else."""
    with np.errstate(divide="ignore", invalid="ignore"):
        above = weight @ np.stack([s.above for s in sums], 1) / clicks[:, None]
        below = weight @ np.stack([s.below for s in sums], 1) / (rows - clicks)[:, None]
    return above + below - np.array([s.auc for s in sums])


def _over_seeds(values: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Mean over the drawn seeds, stretched around the mean over all; both `[resamples, seeds]`."""
    centre, seeds = values.mean(1), values.shape[1]
    if seeds == 1:
        return centre
    again = np.take_along_axis(values, drawn, 1).mean(1)
    return centre + (again - centre) * np.sqrt(seeds / (seeds - 1))


def _mean(sums: Sequence[RowSums], name: str) -> float:
    return float(np.mean([getattr(s, name) for s in sums]))


def _interval(values: np.ndarray, level: float) -> Interval | None:
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)

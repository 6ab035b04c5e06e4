"""What is known about a generated file: Bayes log loss, and what each order of terms is worth.

Sums are gathered chunk by chunk in row order, so they do not depend on the number of threads. The
partial models ("linear terms only", and so on) are judged after the best recalibration a + b * x
of their logit, fitted on the written labels: leaving terms out also shrinks the right slope. They
are oracles of the planted parts, not bounds on a family of models: crosses are centred in logits,
and since the click rate is a curved function of the logit, a little of them shows on the margins.
A fitted logistic regression can therefore end slightly below "linear", most of all at low rates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from recnas.data.synthetic.planted import GROUPS, ClickModel, sigmoid

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

_BINS = 4000
_REACH = 16.0  # partial logits beyond +-16 share the outermost bins


@dataclass(frozen=True)
class ChunkSums:
    """Sufficient statistics of one chunk."""

    rows: int
    clicks: int
    entropy: float
    surprise: float
    probability: float
    group_sum: dict[str, float]
    group_square: dict[str, float]
    ladder: dict[str, tuple[I64, I64]]  # partial model -> rows and clicks per bin of its logit


def measure(parts: dict[str, npt.NDArray[np.float32]], chance: F64, clicked: npt.NDArray[np.bool_]) -> ChunkSums:
    """Everything the truth needs of one chunk."""
    log_yes, log_no = np.log(chance), np.log1p(-chance)
    ladder: dict[str, tuple[I64, I64]] = {}
    partial: F64 | None = None
    for group in list(parts)[:-1]:  # with the last group the model is complete
        partial = parts[group].astype(np.float64) if partial is None else partial + parts[group]
        place = np.clip((partial + _REACH) * (_BINS / (2 * _REACH)), 0, _BINS - 1).astype(np.int64)
        ladder[group] = (np.bincount(place, minlength=_BINS), np.bincount(place[clicked], minlength=_BINS))
    return ChunkSums(
        rows=len(chance),
        clicks=int(clicked.sum()),
        entropy=float(-(chance * log_yes + (1 - chance) * log_no).sum()),
        surprise=float(-np.where(clicked, log_yes, log_no).sum()),
        probability=float(chance.sum()),
        group_sum={g: float(v.sum(dtype=np.float64)) for g, v in parts.items()},
        group_square={g: float((v.astype(np.float64) ** 2).sum()) for g, v in parts.items()},
        ladder=ladder,
    )


@dataclass
class Tally:
    """Running totals over the chunks, added in row order."""

    rows: int = 0
    clicks: int = 0
    entropy: float = 0.0
    surprise: float = 0.0
    probability: float = 0.0
    group_sum: dict[str, float] = field(default_factory=dict)
    group_square: dict[str, float] = field(default_factory=dict)
    ladder: dict[str, tuple[I64, I64]] = field(default_factory=dict)

    def add(self, chunk: ChunkSums) -> None:
        self.rows += chunk.rows
        self.clicks += chunk.clicks
        self.entropy += chunk.entropy
        self.surprise += chunk.surprise
        self.probability += chunk.probability
        for group, value in chunk.group_sum.items():
            self.group_sum[group] = self.group_sum.get(group, 0.0) + value
            self.group_square[group] = self.group_square.get(group, 0.0) + chunk.group_square[group]
        for group, (rows, clicks) in chunk.ladder.items():
            if group in self.ladder:
                self.ladder[group] = (self.ladder[group][0] + rows, self.ladder[group][1] + clicks)
            else:
                self.ladder[group] = (rows, clicks)

    def variance_share(self) -> dict[str, float]:
        variance = {
            g: max(self.group_square[g] / self.rows - (self.group_sum[g] / self.rows) ** 2, 0.0) for g in self.group_sum
        }
        total = sum(variance.values())
        return {g: variance[g] / total if total > 0 else 0.0 for g in GROUPS if g in variance}

    def report(self, model: ClickModel) -> dict[str, Any]:
        """The part of truth.json that is measured on the written rows."""
        rate = self.clicks / self.rows
        return {
            "click_rate": rate,
            "expected_click_rate": self.probability / self.rows,
            "constant_rate_logloss": entropy(rate),
            "bayes_logloss": self.entropy / self.rows,
            "bayes_logloss_realised": self.surprise / self.rows,
            "recalibrated_oracle_logloss": self._oracles(),
            "variance_share": self.variance_share(),
            "intercept": model.intercept,
            "planted_terms": [
                {
                    "name": term.spec.name,
                    "group": term.spec.group,
                    "columns": ([term.spec.count] if term.spec.count else []) + list(term.spec.columns),
                    "order": len(term.spec.columns) + (term.spec.count is not None),
                    "std": model.strength * term.spec.std,
                }
                for term in model.terms
            ],
        }

    def _oracles(self) -> dict[str, float]:
        named, so_far = {}, []
        for group, (rows, clicks) in self.ladder.items():
            so_far.append(group)
            named["+".join(so_far)] = recalibrated_logloss(rows, clicks)
        return named


def entropy(rate: float) -> float:
    """Log loss of always answering `rate` when that is the true rate."""
    if rate <= 0.0 or rate >= 1.0:
        return 0.0
    return float(-(rate * np.log(rate) + (1 - rate) * np.log1p(-rate)))


def recalibrated_logloss(rows: I64, clicks: I64) -> float:
    """Log loss of sigmoid(a + b * x) with the best a and b, x at the middle of its bin.

    Newton's method on two numbers; 4,000 bins over 32 logits move the result by less than 1e-5.
    """
    total = rows.sum()
    rate = clicks.sum() / total
    if rate <= 0.0 or rate >= 1.0:
        return 0.0
    x = (np.arange(len(rows)) + 0.5) * (2 * _REACH / len(rows)) - _REACH
    design = np.stack([np.ones_like(x), x])
    weights = np.array([np.log(rate / (1 - rate)), 0.0])
    for _ in range(25):
        chance = sigmoid(weights @ design)
        gradient = design @ (clicks - rows * chance)
        curvature = (design * (rows * chance * (1 - chance))) @ design.T + 1e-9 * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        weights = weights + step
        if float(np.abs(step).max()) < 1e-10:
            break
    logits = weights @ design
    loss = clicks * np.logaddexp(0, -logits) + (rows - clicks) * np.logaddexp(0, logits)
    return float(loss.sum() / total)

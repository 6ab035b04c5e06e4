"""Log loss, AUC, normalised entropy and calibration of a split, fed batch by batch.

    metrics = Metrics()
    for batch in loader.epoch():
        metrics.update(network(batch), batch.label)
    metrics.result()["auc"]

Exact, not binned and not a mean over batches: AUC counts a tie between a click and a non-click as half, and
equals scikit-learn's. Scores are kept as float32, so a row costs four bytes.
With weights every number is that of rows repeated as often as they weigh; `rows` and `clicks` stay counts.
A number that cannot be computed (AUC of a split without clicks) is None, with the reason beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from recnas.data.schema import LabelField, Schema
from recnas.errors import DataError, RunError
from recnas.train.sorted_scores import PlainScores, WeightedScores


class Metric(NamedTuple):
    """A number that comparisons and trainings report. To add one: a line in `REPORTED`, its value in `result`."""

    name: str
    title: str  # of a column
    digits: int


REPORTED = (
    Metric("logloss", "log loss", 5),
    Metric("auc", "AUC", 5),
    Metric("normalized_entropy", "NE", 4),
    Metric("calibration", "calib.", 3),
)


def reported(labels: Sequence[LabelField] = ()) -> tuple[Metric, ...]:
    """Of data with these labels: of several, the whole's and then each label's own."""
    own = [Metric(of_label(m.name, one.name), f"{m.title} {one.name}", m.digits) for one in labels for m in REPORTED]
    return (REPORTED[0]._replace(title="weighted log loss"), *REPORTED[1:], *own) if labels else REPORTED


def of_label(metric: str, label: str) -> str:
    return f"{metric}:{label}"


def metrics_of(schema: Schema, logits: bool = True) -> Metrics | LabelMetrics:
    return LabelMetrics(schema.labels, logits) if schema.labels else Metrics(logits)


class NotFiniteScores(RunError):
    """A model's scores on a split are no numbers: its training has diverged."""


class Metrics:
    """Accumulates over batches; `result()` may be read at any time.

    Args:
        logits: scores are logits (the default, exact far from 0) or probabilities.
        bins: of the calibration error, each with the same number of rows up to ties.
    """

    def __init__(self, logits: bool = True, bins: int = 20) -> None:
        self.logits, self.bins = logits, bins
        self.rows = self.clicks = 0
        self._loss = self._predicted = 0.0
        self._plain = PlainScores()
        self._weighted: WeightedScores | None = None
        self._weight = self._clicked_weight = 0.0

    @torch.no_grad()
    def update(self, score: Tensor, label: Tensor, weight: Tensor | None = None) -> None:
        """Add a batch: `score [B]` and `label [B]` of 0 and 1, in any numeric types; `weight [B]` in all or none."""
        score, label = score.detach().flatten().cpu(), label.detach().flatten().cpu()
        heavy = self._checked_weight(weight, score)
        if score.shape != label.shape:
            raise RunError(f"{score.numel()} scores but {label.numel()} labels.")
        clicked = label == 1
        if not bool((clicked | (label == 0)).all()):
            raise DataError("labels must be 0 or 1.")
        if not bool(score.isfinite().all()):
            raise NotFiniteScores(
                "the model's scores are NaN or infinite, so the split has no log loss.",
                "Training has diverged: lower the learning rate, or check the gradient clipping.",
            )
        wide, target = score.double(), label.double()
        if self.logits:
            loss, predicted = F.softplus(wide) - wide * target, wide.sigmoid()
        else:
            if bool((score < 0).any() or (score > 1).any()):
                raise RunError("scores are not probabilities.", "Pass logits=True for logits.")
            tiny = torch.finfo(score.dtype).eps if score.is_floating_point() else torch.finfo(torch.float64).eps
            bounded = wide.clamp(tiny, 1 - tiny)
            loss, predicted = -torch.where(clicked, bounded.log(), (-bounded).log1p()), wide
        if heavy is not None:
            loss, predicted = loss * heavy, predicted * heavy
            self._weight += float(heavy.sum())
            self._clicked_weight += float(heavy[clicked].sum())
        self._loss += float(loss.sum())
        self._predicted += float(predicted.sum())
        self.rows += score.numel()
        self.clicks += int(clicked.sum())
        kept = score.float() + 0.0  # -0.0 becomes 0.0: equal scores have equal bits
        if self._weighted is not None and heavy is not None:
            self._weighted.add(kept.numpy(), clicked.numpy(), heavy.numpy())
            return
        self._plain.add(kept.numpy(), clicked.numpy())

    def _checked_weight(self, weight: Tensor | None, score: Tensor) -> Tensor | None:
        if weight is not None and self.rows == 0 and self._weighted is None:
            self._weighted = WeightedScores()
        if (weight is None) != (self._weighted is None):
            raise RunError("some batches have weights and some have none.")
        if weight is None:
            return None
        weight = weight.detach().flatten().cpu().double()
        if weight.shape != score.shape:
            raise RunError(f"{score.numel()} scores but {weight.numel()} weights.")
        if not bool((weight.isfinite() & (weight >= 0)).all()):
            raise DataError("weights must be finite and not negative.")
        return weight

    @property
    def _mass(self) -> tuple[float, float]:
        """Of all rows and of clicks: their weights, or how many they are."""
        return (self.rows, self.clicks) if self._weighted is None else (self._weight, self._clicked_weight)

    def result(self) -> dict[str, float | None]:
        """Every number by name; None where it is not defined, and `reasons` says why."""
        values: dict[str, float | None] = dict.fromkeys(
            (
                "click_rate",
                "logloss",
                "auc",
                "normalized_entropy",
                "mean_prediction",
                "calibration",
                "calibration_error",
            )
        )
        mass, clicks = self._mass
        if mass:
            rate, loss = clicks / mass, self._loss / mass
            values |= {"click_rate": rate, "logloss": loss, "mean_prediction": self._predicted / mass}
            values["auc"], values["calibration_error"] = self._over_sorted_scores()
            if 0 < clicks < mass:
                values["normalized_entropy"] = loss / entropy(rate)
            if clicks:
                values["calibration"] = self._predicted / clicks
        return {"rows": self.rows, "clicks": self.clicks, **values}

    def reasons(self) -> dict[str, str]:
        """Why numbers of `result` are None, by name; empty in the usual case."""
        mass, clicks = self._mass
        if not mass:
            return dict.fromkeys(
                [name for name in self.result() if name not in ("rows", "clicks")],
                "all rows have weight 0" if self.rows else "the split has no rows",
            )
        if 0 < clicks < mass:
            return {}
        of = f"all {self.rows} rows" if self._weighted is None else "all rows that have a weight"
        reason = f"{of} are {'clicks' if clicks else 'non-clicks'}"
        missing = ("auc", "normalized_entropy") if clicks else ("auc", "normalized_entropy", "calibration")
        return dict.fromkeys(missing, reason)

    def _over_sorted_scores(self) -> tuple[float | None, float]:
        """AUC and expected calibration error, in one pass over distinct scores in rising order."""
        # Pairs (click, non-click) ordered rightly, a tie as half, all times two: an integer unless rows have weights.
        twice_won = 0
        below = 0  # non-clicks with a smaller score than any in this run
        mass, clicked = self._mass
        error = _CalibrationError(mass, self.bins)
        for values, misses, clicks in (self._plain if self._weighted is None else self._weighted).runs():
            before = below + np.cumsum(misses) - misses
            twice_won += (clicks * (2 * before + misses)).sum().item()
            below += misses.sum().item()
            wide = torch.from_numpy(values).double()
            error.add((wide.sigmoid() if self.logits else wide).numpy(), clicks + misses, clicks)
        pairs = clicked * (mass - clicked)
        return (twice_won / (2 * pairs) if pairs else None), error.total() / mass


class LabelMetrics:
    """Metrics of several labels, from scores and labels `[B, L]`.

    Without a label's name, `logloss` is the weighted sum of the labels' log losses, which training minimises and by
    which models are chosen, `normalized_entropy` is it over that of the best constant guesses, and the others are the first label's.
    """

    def __init__(self, labels: Sequence[LabelField], logits: bool = True) -> None:
        self.labels = tuple(labels)
        self.each = [Metrics(logits) for _ in self.labels]

    @property
    def rows(self) -> int:
        return self.each[0].rows

    def update(self, score: Tensor, label: Tensor, weight: Tensor | None = None) -> None:
        if score.shape != label.shape or score.shape[1:] != (len(self.labels),):
            raise RunError(f"{list(score.shape)} scores but {list(label.shape)} labels.")
        for metrics, mine, clicked in zip(self.each, score.unbind(1), label.unbind(1)):
            metrics.update(mine, clicked, weight)

    def result(self) -> dict[str, float | None]:
        found = [metrics.result() for metrics in self.each]
        whole = dict(found[0])
        losses = [one["logloss"] for one in found]
        if None not in losses:
            loss = self._sum(losses)
            entropies = [entropy(one["click_rate"]) for one in found]
            relative = loss / self._sum(entropies) if any(entropies) else None
            whole |= {"logloss": loss, "normalized_entropy": relative}
        for label, one in zip(self.labels, found):
            whole |= {of_label(name, label.name): value for name, value in one.items() if name != "rows"}
        return whole

    def _sum(self, values: Sequence[Any]) -> float:
        return math.fsum(label.weight * value for label, value in zip(self.labels, values))

    def reasons(self) -> dict[str, str]:
        found = {name: why for name, why in self.each[0].reasons().items() if name != "normalized_entropy"}
        for label, metrics in zip(self.labels, self.each):
            found |= {of_label(name, label.name): why for name, why in metrics.reasons().items()}
        return found


def entropy(rate: float | None) -> float:
    """Log loss of always predicting the rate."""
    return -(rate * math.log(rate) + (1 - rate) * math.log1p(-rate)) if rate and rate < 1 else 0.0


class _CalibrationError:
    """Sum over bins of |predicted clicks - clicks|. Rows with equal scores stay in one bin, the lower."""

    def __init__(self, mass: float, bins: int) -> None:
        self.ends = [mass * (i + 1) / bins for i in range(bins)]  # rows, or weight, up to the end of each bin
        self.seen: float = 0
        self.gap = self.sum = 0.0

    def add(self, predicted: np.ndarray, counts: np.ndarray, clicks: np.ndarray) -> None:
        ranks = self.seen + np.cumsum(counts)
        gaps = np.concatenate(([0.0], np.cumsum(predicted * counts - clicks)))
        start = 0
        for stop in np.searchsorted(ranks, self.ends) + 1:  # distinct scores up to the one holding the bin's last row
            if start < stop <= len(ranks):
                self.sum += abs(self.gap + gaps[stop] - gaps[start])
                self.gap, start = 0.0, int(stop)
        self.gap += gaps[-1] - gaps[start]
        self.seen = ranks[-1].item() if len(ranks) else self.seen
        self.ends = [end for end in self.ends if end > self.seen]

    def total(self) -> float:
        return float(self.sum + abs(self.gap))

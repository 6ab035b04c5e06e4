"""Log loss, AUC, normalised entropy and calibration of a split, fed batch by batch.

    metrics = Metrics()
    for batch in loader.epoch():
        metrics.update(network(batch), batch.label)
    metrics.result()["auc"]

Exact, not binned and not a mean over batches: AUC counts a tie between a click and a non-click as half, and
equals scikit-learn's. Scores are kept as float32 in two buffers, clicks and non-clicks, so a row costs four
bytes; beyond `memory_bytes` they move to a temporary file and are read back one range of values at a time.
With weights every number is that of rows repeated as often as they weigh; `rows` and `clicks` stay counts.
A number that cannot be computed (AUC of a split without clicks) is None, with the reason beside it.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from recnas.errors import DataError, RunError
from recnas.train.weighted_scores import WeightedScores

_RANGE_ROWS = (2**19, 2**23)  # rows sorted at a time: what fits in cache, and never more than the second
_PASSES = 16  # over the scores, before ranges grow
_READ_ROWS = 2**20  # rows read from the temporary file at a time
_HALF = 2**16  # values of one half of a float32's bits


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


class Metrics:
    """Accumulates over batches; `result()` may be read at any time.

    Args:
        logits: scores are logits (the default, exact far from 0) or probabilities.
        bins: of the calibration error, each with the same number of rows up to ties.
        memory_bytes: scores beyond this go to a temporary file in `folder`.
    """

    def __init__(
        self, logits: bool = True, bins: int = 20, memory_bytes: int = 2**28, folder: Path | None = None
    ) -> None:
        self.logits, self.bins = logits, bins
        self.rows = self.clicks = 0
        self._loss = self._predicted = 0.0
        # By label: not clicked, clicked.
        self._buffers = tuple(_ScoreBuffer(max(1, memory_bytes // 8), folder) for _ in range(2))
        self._weighted: WeightedScores | None = None
        self._weight = self._clicked_weight = 0.0
        self._memory = memory_bytes, folder

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
            raise RunError(
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
        self._buffers[0].add(kept[~clicked].numpy())
        self._buffers[1].add(kept[clicked].numpy())

    def _checked_weight(self, weight: Tensor | None, score: Tensor) -> Tensor | None:
        if weight is not None and self.rows == 0 and self._weighted is None:
            self._weighted = WeightedScores(*self._memory)
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
                entropy = -(rate * math.log(rate) + (1 - rate) * math.log1p(-rate))
                values["normalized_entropy"] = loss / entropy
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
        for values, misses, clicks in _runs(*self._buffers) if self._weighted is None else self._weighted.runs():
            before = below + np.cumsum(misses) - misses
            twice_won += (clicks * (2 * before + misses)).sum().item()
            below += misses.sum().item()
            wide = torch.from_numpy(values).double()
            error.add((wide.sigmoid() if self.logits else wide).numpy(), clicks + misses, clicks)
        pairs = clicked * (mass - clicked)
        return (twice_won / (2 * pairs) if pairs else None), error.total() / mass


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


class _ScoreBuffer:
    """float32 scores in no order: in memory up to a limit, then in a temporary file."""

    def __init__(self, memory_bytes: int, folder: Path | None) -> None:
        self.limit, self.folder = memory_bytes // 4, folder
        self.rows = self._in_memory = 0
        self._parts: list[np.ndarray] = []
        self._file: IO[bytes] | None = None

    def add(self, scores: np.ndarray) -> None:
        self._parts.append(scores)
        self.rows += len(scores)
        self._in_memory += len(scores)
        if self._in_memory > self.limit:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115 - lives as long as the buffer
            self._file.seek(0, 2)
            for part in self._parts:
                part.tofile(self._file)
            self._file.flush()
            self._parts, self._in_memory = [], 0

    def parts(self) -> Iterator[np.ndarray]:
        if self._file is not None:
            self._file.seek(0)
            while data := self._file.read(4 * _READ_ROWS):
                yield np.frombuffer(data, dtype=np.float32)
        if len(self._parts) > 1:
            self._parts = [np.concatenate(self._parts)]
        yield from self._parts


def _runs(misses: _ScoreBuffer, clicks: _ScoreBuffer) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Distinct scores in rising order with their number of non-clicks and of clicks, range after range."""
    rows = misses.rows + clicks.rows
    at_a_time = min(max(_RANGE_ROWS[0], rows // _PASSES), _RANGE_ROWS[1])
    if rows <= at_a_time:
        yield _count_sorted(*(np.sort(np.concatenate([*buffer.parts(), _NONE])) for buffer in (misses, clicks)))
        return
    # Cut by the upper half of the bits, several neighbouring halves at a time.
    halves = np.zeros(_HALF, dtype=np.int64)
    for buffer in (misses, clicks):
        for part in buffer.parts():
            halves += np.bincount(_ordered(part) >> 16, minlength=_HALF)
    start = 0
    while start < _HALF:
        stop = max(start + 1, start + int((np.cumsum(halves[start:]) <= at_a_time).sum()))
        if halves[start:stop].sum() > at_a_time:  # one half with very many rows: few distinct scores, just count
            yield _count_one_half(misses, clicks, start)
        else:
            chosen = (
                [
                    part[(keys >= start << 16) & (keys < stop << 16)]
                    for part in buffer.parts()
                    for keys in (_ordered(part),)
                ]
                for buffer in (misses, clicks)
            )
            yield _count_sorted(*(np.sort(np.concatenate([*parts, _NONE])) for parts in chosen))
        start = stop


_NONE = np.empty(0, dtype=np.float32)


def _count_sorted(misses: np.ndarray, clicks: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    both = np.sort(np.concatenate((misses, clicks)))
    is_last = np.ones(len(both), dtype=bool)
    np.not_equal(both[1:], both[:-1], out=is_last[:-1])
    ends = np.flatnonzero(is_last) + 1
    values = both[ends - 1]
    # Clicks are the fewer: look those up, the rest follows from the ranks.
    click_ends = np.searchsorted(clicks, values, side="right")
    n_clicks = np.diff(click_ends, prepend=0)
    return values, np.diff(ends, prepend=0) - n_clicks, n_clicks


def _count_one_half(misses: _ScoreBuffer, clicks: _ScoreBuffer, half: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    counts = np.zeros((2, _HALF), dtype=np.int64)
    for row, buffer in enumerate((misses, clicks)):
        for part in buffer.parts():
            keys = _ordered(part)
            counts[row] += np.bincount(keys[keys >> 16 == half] & (_HALF - 1), minlength=_HALF)
    present = np.flatnonzero(counts.any(0))
    return _scores((half << 16 | present).astype(np.uint32)), counts[0, present], counts[1, present]


def _ordered(scores: np.ndarray) -> np.ndarray:
    """Bits of float32 numbers as unsigned integers of the same order."""
    bits = scores.view(np.uint32)
    return np.where(bits >> 31 == 1, ~bits, bits | np.uint32(2**31))


def _scores(keys: np.ndarray) -> np.ndarray:
    """Inverse of `_ordered`."""
    return np.where(keys >> 31 == 1, keys & np.uint32(2**31 - 1), ~keys).view(np.float32)

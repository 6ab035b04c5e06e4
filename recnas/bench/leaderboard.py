"""The leaderboard of a comparison, from the lines of its ledger."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from recnas.bench.bootstrap import RowSums, paired_bootstrap
from recnas.bench.floor import NO_BETTER, is_below
from recnas.files import write_atomic, write_json
from recnas.runs.layout import LEADERBOARD
from recnas.runs.records import Metrics, ModelLatency, ModelTraining, PairedDifference
from recnas.runs.results import ComparedModel, Headline, Leaderboard, Spread
from recnas.train.metrics import REPORTED, Metric


@dataclass(frozen=True)
class TrainedModel:
    """A model whose trainings all came through.

    Args:
        searched: it is an architecture, rather than a hand-crafted model.
        trials: of its tuning; none if it was trained as it is. seeds: its final trainings.
        sums: of the test logits of every final training.
    """

    label: str
    searched: bool
    trials: Sequence[ModelTraining]
    seeds: Sequence[ModelTraining]
    sums: Sequence[RowSums]
    latency: ModelLatency | None

    @property
    def id(self) -> str:
        return self.seeds[0].id


def ranked(
    models: Sequence[TrainedModel], reference: str, guess: RowSums, metrics: Sequence[Metric] = REPORTED
) -> tuple[ComparedModel, ...]:
    """Lowest mean test log loss first; the number says nothing that `verdict` does not support.

    Args:
        reference: the id of what the others are compared with; it may be missing, for it may have failed.
        guess: always predicting the click rate of the training rows.
    """
    against = next((model.sums for model in models if model.id == reference), None)
    rows = [
        _row(
            model,
            None if against is None or model.id == reference else against,
            paired_bootstrap(model.sums, [guess]),
            metrics,
        )
        for model in models
    ]
    ordered = sorted(rows, key=lambda row: (_test_loss(row), row.model))
    return tuple(row.model_copy(update={"rank": rank}) for rank, row in enumerate(ordered, start=1))


def _test_loss(row: ComparedModel) -> float:
    mean = row.value("test", "logloss").mean
    return math.inf if mean is None else mean


def _row(
    model: TrainedModel,
    reference: Sequence[RowSums] | None,
    to_guess: PairedDifference,
    metrics: Sequence[Metric],
) -> ComparedModel:
    """One model over its seeds; its rank is still to come."""
    first, lines = model.seeds[0], model.seeds
    test = _over_seeds([line.test for line in lines], metrics)
    speeds = [line.rows_per_second for line in lines if line.rows_per_second is not None]
    difference = None if reference is None else paired_bootstrap(model.sums, reference)
    below = is_below(test["normalized_entropy"].mean, to_guess.logloss_interval)
    return ComparedModel(
        rank=0,
        model=model.label,
        id=model.id,
        searched=model.searched,
        seeds=tuple(line.seed for line in lines),
        trials=len(model.trials),
        trained_rows=sum(line.trained_rows for line in [*model.trials, *lines]),
        tuned_rows=sum(line.trained_rows for line in model.trials),
        whole=sum(line.failed is None and (line.rung is None or line.ended) for line in model.trials),
        best_epochs=tuple(line.best_epoch for line in lines),
        choice=first.choice,
        valid=_over_seeds([line.valid for line in lines], metrics),
        test=test,
        params=first.params,
        embedding_params=first.embedding_params,
        macs=first.macs,
        train_rows=first.train_rows,
        flops=None if first.macs is None else 2 * first.macs,
        latency=None if model.latency is None else model.latency.times,
        rows_per_second=statistics.median(speeds) if speeds else None,
        difference=difference,
        to_guess=to_guess,
        verdict=NO_BETTER if below else _verdict(difference),
    )


def _over_seeds(lines: Sequence[Metrics], metrics: Sequence[Metric]) -> dict[str, Spread]:
    spreads: dict[str, Spread] = {}
    for name in (metric.name for metric in metrics):
        values = tuple(one[name] for one in lines)
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            spreads[name] = Spread(mean=None, std=None, values=values)
        else:
            spread = statistics.stdev(known) if len(known) > 1 else None
            spreads[name] = Spread(mean=statistics.fmean(known), std=spread, values=values)
    return spreads


def _verdict(difference: PairedDifference | None) -> str | None:
    if difference is None:
        return None
    if not difference.real:
        return "no real difference"
    return "better" if difference.logloss < 0 else "worse"


def headline(rows: Sequence[ComparedModel], models: Sequence[TrainedModel]) -> Headline | None:
    """The best searched model, or the best of all, against the best of the other ones.

    The other is hand-crafted if there is such a one: what a reader would use if there were no search.
    """
    if len(rows) < 2:
        return None
    one = next((row for row in rows if row.searched), rows[0])
    others = [row for row in rows if row is not one]
    other = next((row for row in others if not row.searched), others[0])
    sums = {model.id: model.sums for model in models}
    return Headline(model=one.model, other=other.model, difference=paired_bootstrap(sums[one.id], sums[other.id]))


def write_board(folder: Path, board: Leaderboard) -> None:
    """`leaderboard.json` with everything, `leaderboard.csv` with one line per model."""
    write_json(folder / LEADERBOARD, board.to_json())
    lines = [flat(row) for row in board.models]
    text = io.StringIO()
    if lines:
        writer = csv.DictWriter(text, fieldnames=list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)

    def write(file: IO[bytes]) -> None:
        file.write(text.getvalue().encode())

    write_atomic(folder / "leaderboard.csv", write)


def flat(row: ComparedModel) -> dict[str, Any]:
    """One model as columns."""
    columns: dict[str, Any] = {"rank": row.rank, "model": row.model, "seeds": len(row.seeds)}
    for metric in row.test:
        columns[f"test_{metric}"] = row.value("test", metric).mean
        columns[f"test_{metric}_std"] = row.value("test", metric).std
    for metric in ("logloss", "auc"):
        columns[f"valid_{metric}"] = row.value("valid", metric).mean
    for metric in ("logloss", "auc"):
        low, high = getattr(row.difference, f"{metric}_interval", None) or (None, None)
        columns[f"delta_{metric}"] = getattr(row.difference, metric, None)
        columns[f"delta_{metric}_low"], columns[f"delta_{metric}_high"] = low, high
    columns["verdict"] = row.verdict
    columns["delta_guess"] = row.to_guess.logloss
    columns["delta_guess_low"], columns["delta_guess_high"] = row.to_guess.logloss_interval
    for name in ("params", "embedding_params", "flops"):
        columns[name] = getattr(row, name)
    for name in ("p50_ms_1", "p99_ms_1", "p50_ms_512", "p99_ms_512"):
        columns[f"latency_{name}"] = (row.latency or {}).get(name)
    columns["train_rows_per_second"] = row.rows_per_second
    columns["trials"] = row.trials
    columns["trained_rows"] = row.trained_rows
    columns["tuned_rows"] = row.tuned_rows
    columns["best_epochs"] = " ".join(f"{epoch:g}" for epoch in row.best_epochs if epoch is not None)
    columns["choice"] = "; ".join(f"{name}={value}" for name, value in row.choice.items())
    return columns

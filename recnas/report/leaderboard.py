"""The leaderboard of a report: every model that was read on test, each of them once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from recnas.bench.floor import NO_BETTER
from recnas.bench.intervals import mean_interval
from recnas.report.table import Column, Row, Table
from recnas.runs.records import Metrics, SeedTraining
from recnas.runs.results import ComparedModel, Spread
from recnas.runs.run import Run

_SHOWN = ("logloss", "auc", "normalized_entropy", "calibration")  # columns of the page; others are in its CSV


def leaderboard(runs: Sequence[Run]) -> Table:
    """Lowest mean log loss first. The winner of a search that was also compared is one row, with all its seeds."""
    rows: list[Row] = []
    notes: list[str] = []
    reference = None
    winners = {run.winner_key: run for run in runs if run.searches_clicks and run.result is not None}
    for run in runs:
        if run.board is not None:
            reference = reference or run.board.reference
            for row in run.board.models:
                rows.append(_with_winner(run, row, winners.pop(row.id, None), notes))
    rows += [_winner_row(run) for run in winners.values()]
    rows += [_training_row(run) for run in runs if run.training is not None and run.training.test]
    rows.sort(key=lambda row: (row["test_logloss"] is None, row["test_logloss"], row["model"]))
    # What a reader asks first comes first and fits a wide screen; spreads, validation and origin are in the CSV.
    columns = (
        Column("model", "model"), Column("seeds", "seeds", "int"), Column("test_logloss", "test log loss", "loss", "test_logloss_std"),
        Column("interval", "95 % interval", "loss"), Column("delta", f"difference to {reference}" if reference else "difference", "delta"),
        Column("delta_interval", "95 % interval of the difference", "delta"), Column("verdict", "verdict"), Column("test_auc", "test AUC", "loss"),
        Column("flops", "FLOPs per row", "num"), Column("params", "parameters", "int"), Column("latency_p50_ms_1", "ms for 1 row", "time"),
        Column("latency_p50_ms_512", "ms for 512 rows", "time"), Column("test_normalized_entropy", "times the loss of guessing", "ratio"),
        Column("test_calibration", "predicted / true clicks", "ratio"), Column("rows_per_second", "training rows/s", "int"),
        Column("trials", "tuning trials", "int"), *_of_labels(runs),
        *((Column("where", "from"),) if sum(run.board is not None for run in runs) > 1 else ()),
    )  # fmt: skip
    note = (
        "± is the standard deviation over training seeds; the interval is that of the mean (Student's t). Guessing is always predicting "
        "the click rate: only below 1 times its loss has a model learned anything. Predicted / true clicks is 1 for a calibrated model. "
        "Parameters leave the embedding tables out; times are medians on the machine that ran the comparison. The CSV has more columns, validation among them."
    )
    if reference:
        note += f" Differences to {reference} are paired: the same test rows and seeds resampled together. Negative is better."
    more = {"reference": reference, "noise": _noise(rows, reference)}
    return Table("leaderboard", "Leaderboard: models on test", columns, rows, " ".join([note, *notes]), more)


def _of_labels(runs: Sequence[Run]) -> list[Column]:
    """Log loss and AUC of each label, where there are several."""
    found = {metric.name: metric for run in runs if run.board is not None for metric in run.board.metrics}
    shown = [metric for metric in found.values() if metric.name.startswith(("logloss:", "auc:"))]
    return [Column(f"test_{metric.name}", f"test {metric.title}", "loss") for metric in shown]


def _noise(rows: Iterable[Row], reference: str | None) -> list[float] | None:
    """One standard deviation over seeds around the reference: what a difference must exceed to be seen."""
    for row in rows:
        if row["model"] == reference and row.get("test_logloss_std") is not None:
            return [
                row["test_logloss"] - row["test_logloss_std"],
                row["test_logloss"] + row["test_logloss_std"],
            ]
    return None


def _with_winner(run: Run, row: ComparedModel, winner: Run | None, notes: list[str]) -> Row:
    """A compared model; the trainings that its own search gave it are added if they were done in the same way."""
    if winner is None or winner.result is None:
        return compared_row(run, row)
    new = [one for one in winner.winner_trainings if one.test is not None and one.seed not in row.seeds]
    if not _trained_alike(run, row, winner):
        loss = winner.result.test["logloss"]
        notes.append(
            f"{winner.label} trained its winner with other settings (test log loss {loss:.5f}); that is not counted here."
        )
        new = []
    elif new:
        notes.append(f"The difference of {row.model} is over the seeds of {run.label} alone.")
    return compared_row(run, _with_seeds(row, new)) | {"where": f"{winner.label}, {run.label}"}


def _trained_alike(run: Run, row: ComparedModel, winner: Run) -> bool:
    """The same settings, tuned ones included, and the same rows."""
    own = winner.winner_manifest
    return own is not None and own.on == "train" and own.settings == _tuned(run.manifest.settings, row.choice)


def _tuned(settings: Mapping[str, Any], choice: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with those of a choice put in; `embeddings.l2` is one of a section."""
    tuned = dict(settings)
    for name, value in choice.items():
        section, dot, inner = name.partition(".")
        tuned[section] = {**tuned[section], inner: value} if dot else value
    return tuned


def _with_seeds(row: ComparedModel, trainings: Sequence[SeedTraining]) -> ComparedModel:
    """The row of a leaderboard with further trainings counted in."""
    valid = [one.valid for one in trainings if one.valid is not None]
    test = [one.test for one in trainings if one.test is not None]
    return row.model_copy(
        update={
            "seeds": (*row.seeds, *(one.seed for one in trainings)),
            "valid": _joined(row.valid, valid),
            "test": _joined(row.test, test),
        }
    )


def _joined(spreads: dict[str, Spread], more: Sequence[Metrics]) -> dict[str, Spread]:
    return {metric: _spread([*spread.values, *(one.get(metric) for one in more)]) for metric, spread in spreads.items()}


def _spread(values: list[float | None]) -> Spread:
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return Spread(mean=None, values=tuple(values))
    return Spread(mean=fmean(known), std=stdev(known) if len(known) > 1 else None, values=tuple(values))


def compared_row(run: Run, row: ComparedModel) -> Row:
    """One model of a comparison."""
    found: Row = {"model": row.model, "where": run.label, "id": row.id, "seeds": len(row.seeds)}
    found |= _metric_cells("test", row.test) | _metric_cells("valid", row.valid)
    found["values"] = [value for value in row.value("test", "logloss").values if value is not None]
    found["interval"] = _listed(mean_interval(found["values"]))
    difference = row.difference
    found["delta"] = None if difference is None else difference.logloss
    found["delta_interval"] = None if difference is None else list(difference.logloss_interval)
    found["reference"] = run.board is not None and row.model == run.board.reference
    found["verdict"] = row.verdict or ("reference" if found["reference"] else None)
    if found["reference"] and found["verdict"] == NO_BETTER:
        found["verdict"] = f"reference; {NO_BETTER}"
    for name in ("params", "embedding_params", "flops", "rows_per_second", "searched"):
        found[name] = getattr(row, name)
    found["trials"] = row.trials or None
    return found | {f"latency_{name}": value for name, value in (row.latency or {}).items()}


def _metric_cells(split: str, spreads: dict[str, Spread]) -> Row:
    found: Row = {}
    for metric in dict.fromkeys((*_SHOWN, *spreads)):
        spread = spreads.get(metric) or Spread(mean=None)
        found[f"{split}_{metric}"], found[f"{split}_{metric}_std"] = spread.mean, spread.std
    return found


def _winner_row(run: Run) -> Row:
    """The winner of a search that was not compared."""
    result = run.result
    assert result is not None
    cost = result.winner.cost
    found = _own_row(run, f"{run.label}: winner", result.winner.key, cost.get("params"), cost.get("macs"))
    found |= _metric_cells("test", {name: Spread(mean=value) for name, value in result.test.items()})
    found |= _metric_cells("valid", {name: Spread(mean=value) for name, value in result.valid.items()})
    found["test_logloss_std"], found["valid_logloss_std"] = result.test_std, result.valid_std
    found["seeds"] = len(run.test_losses) or None
    return _judged(run, found)


def _training_row(run: Run) -> Row:
    training = run.training
    assert training is not None
    found = _own_row(run, run.label, training.key, training.params, training.macs)
    found |= _metric_cells("test", training.test) | _metric_cells("valid", training.valid)
    found["seeds"] = len(training.seeds)
    return _judged(run, found)


def _own_row(run: Run, name: str, key: str, params: float | None, macs: float | None) -> Row:
    flops = None if macs is None else 2 * macs
    return {"model": name, "where": run.label, "id": key, "params": params, "flops": flops, "searched": True}


def _judged(run: Run, row: Row) -> Row:
    """With what its single seeds say."""
    row["values"] = run.test_losses
    if row["test_normalized_entropy"] is None or row["test_normalized_entropy"] >= 1:
        row["verdict"] = NO_BETTER
    row["interval"] = _listed(mean_interval(run.test_losses))
    aucs = [auc for one in run.winner_trainings if one.test and (auc := one.test.get("auc")) is not None]
    if len(aucs) > 1:
        row["test_auc_std"] = stdev(aucs)
    return row


def _listed(interval: tuple[float, float] | None) -> list[float] | None:
    return None if interval is None else list(interval)

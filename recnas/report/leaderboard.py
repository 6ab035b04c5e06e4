"""The leaderboard of a report: every model that was read on test, each of them once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from recnas.bench.floor import NO_BETTER
from recnas.report.runs import Run
from recnas.report.stats import mean_interval
from recnas.report.table import Column, Row, Table

_METRICS = ("logloss", "auc", "normalized_entropy", "calibration")
_KNOWN = {"rank", "model", "id", "seeds", "trials", "choice", "valid", "test", "params", "embedding_params", "macs", "flops",
          "latency", "rows_per_second", "difference", "verdict", "train_rows", "to_guess"}  # fmt: skip


def leaderboard(runs: Sequence[Run]) -> Table:
    """Lowest mean log loss first. The winner of a search that was also compared is one row, with all its seeds."""
    rows: list[Row] = []
    notes: list[str] = []
    reference = None
    winners = {run.result["best"].get("key"): run for run in runs if run.on_clicks and run.result and run.result.get("test")}
    for run in runs:
        if run.board:
            reference = reference or run.board.get("reference")
            for row in run.board.get("models", []):
                rows.append(_with_winner(run, row, winners.pop(row.get("id"), None), notes))
    rows += [own_row(run) for run in winners.values()]
    rows += [own_row(run) for run in runs if run.kind == "train" and run.result and run.result.get("test")]
    rows.sort(key=lambda row: (row["test_logloss"] is None, row["test_logloss"], row["model"]))
    extra = [name for name in dict.fromkeys(name for row in rows for name in row) if name.startswith("extra_")]
    # What a reader asks first comes first and fits a wide screen; spreads, validation and origin are in the CSV.
    columns = (
        Column("model", "model"), Column("seeds", "seeds", "int"), Column("test_logloss", "test log loss", "loss", "test_logloss_std"),
        Column("interval", "95 % interval", "loss"), Column("delta", f"difference to {reference}" if reference else "difference", "delta"),
        Column("delta_interval", "95 % interval of the difference", "delta"), Column("verdict", "verdict"), Column("test_auc", "test AUC", "loss"),
        Column("flops", "FLOPs per row", "num"), Column("params", "parameters", "int"), Column("latency_p50_ms_1", "ms for 1 row", "time"),
        Column("latency_p50_ms_512", "ms for 512 rows", "time"), Column("test_normalized_entropy", "times the loss of guessing", "ratio"),
        Column("test_calibration", "predicted / true clicks", "ratio"), Column("rows_per_second", "training rows/s", "int"),
        Column("trials", "tuning trials", "int"), *(Column(name, name.removeprefix("extra_")) for name in extra),
        *((Column("where", "from"),) if sum(bool(run.board) for run in runs) > 1 else ()),
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


def _noise(rows: Iterable[Row], reference: str | None) -> list[float] | None:
    """One standard deviation over seeds around the reference: what a difference must exceed to be seen."""
    for row in rows:
        if row["model"] == reference and row.get("test_logloss_std") is not None:
            return [
                row["test_logloss"] - row["test_logloss_std"],
                row["test_logloss"] + row["test_logloss_std"],
            ]
    return None


def _with_winner(run: Run, row: Mapping[str, Any], winner: Run | None, notes: list[str]) -> Row:
    """A compared model; the trainings that its own search gave it are added if they were done in the same way."""
    if winner is None:
        return compared_row(run, row)
    new = [event for event in winner.best_events if "test" in event and event["seed"] not in row["seeds"]]
    if not _trained_alike(run, row, winner):
        loss = (winner.result or {})["test"]["logloss"]
        notes.append(f"{winner.label} trained its winner with other settings (test log loss {loss:.5f}); that is not counted here.")
        new = []
    elif new:
        notes.append(f"The difference of {row['model']} is over the seeds of {run.label} alone.")
    found = compared_row(run, _with_seeds(row, new))
    return found | {"where": f"{winner.label}, {run.label}"}


def _trained_alike(run: Run, row: Mapping[str, Any], winner: Run) -> bool:
    """The same settings, tuned ones included, and the same rows."""
    own = winner.best_facts
    compared = (run.manifest.get("settings") or {}) | (row.get("choice") or {})
    return own.get("on", "train") == "train" and own.get("settings") == compared


def _with_seeds(row: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The row of a leaderboard with further trainings counted in."""
    found = dict(row)
    found["seeds"] = [*row["seeds"], *(event["seed"] for event in events)]
    for split in ("valid", "test"):
        more = [event[split] for event in events if split in event]
        if more and split in row:
            found[split] = {
                metric: _figure([*figure["values"], *(measured.get(metric) for measured in more)])
                for metric, figure in row[split].items()
            }
    return found


def _figure(values: list[float | None]) -> dict[str, Any]:
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return {"mean": None, "std": None, "values": values}
    return {"mean": fmean(known), "std": stdev(known) if len(known) > 1 else None, "values": values}


def compared_row(run: Run, row: Mapping[str, Any]) -> Row:
    """One model of a comparison."""
    found: Row = {
        "model": str(row.get("model")),
        "where": run.label,
        "id": row.get("id"),
        "seeds": len(row.get("seeds") or []),
    }
    for split in ("test", "valid"):
        for metric in _METRICS:
            figure = (row.get(split) or {}).get(metric) or {}
            found[f"{split}_{metric}"], found[f"{split}_{metric}_std"] = figure.get("mean"), figure.get("std")
    values = ((row.get("test") or {}).get("logloss") or {}).get("values") or []
    found["values"] = [value for value in values if value is not None]
    found["interval"] = _listed(mean_interval(found["values"]))
    difference = row.get("difference") or {}
    found["delta"], found["delta_interval"] = difference.get("logloss"), difference.get("logloss_interval")
    found["reference"] = row.get("model") == (run.board or {}).get("reference")
    found["verdict"] = row.get("verdict") or ("reference" if found["reference"] else None)
    if found["reference"] and found["verdict"] == NO_BETTER:
        found["verdict"] = f"reference; {NO_BETTER}"
    for name in ("params", "embedding_params", "flops", "rows_per_second"):
        found[name] = row.get(name)
    found["trials"] = row.get("trials") or None
    found |= {f"latency_{name}": value for name, value in (row.get("latency") or {}).items()}
    found |= {
        f"extra_{k}": v
        for k, v in row.items()
        if k not in _KNOWN and isinstance(v, (int, float, str)) and v is not None
    }
    return found


def own_row(run: Run) -> Row:
    """The winner of a search that was not compared, or a training."""
    result = run.result or {}
    name = f"{run.label}: winner" if run.kind == "search" else run.label
    best = result.get("best", result)
    found: Row = {"model": name, "where": run.label, "id": best.get("key"), "params": best.get("params")}
    found["flops"] = 2 * best["macs"] if best.get("macs") is not None else None
    events = run.best_events
    for split in ("test", "valid"):
        for metric in _METRICS:
            figure = (result.get(split) or {}).get(metric)
            mean, std = (
                (figure.get("mean"), figure.get("std")) if isinstance(figure, dict) else (figure, None)
            )
            found[f"{split}_{metric}"], found[f"{split}_{metric}_std"] = mean, std
        if "std" in (result.get(split) or {}):
            found[f"{split}_logloss_std"] = result[split]["std"]
    found["values"] = [event["test"]["logloss"] for event in events if "test" in event]
    found["seeds"] = (
        len(found["values"]) or (result.get("seeds") or {}).get("best")
        if run.kind == "search"
        else len(events)
    )
    if found["test_normalized_entropy"] is None or found["test_normalized_entropy"] >= 1:
        found["verdict"] = NO_BETTER
    found["interval"] = _listed(mean_interval(found["values"]))
    if len(found["values"]) > 1:
        aucs = [event["test"]["auc"] for event in events if event["test"].get("auc") is not None]
        found["test_auc_std"] = stdev(aucs) if len(aucs) > 1 else None
    return found


def _listed(interval: tuple[float, float] | None) -> list[float] | None:
    return None if interval is None else list(interval)


def is_searched(row: Row) -> bool:
    return str(row["model"]).endswith(":best") or str(row.get("id")).startswith("nasrec-")

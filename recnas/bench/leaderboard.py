"""The leaderboard of a comparison, from the lines of its ledger."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from recnas.bench.bootstrap import Difference, RowSums, paired_bootstrap
from recnas.bench.floor import NO_BETTER, is_below
from recnas.runs.folder import write_atomic, write_json
from recnas.runs.records import Metrics, ModelTraining
from recnas.train.metrics import REPORTED

COSTS = ("params", "embedding_params", "macs", "train_rows")


def model_row(
    label: str,
    lines: Sequence[ModelTraining],
    trials: Sequence[ModelTraining],
    latency: Mapping[str, float] | None,
    difference: Difference | None,
    to_guess: Difference,
    searched: bool,
) -> dict[str, Any]:
    """One model over its seeds.

    Args:
        trials: of its tuning; none if it was trained as it is.
        difference: to the reference; None for the reference itself, and without one.
        to_guess: to always predicting the click rate of the training rows.
        searched: it is an architecture, rather than a hand-crafted model.
    """
    first = lines[0]
    test = _over_seeds([line.test for line in lines])
    speeds = [line.rows_per_second for line in lines if line.rows_per_second is not None]
    below = is_below(test["normalized_entropy"]["mean"], to_guess.logloss_interval)
    return {
        "model": label,
        "id": first.id,
        "searched": searched,
        "seeds": [line.seed for line in lines],
        "trials": len(trials),
        "trained_rows": sum(line.trained_rows for line in [*trials, *lines]),
        "best_epochs": [line.best_epoch for line in lines],
        "choice": first.choice,
        "valid": _over_seeds([line.valid for line in lines]),
        "test": test,
        **{name: getattr(first, name) for name in COSTS},
        "flops": None if first.macs is None else 2 * first.macs,
        "latency": dict(latency) if latency else None,
        "rows_per_second": statistics.median(speeds) if speeds else None,
        "difference": difference.to_dict() if difference else None,
        "to_guess": to_guess.to_dict(),
        "verdict": NO_BETTER if below else _verdict(difference),
    }


def _over_seeds(metrics: Sequence[Metrics]) -> dict[str, Any]:
    spreads: dict[str, Any] = {}
    for name in (metric.name for metric in REPORTED):
        values = [one[name] for one in metrics]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            spreads[name] = {"mean": None, "std": None, "values": values}
        else:
            spread = statistics.stdev(known) if len(known) > 1 else None
            spreads[name] = {"mean": statistics.fmean(known), "std": spread, "values": values}
    return spreads


def _verdict(difference: Difference | None) -> str | None:
    if difference is None:
        return None
    if not difference.real:
        return "no real difference"
    return "better" if difference.logloss < 0 else "worse"


def rank(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lowest mean test log loss first; the number says nothing that `verdict` does not support."""
    ordered = sorted(rows, key=lambda row: (row["test"]["logloss"]["mean"], row["model"]))
    return [{"rank": number, **row} for number, row in enumerate(ordered, start=1)]


def headline(
    ranked: Sequence[Mapping[str, Any]], searched: set[str], sums: Mapping[str, list[RowSums]]
) -> dict[str, Any] | None:
    """The best searched model, or the best of all, against the best of the other ones; `searched` holds ids.

    The other is hand-crafted if there is such a one: what a reader would use if there were no search.
    """
    if len(ranked) < 2:
        return None
    one = next((row for row in ranked if row["id"] in searched), ranked[0])
    others = [row for row in ranked if row is not one]
    other = next((row for row in others if row["id"] not in searched), others[0])
    found = paired_bootstrap(sums[one["id"]], sums[other["id"]])
    return {"model": one["model"], "other": other["model"], "difference": found.to_dict()}


def write_board(folder: Path, board: dict[str, Any]) -> None:
    """`leaderboard.json` with everything, `leaderboard.csv` with one line per model."""
    write_json(folder / "leaderboard.json", board)
    lines = [flat(row) for row in board["models"]]
    text = io.StringIO()
    if lines:
        writer = csv.DictWriter(text, fieldnames=list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)

    def write(file: IO[bytes]) -> None:
        file.write(text.getvalue().encode())

    write_atomic(folder / "leaderboard.csv", write)


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """One model as columns."""
    found: dict[str, Any] = {"rank": row["rank"], "model": row["model"], "seeds": len(row["seeds"])}
    for metric in (one.name for one in REPORTED):
        found[f"test_{metric}"] = row["test"][metric]["mean"]
        found[f"test_{metric}_std"] = row["test"][metric]["std"]
    for metric in ("logloss", "auc"):
        found[f"valid_{metric}"] = row["valid"][metric]["mean"]
    difference = row["difference"] or {}
    for metric in ("logloss", "auc"):
        low, high = difference.get(f"{metric}_interval") or (None, None)
        found[f"delta_{metric}"] = difference.get(metric)
        found[f"delta_{metric}_low"], found[f"delta_{metric}_high"] = low, high
    found["verdict"] = row["verdict"]
    found["delta_guess"] = row["to_guess"]["logloss"]
    found["delta_guess_low"], found["delta_guess_high"] = row["to_guess"]["logloss_interval"]
    for name in ("params", "embedding_params", "flops"):
        found[name] = row[name]
    for name in ("p50_ms_1", "p99_ms_1", "p50_ms_512", "p99_ms_512"):
        found[f"latency_{name}"] = (row["latency"] or {}).get(name)
    found["train_rows_per_second"] = row["rows_per_second"]
    found["trials"] = row["trials"]
    found["trained_rows"] = row["trained_rows"]
    found["best_epochs"] = " ".join(f"{epoch:g}" for epoch in row["best_epochs"] if epoch is not None)
    found["choice"] = "; ".join(f"{name}={value}" for name, value in row["choice"].items())
    return found

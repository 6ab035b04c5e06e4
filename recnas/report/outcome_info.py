"""What came out, as tables: models on test, trained candidates, proxy against truth, loss against cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from recnas.bench.correlation import rank_correlation
from recnas.report.runs import Correlations, Run, is_degenerate, low_is_good
from recnas.report.stats import mean_interval
from recnas.report.table import Column, Row, Table
from recnas.searchers.objective import fronts

_METRICS = ("logloss", "auc", "normalized_entropy", "calibration")
_KNOWN = {"rank", "model", "id", "seeds", "trials", "choice", "valid", "test", "params", "embedding_params", "macs", "flops",
          "latency", "rows_per_second", "difference", "verdict", "train_rows"}  # fmt: skip


def leaderboard(runs: Sequence[Run]) -> Table:
    """Every model that was read on test, lowest mean log loss first."""
    rows: list[Row] = []
    reference = None
    for run in runs:
        if run.board:
            reference = reference or run.board.get("reference")
            rows += [_compared(run, row) for row in run.board.get("models", [])]
        elif run.kind in ("search", "train") and run.result and run.result.get("test"):
            rows.append(_own(run))
    rows.sort(key=lambda row: (row["test_logloss"] is None, row["test_logloss"], row["model"]))
    extra = [
        name for name in dict.fromkeys(name for row in rows for name in row) if name.startswith("extra_")
    ]
    columns = (
        Column("model", "model"), Column("where", "from"), Column("seeds", "seeds", "int"),
        Column("test_logloss", "test log loss", "loss", "test_logloss_std"), Column("interval", "95 % interval", "loss"),
        Column("test_auc", "test AUC", "loss", "test_auc_std"), Column("delta", f"less {reference}" if reference else "difference", "delta"),
        Column("delta_interval", "95 % interval of it", "delta"), Column("verdict", "verdict"),
        Column("test_normalized_entropy", "NE", "num"), Column("test_calibration", "calibration", "num"),
        Column("valid_logloss", "validation log loss", "loss", "valid_logloss_std"), Column("params", "parameters", "int"),
        Column("flops", "FLOPs per row", "num"), Column("latency_p50_ms_1", "ms, batch 1 (median)", "num"),
        Column("latency_p50_ms_512", "ms, batch 512 (median)", "num"), Column("rows_per_second", "training rows/s", "int"),
        Column("trials", "tuning trials", "int"), *(Column(name, name.removeprefix("extra_")) for name in extra),
    )  # fmt: skip
    note = (
        "± is the standard deviation over training seeds; the interval is that of the mean (Student's t). NE is the log loss "
        "over that of always predicting the click rate: below 1 is better than guessing. Calibration is predicted over true "
        "clicks. Parameters leave the embedding tables out."
    )
    if reference:
        note += f" Differences to {reference} are paired: the same test rows and seeds resampled together."
    more = {"reference": reference, "noise": _noise(rows, reference)}
    return Table("leaderboard", "Leaderboard: models on test", columns, rows, note, more)


def _noise(rows: Iterable[Row], reference: str | None) -> list[float] | None:
    """One standard deviation over seeds around the reference: what a difference must exceed to be seen."""
    for row in rows:
        if row["model"] == reference and row.get("test_logloss_std") is not None:
            return [
                row["test_logloss"] - row["test_logloss_std"],
                row["test_logloss"] + row["test_logloss_std"],
            ]
    return None


def _compared(run: Run, row: Mapping[str, Any]) -> Row:
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
    is_reference = row.get("model") == (run.board or {}).get("reference")
    found["verdict"] = row.get("verdict") or ("reference" if is_reference else None)
    for name in ("params", "embedding_params", "flops", "rows_per_second", "trials"):
        found[name] = row.get(name)
    found |= {f"latency_{name}": value for name, value in (row.get("latency") or {}).items()}
    found |= {
        f"extra_{k}": v
        for k, v in row.items()
        if k not in _KNOWN and isinstance(v, (int, float, str)) and v is not None
    }
    return found


def _own(run: Run) -> Row:
    """The winner of a search, or a training."""
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
    found["interval"] = _listed(mean_interval(found["values"]))
    if len(found["values"]) > 1:
        aucs = [event["test"]["auc"] for event in events if event["test"].get("auc") is not None]
        found["test_auc_std"] = float(np.std(aucs, ddof=1)) if len(aucs) > 1 else None
    return found


def _listed(interval: tuple[float, float] | None) -> list[float] | None:
    return None if interval is None else list(interval)


def trained_candidates(runs: Sequence[Run]) -> Table:
    """What was trained from scratch to choose the winner: validation only."""
    rows: list[Row] = []
    for run in runs:
        if run.kind != "search":
            continue
        first = {c["key"]: c for c in reversed(run.candidates)}
        ranks = {row.get("key"): row.get("rank") for row in (run.result or {}).get("top", [])}
        chosen = ((run.result or {}).get("best") or {}).get("key")
        for key, figures in run.trained_mean().items():
            candidate = first.get(key, {})
            rows.append(
                {"run": run.label, "candidate": candidate["index"] + 1 if candidate else None, "key": key, "rank": None if ranks.get(key) is None else ranks[key] + 1,
                 "score": run.value(candidate) if candidate else None, "chosen": key == chosen, **figures,
                 "flops": None if figures["macs"] is None else 2 * figures["macs"]}
            )  # fmt: skip
    rows.sort(key=lambda row: (row["run"], row["valid_logloss"]))
    columns = (
        Column("run", "run"), Column("candidate", "candidate", "int"), Column("rank", "place by score", "int"), Column("score", "score", "num"),
        Column("valid_logloss", "validation log loss", "loss", "valid_logloss_std"), Column("valid_auc", "validation AUC", "loss"),
        Column("seeds", "seeds", "int"), Column("params", "parameters", "int"), Column("flops", "FLOPs per row", "num"),
        Column("seconds", "training", "seconds"), Column("chosen", "chosen"),
    )  # fmt: skip
    note = "Trained from scratch, judged on validation rows; the lowest is chosen and alone reads test. Being the best of several, its validation figure flatters it."
    return Table("trained", "Candidates that were trained", columns, rows, note)


def truth(runs: Sequence[Run]) -> Table:
    """One row per trained candidate and proxy: its score beside its validation log loss."""
    rows: list[Row] = []
    for run in runs:
        first = {c["key"]: c for c in reversed(run.candidates) if c.get("scores")}
        for key, figures in run.trained_mean().items():
            for proxy, score in (first.get(key, {}).get("scores") or {}).items():
                if not is_degenerate(first[key], proxy):
                    rows.append(
                        {"run": run.label, "share": run.share, "proxy": proxy, "key": key, "score": score["value"],
                         "valid_logloss": figures["valid_logloss"], "params": figures["params"]}
                    )  # fmt: skip
    columns = (
        Column("run", "run"), Column("share", "warm-up", "share"), Column("proxy", "proxy"), Column("key", "architecture"),
        Column("score", "score", "num"), Column("valid_logloss", "validation log loss", "loss"), Column("params", "parameters", "int"),
    )  # fmt: skip
    note = "Only the candidates that were trained, which are the best by score: within such a narrow choice a proxy ranks worse than over the whole space."
    return Table("truth", "Score against trained log loss", columns, rows, note)


def truth_summary(points: Table, tables: Sequence[Correlations] = ()) -> Table:
    """Rank correlation of each proxy with the truth at each warm-up; +1 is a perfect ranking."""
    rows: list[Row] = []
    for panel in dict.fromkeys((row["run"], row["share"], row["proxy"]) for row in points.rows):
        mine = [row for row in points.rows if (row["run"], row["share"], row["proxy"]) == panel]
        sign = -1.0 if low_is_good(panel[2]) else 1.0
        found = rank_correlation(
            [sign * row["score"] for row in mine], [-row["valid_logloss"] for row in mine]
        )
        rows.append(dict(zip(("run", "share", "proxy"), panel)) | found.to_dict())
    for table in tables:
        rows += [
            {**row, "run": row.get("run") or table.path.name, "share": row.get("share")} for row in table.rows
        ]
    columns = (
        Column("proxy", "proxy"), Column("share", "warm-up", "share"), Column("n", "architectures", "int"), Column("spearman", "Spearman", "corr"),
        Column("spearman_interval", "95 % interval", "corr"), Column("kendall", "Kendall", "corr"),
        Column("kendall_interval", "95 % interval of it", "corr"), Column("run", "from"), Column("reason", "why not"),
    )  # fmt: skip
    note = "Signed so that +1 is a perfect ranking. Intervals are bootstrap percentiles over architectures; the noise of training is not in them."
    return Table("truth_summary", "How well scores rank trained networks", columns, rows, note)


def pareto(runs: Sequence[Run]) -> Table:
    """Validation log loss against FLOPs of everything that was trained; `front` marks what nothing beats in both."""
    rows: list[Row] = []
    for run in runs:
        chosen = ((run.result or {}).get("best") or {}).get("key")
        for key, figures in run.trained_mean().items():
            what = "winner" if key == chosen else "sampled" if run.kind == "bench" else "candidate"
            rows.append(
                {"model": f"{run.label}: winner" if what == "winner" else key, "what": what, "run": run.label,
                 "flops": 2 * figures["macs"], "params": figures["params"], "valid_logloss": figures["valid_logloss"],
                 "valid_logloss_std": figures["valid_logloss_std"]}
            )  # fmt: skip
        for row in (run.board or {}).get("models", []):
            compared = _compared(run, row)
            if compared["flops"] is not None and compared["valid_logloss"] is not None:
                what = "searched" if is_searched(compared) else "baseline"
                rows.append(
                    {
                        "what": what,
                        "run": run.label,
                        **{
                            n: compared[n]
                            for n in ("model", "flops", "params", "valid_logloss", "valid_logloss_std")
                        },
                    }
                )
    _mark_front(rows, ("flops", "valid_logloss"), (1.0, 1.0))
    rows.sort(key=lambda row: (row["flops"], row["valid_logloss"]))
    columns = (
        Column("model", "model"), Column("what", "what"), Column("flops", "FLOPs per row", "num"), Column("params", "parameters", "int"),
        Column("valid_logloss", "validation log loss", "loss", "valid_logloss_std"), Column("front", "on the front"), Column("run", "from"),
    )  # fmt: skip
    note = "FLOPs are two per multiply-add, for one row of data, by arithmetic. Lower and further left is better."
    if any(run.trained for run in runs):
        note += " Validation, because test is read by the winner only."
    return Table("pareto", "Log loss against cost", columns, rows, note)


def is_searched(row: Row) -> bool:
    return str(row["model"]).endswith(":best") or str(row.get("id")).startswith("nasrec-")


def candidates(run: Run) -> Table:
    """Score and cost of every candidate, with the front of the two."""
    rows: list[Row] = []
    for c in run.candidates:
        value, cost = run.value(c), c.get("cost") or {}
        if value is not None and cost.get("flops") is not None and c.get("same_as") is None:
            rows.append(
                {"number": c["index"] + 1, "key": c["key"], "origin": c.get("origin"), "value": value, **cost}
            )
    lower = run.goal is not None and run.goal[1] == "min"
    _mark_front(rows, ("flops", "value"), (1.0, 1.0 if lower else -1.0))
    name = run.goal[0] if run.goal else "score"
    columns = (
        Column("number", "candidate", "int"), Column("origin", "origin"), Column("value", name, "num"), Column("flops", "FLOPs per row", "num"),
        Column("params", "parameters", "int"), Column("front", "on the front"),
    )  # fmt: skip
    failed = sum(c.get("failed") is not None for c in run.candidates)
    dead = sum(run.goal is not None and is_degenerate(c, run.goal[0]) for c in run.candidates)
    note = f"{len(rows):,} different candidates; {failed} failed, {dead} had no live path and are not drawn. Candidates beyond a limit were never scored."
    return Table(
        "candidates",
        f"Score against cost: {run.label}",
        columns,
        rows,
        note,
        {"goal": name, "way": "min" if lower else "max"},
    )


def _mark_front(rows: list[Row], names: tuple[str, str], signs: tuple[float, float]) -> None:
    if rows:
        costs = np.array(
            [[sign * row[name] for name, sign in zip(names, signs)] for row in rows], dtype=np.float64
        )
        for row, rank in zip(rows, fronts(costs)):
            row["front"] = bool(rank == 0)

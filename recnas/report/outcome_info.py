"""What came out, as tables: trained candidates, proxy against truth, loss against cost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recnas.bench.correlation import RankCorrelation, rank_correlation
from recnas.report.kinds import PLACE
from recnas.report.leaderboard import compared_row, is_searched
from recnas.report.runs import Correlations, Run, is_degenerate, low_is_good
from recnas.report.table import Column, Row, Table
from recnas.searchers.objective import fronts

LEAST_RANKED = 8  # networks: an interval over fewer, drawn again from themselves, looks certain and is not


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
                 "score": run.value(candidate) if candidate and not run.is_vote else None, "chosen": key == chosen, **figures,
                 "flops": None if figures["macs"] is None else 2 * figures["macs"]}
            )  # fmt: skip
    rows.sort(key=lambda row: (row["run"], row["valid_logloss"]))
    columns = (
        Column("run", "run"), Column("candidate", "candidate", "int"), Column("rank", "place before training", "int"), Column("score", "score", "num"),
        Column("valid_logloss", "validation log loss", "loss", "valid_logloss_std"), Column("valid_auc", "validation AUC", "loss"),
        Column("seeds", "seeds", "int"), Column("params", "parameters", "int"), Column("flops", "FLOPs per row", "num"),
        Column("seconds", "training", "seconds"), Column("chosen", "chosen"),
    )  # fmt: skip
    note = "Trained from scratch and judged on validation rows. The lowest is chosen, and it alone is evaluated on test. Being the best of several, its validation figure flatters it."
    votes = [run for run in runs if run.is_vote and run.trained]
    if votes:
        note += f" The place before training is that in the vote of {', '.join(votes[0].objectives)}."
    return Table("trained", "Candidates that were trained", columns, rows, note)


def truth(runs: Sequence[Run]) -> Table:
    """One row per trained candidate and proxy: its score beside its validation log loss."""
    rows: list[Row] = []
    for run in runs:
        first = {c["key"]: c for c in reversed(run.candidates) if c.get("scores")}
        for key, figures in run.trained_mean().items():
            candidate = first.get(key, {})
            scores = {name: score["value"] for name, score in (candidate.get("scores") or {}).items() if not is_degenerate(candidate, name)}
            if run.is_vote and candidate:  # what decided comes first, then its voices
                scores = {PLACE: run.places[candidate["index"]], **scores}
            for proxy, score in scores.items():
                rows.append(
                    {"run": run.label, "share": run.share, "proxy": proxy, "key": key, "score": score,
                     "valid_logloss": figures["valid_logloss"], "params": figures["params"]}
                )  # fmt: skip
    columns = (
        Column("run", "run"), Column("share", "warm-up", "share"), Column("proxy", "proxy"), Column("key", "architecture"),
        Column("score", "score", "num"), Column("valid_logloss", "validation log loss", "loss"), Column("params", "parameters", "int"),
    )  # fmt: skip
    note = "Only the candidates that were trained, which are the best before training: within such a narrow choice a proxy ranks worse than over the whole space."
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
    rows = [row | too_few(row["n"]) if row.get("n") is not None and row["n"] < LEAST_RANKED else row for row in rows]
    columns = (
        Column("proxy", "proxy"), Column("share", "warm-up", "share"), Column("n", "architectures", "int"), Column("spearman", "Spearman", "corr"),
        Column("spearman_interval", "95 % interval of Spearman", "corr"), Column("kendall", "Kendall", "corr"),
        Column("kendall_interval", "95 % interval of Kendall", "corr"), Column("run", "from"), Column("reason", "why not"),
    )  # fmt: skip
    note = "Signed so that +1 is a perfect ranking. Intervals are bootstrap percentiles over architectures; the noise of training is not in them."
    return Table("truth_summary", "How well scores rank trained networks", columns, rows, note)


def too_few(n: int) -> Row:
    """What takes the place of a rank correlation over so few networks."""
    return RankCorrelation(n, reason=f"{n} network{'s' * (n != 1)}: too few for a correlation").to_dict()


def pareto(runs: Sequence[Run]) -> Table:
    """Validation log loss against FLOPs of everything that was trained; `front` marks what nothing beats in both."""
    rows: list[Row] = []
    compared_ids = {row.get("id") for run in runs for row in (run.board or {}).get("models", [])}
    for run in runs:
        chosen = ((run.result or {}).get("best") or {}).get("key")
        for key, figures in run.trained_mean().items():
            if key in compared_ids:
                continue  # the same network with more seeds is below
            what = "winner" if key == chosen else "sampled" if run.kind == "bench" else "candidate"
            rows.append(
                {"model": f"{run.label}: winner" if what == "winner" else key, "what": what, "run": run.label,
                 "flops": 2 * figures["macs"], "params": figures["params"], "valid_logloss": figures["valid_logloss"],
                 "valid_logloss_std": figures["valid_logloss_std"]}
            )  # fmt: skip
        for row in (run.board or {}).get("models", []):
            compared = compared_row(run, row)
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
        note += " Shown on validation rows: of the candidates only the winner was evaluated on test."
    return Table("pareto", "Log loss against cost", columns, rows, note)


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
    if run.is_vote:
        note = f"{len(rows):,} different candidates, {failed} failed. Place 1 is the best in the vote of {', '.join(run.objectives)}, which decided. Candidates beyond a limit were never scored."
    return Table(
        "candidates",
        f"{'Place by vote' if run.is_vote else 'Score'} against cost: {run.label}",
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

"""What came out, as tables: trained candidates, proxy against truth, metric against cost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recnas.bench.correlation import RankCorrelation, rank_correlation
from recnas.report.kinds import example_word
from recnas.report.leaderboard import compared_row
from recnas.report.ranking import PLACE, Ranking, is_stand_in
from recnas.report.table import METRIC_NAMES, Column, Row, Table
from recnas.runs.read import Correlations
from recnas.runs.records import Candidate
from recnas.runs.results import MetricFacts
from recnas.runs.run import Run
from recnas.searchers.objective import fronts

LEAST_RANKED = 8  # networks: an interval over fewer, drawn again from themselves, looks certain and is not


def judged_by(runs: Sequence[Run]) -> MetricFacts:
    """What trained networks are judged by; runs on the same data have the same metric."""
    return next((run.metric for run in runs if run.trained), MetricFacts())


def _metric_column(metric: MetricFacts) -> Column:
    name = f"valid_{metric.name}"
    shown = "loss" if metric.name == "logloss" else "percent"
    return Column(name, f"validation {METRIC_NAMES[metric.name]}", shown, f"{name}_std")


def trained_candidates(runs: Sequence[Run]) -> Table:
    """Finalists: what was trained from scratch to choose the winner, on validation only."""
    rows: list[Row] = []
    metric = judged_by(runs)
    for run in runs:
        if not run.is_search:
            continue
        ranking, winner = Ranking(run), run.winner_key
        ranks = {record.key: record.rank for record in run.trained}
        for arch in run.trained_archs:
            candidate, rank = run.first_by_key.get(arch.key), ranks[arch.key]
            scored = candidate is not None and not ranking.is_vote
            rows.append(
                {"run": run.label, "candidate": None if candidate is None else candidate.index + 1, "key": arch.key,
                 "rank": None if rank is None else rank + 1, "score": ranking.value(candidate) if scored and candidate else None,
                 f"valid_{metric.name}": arch.mean(metric.name), f"valid_{metric.name}_std": arch.std(metric.name),
                 "valid_auc": arch.mean("auc"), "seeds": arch.seeds, "params": arch.cost.get("params"), "flops": arch.flops,
                 "seconds": arch.seconds, "chosen": arch.key == winner, "failed": arch.failed}
            )  # fmt: skip
    sign = 1 if metric.direction == "min" else -1
    name = f"valid_{metric.name}"
    rows.sort(key=lambda row: (row["run"], row[name] is None, sign * (row[name] or 0.0)))
    columns = (
        Column("run", "run"), Column("candidate", "candidate", "int"), Column("rank", "place before training", "int"), Column("score", "score", "num"),
        _metric_column(metric), Column("valid_auc", "validation AUC", "loss"),
        Column("seeds", "seeds", "int"), Column("params", "parameters", "int"), Column("flops", f"FLOPs per {example_word(runs)}", "num"),
        Column("seconds", "training", "seconds"), Column("chosen", "chosen"), Column("failed", "why it failed"),
    )  # fmt: skip
    best = "lowest" if metric.direction == "min" else "highest"
    note = (
        f"Trained from scratch and judged on validation {example_word(runs)}s. The {best} is chosen, and it alone is evaluated on test. "
        "Being the best of several, its validation figure flatters it."
    )
    votes = [ranking for run in runs if run.trained and (ranking := Ranking(run)).is_vote]
    if votes:
        note += f" The place before training is that in the vote of {votes[0].voices}."
    return Table("trained", "Candidates that were trained", columns, rows, note)


def truth(runs: Sequence[Run]) -> Table:
    """One row per trained candidate and score: the score and what the network reached on validation."""
    rows: list[Row] = []
    metric = judged_by(runs)
    for run in runs:
        for arch in run.trained_archs:
            candidate, reached = run.first_by_key.get(arch.key), arch.mean(metric.name)
            if candidate is None or reached is None:
                continue
            for proxy, (score, direction) in _scores(run, candidate).items():
                rows.append(
                    {"run": run.label, "share": run.share, "proxy": proxy, "direction": direction, "key": arch.key, "score": score,
                     f"valid_{metric.name}": reached, "params": arch.cost.get("params")}
                )  # fmt: skip
    columns = (
        Column("run", "run"), Column("share", "warm-up", "share"), Column("proxy", "proxy"), Column("key", "architecture"),
        Column("score", "score", "num"), _metric_column(metric), Column("params", "parameters", "int"),
    )  # fmt: skip
    note = "Only the candidates that were trained, which are the best before training: within such a narrow choice a proxy ranks worse than over the whole space."
    return Table("truth", f"Score against trained {METRIC_NAMES[metric.name]}", columns, rows, note, _judge(metric))


def _scores(run: Run, candidate: Candidate) -> dict[str, tuple[float, str]]:
    """Scores of a candidate with their directions; in a vote its place comes first, then the voices."""
    ranking, found = Ranking(run), {}
    if ranking.is_vote and candidate.index in ranking.places:
        found[PLACE] = (float(ranking.places[candidate.index]), "min")
    for name, score in candidate.scores.items():
        if name in run.manifest.directions and not is_stand_in(candidate, name):
            found[name] = (score.value, str(run.manifest.directions[name]))
    return found


def _judge(metric: MetricFacts) -> Row:
    """For drawings: which column holds what networks reached, and how it is called."""
    column = _metric_column(metric)
    return {"judge": column.name, "judge_title": column.title, "judge_kind": column.kind, "judge_way": metric.direction}


def truth_summary(points: Table, tables: Sequence[Correlations] = ()) -> Table:
    """Rank correlation of each proxy with the truth at each warm-up; +1 is a perfect ranking."""
    rows: list[Row] = []
    judge, way = points.more["judge"], -1.0 if points.more["judge_way"] == "min" else 1.0
    for panel in dict.fromkeys((row["run"], row["share"], row["proxy"]) for row in points.rows):
        mine = [row for row in points.rows if (row["run"], row["share"], row["proxy"]) == panel]
        sign = -1.0 if mine[0]["direction"] == "min" else 1.0
        ranked = rank_correlation([sign * row["score"] for row in mine], [way * row[judge] for row in mine])
        rows.append(dict(zip(("run", "share", "proxy"), panel)) | ranked.to_dict())
    for table in tables:
        rows += [{**row, "run": row.get("run") or table.path.name, "share": row.get("share")} for row in table.rows]
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
    """Validation metric against FLOPs of everything that was trained; `front` marks what nothing beats in both."""
    rows: list[Row] = []
    metric = judged_by(runs)
    judge = f"valid_{metric.name}"
    compared_ids = {row.id for run in runs if run.board is not None for row in run.board.models}
    for run in runs:
        for arch in run.trained_archs:
            reached = arch.mean(metric.name)
            if arch.key in compared_ids or reached is None:
                continue  # the same network with more seeds is below
            what = "winner" if arch.key == run.winner_key else "sampled" if run.kind == "bench" else "candidate"
            rows.append(
                {"model": f"{run.label}: winner" if what == "winner" else arch.key, "what": what, "run": run.label,
                 "flops": arch.flops, "params": arch.cost.get("params"), judge: reached, f"{judge}_std": arch.std(metric.name)}
            )  # fmt: skip
        for model in run.board.models if run.board is not None else ():
            row = compared_row(run, model)
            if row["flops"] is not None and row.get(judge) is not None:
                names = ("model", "flops", "params", judge, f"{judge}_std")
                what = "searched" if model.searched else "baseline"
                rows.append({"what": what, "run": run.label, **{name: row[name] for name in names}})
    sign = 1.0 if metric.direction == "min" else -1.0
    _mark_front(rows, ("flops", judge), (1.0, sign))
    rows.sort(key=lambda row: (row["flops"], sign * row[judge]))
    word = example_word(runs)
    columns = (
        Column("model", "model"), Column("what", "what"), Column("flops", f"FLOPs per {word}", "num"), Column("params", "parameters", "int"),
        _metric_column(metric), Column("front", "on the front"), Column("run", "from"),
    )  # fmt: skip
    better = "Lower" if metric.direction == "min" else "Higher"
    note = f"FLOPs are two per multiply-add, for one {word}, by arithmetic. {better} and further left is better."
    if any(run.trained for run in runs):
        note += f" Shown on validation {word}s: of the candidates only the winner was evaluated on test."
    title = f"{METRIC_NAMES[metric.name].capitalize()} against cost"
    return Table("pareto", title, columns, rows, note, _judge(metric) | {"flops_title": f"FLOPs per {word}"})


def candidates(run: Run) -> Table:
    """Score and cost of every candidate, with the front of the two."""
    ranking = Ranking(run)
    rows: list[Row] = []
    for one in run.candidates:
        value = ranking.value(one)
        if value is not None and "macs" in one.cost and one.same_as is None:
            cost = {"flops": 2 * one.cost["macs"]} | one.cost
            rows.append({"number": one.index + 1, "key": one.key, "origin": one.origin, "value": value, **cost})
    lower = ranking.goal is not None and ranking.goal[1] == "min"
    _mark_front(rows, ("flops", "value"), (1.0, 1.0 if lower else -1.0))
    name = ranking.goal[0] if ranking.goal else "score"
    per = f"FLOPs per {example_word([run])}"
    columns = (
        Column("number", "candidate", "int"), Column("origin", "origin"), Column("value", name, "num"), Column("flops", per, "num"),
        Column("params", "parameters", "int"), Column("front", "on the front"),
    )  # fmt: skip
    failed = sum(one.failed is not None for one in run.candidates)
    dead = sum(ranking.goal is not None and is_stand_in(one, ranking.goal[0]) for one in run.candidates)
    note = f"{len(rows):,} different candidates; {failed} failed, {dead} had no live path and are not drawn. Candidates beyond a limit were never scored."
    if ranking.is_vote:
        note = f"{len(rows):,} different candidates, {failed} failed. Place 1 is the best in the vote of {ranking.voices}, which decided. Candidates beyond a limit were never scored."
    title = f"{'Place by vote' if ranking.is_vote else 'Score'} against cost: {run.label}"
    more = {"goal": name, "way": "min" if lower else "max", "flops_title": per}
    return Table("candidates", title, columns, rows, note, more)


def _mark_front(rows: list[Row], names: tuple[str, str], signs: tuple[float, float]) -> None:
    if rows:
        costs = np.array([[sign * row[name] for name, sign in zip(names, signs)] for row in rows], dtype=np.float64)
        for row, rank in zip(rows, fronts(costs)):
            row["front"] = bool(rank == 0)

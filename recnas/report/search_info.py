"""What happened during a search, as tables: terms of the score, the winner's ancestors, its training."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

from recnas.bench.correlation import rank_correlation
from recnas.report.outcome_info import LEAST_RANKED
from recnas.report.ranking import Ranking, is_stand_in
from recnas.report.stats import quantile
from recnas.report.table import Column, Row, Table
from recnas.runs.records import Candidate
from recnas.runs.run import Run
from recnas.space.nasrec.operators import fields_read

SIGEOS = ("sigeo", "sigeo_released", "sigeo_released_vision")
BINS = 40  # of the terms along the search
_FIRST = {  # how a winner without parents came about, by method; any other draws it at random
    "hnas": "chosen from a pool by training-free scores",
    "rank-pool": "chosen from a pool by training-free scores",
    "nasi": "the most likely one after all steps",
    "darts": "the strongest operations of the mixture",
}


def terms(run: Run) -> Table:
    """SiGeo's parts along the search: median and quartiles of equal stretches of candidates."""
    columns = (
        Column("proxy", "proxy"), Column("term", "term"), Column("evaluations", "candidates", "int"), Column("n", "n", "int"),
        Column("median", "median", "num"), Column("low", "lower quartile", "num"), Column("high", "upper quartile", "num"),
    )  # fmt: skip
    rows: list[Row] = []
    for proxy in SIGEOS:
        scored = [
            (number, one.scores[proxy])
            for number, one in enumerate(run.candidates, start=1)
            if proxy in one.scores and not is_stand_in(one, proxy)
        ]
        names = list(dict.fromkeys(name for _, score in scored for name in score.terms))
        size = max(1, -(-len(scored) // BINS))
        for name in names:
            for start in range(0, len(scored), size):
                part = scored[start : start + size]
                values = sorted(score.terms[name] for _, score in part if name in score.terms)
                if values:
                    rows.append(
                        {"proxy": proxy, "term": name, "evaluations": part[-1][0], "n": len(values), "median": quantile(values, 0.5),
                         "low": quantile(values, 0.25), "high": quantile(values, 0.75)}
                    )  # fmt: skip
    note = "Each point is the median of a stretch of candidates, the band its middle half."
    if Ranking(run).is_vote:
        note += f" SiGeo is one of {len(run.objectives)} voices in the vote that decides."
    return Table("terms", "Terms of SiGeo along the search", columns, rows, note)


def term_summary(run: Run) -> Table:
    """Which term decides: its spread over candidates and how it ranks them compared with the whole score."""
    columns = (
        Column("proxy", "proxy"), Column("term", "term"), Column("first", "mean of first tenth", "num"),
        Column("last", "mean of last tenth", "num"), Column("std", "std over candidates", "num"),
        Column("spearman", "rank correlation with the score", "corr"), Column("interval", "95 % interval", "corr"), Column("n", "candidates", "int"),
    )  # fmt: skip
    rows: list[Row] = []
    for proxy in SIGEOS:
        scores = [one.scores[proxy] for one in run.candidates if proxy in one.scores and not is_stand_in(one, proxy)]
        for name in dict.fromkeys(name for score in scores for name in score.terms):
            pairs = [(score.terms[name], score.value) for score in scores if name in score.terms]
            tenth = max(1, len(pairs) // 10)
            enough = len(pairs) >= LEAST_RANKED
            ranked = rank_correlation(
                [a for a, _ in pairs] if enough else [], [b for _, b in pairs] if enough else [], resamples=200
            )
            rows.append(
                {"proxy": proxy, "term": name, "first": fmean(a for a, _ in pairs[:tenth]), "last": fmean(a for a, _ in pairs[-tenth:]),
                 "std": stdev([a for a, _ in pairs]) if len(pairs) > 1 else None, "spearman": ranked.spearman,
                 "interval": list(ranked.spearman_interval) if ranked.spearman_interval else None, "n": len(pairs)}
            )  # fmt: skip
    note = "A term that varies little compared with the others hardly moves the ranking. The loss enters with a minus."
    if any(row["n"] < LEAST_RANKED for row in rows):
        note += f" Fewer than {LEAST_RANKED} candidates are too few for a correlation."
    title = "Which term decides SiGeo, one voice of the vote" if Ranking(run).is_vote else "Which term decides"
    return Table("term_summary", title, columns, rows, note)


def family(run: Run) -> Table:
    """From the winner back to the random architecture it descends from, oldest first."""
    ranking = Ranking(run)
    columns = (
        Column("generation", "step", "int"), Column("number", "candidate", "int"), Column("origin", "origin"), Column("changes", "mutations", "int"),
        Column("value", ranking.goal[0] if ranking.goal else "value", "num"), Column("gain", "change", "num"), Column("what", "what changed"),
    )  # fmt: skip
    chain: list[Candidate] = []
    at = ranking.winner
    while at is not None and all(at.index != seen.index for seen in chain):
        chain.append(at)
        at = run.by_index.get(at.parents[0]) if at.parents else None
    rows: list[Row] = []
    before: Candidate | None = None
    for step, candidate in enumerate(reversed(chain)):
        value, earlier = ranking.value(candidate), ranking.value(before) if before else None
        gain = value - earlier if value is not None and earlier is not None else None
        changes = differences(before.arch, candidate.arch) if before else []
        rows.append(
            {"generation": step, "number": candidate.index + 1, "key": candidate.key, "origin": candidate.origin,
             "changes": candidate.changes, "value": value, "gain": gain,
             "what": _in_short(changes) if before else _FIRST.get(run.method, "drawn at random"), "every_change": "; ".join(changes)}
        )  # fmt: skip
        before = candidate
    better = "lower" if ranking.goal and ranking.goal[1] == "min" else "higher"
    note = f"Each row is the parent of the next; the last is the winner. {better.capitalize()} is better. A mutation of a part that nothing reads changes no figure."
    if ranking.is_vote:
        note += f" Places are those in the vote of {ranking.voices} over all {len(ranking.places):,} candidates."
    return Table("family", "How the winner came about", columns, rows, note)


def _in_short(changes: list[str], most: int = 4) -> str:
    """The first few; a mutation of many places would make a row as tall as the screen."""
    rest = len(changes) - most
    return "; ".join(changes[:most]) + (f"; and {rest} more" if rest > 0 else "")


def siblings(run: Run, ancestors: Table) -> Table:
    """The other children of every ancestor: what the search tried beside the line that won."""
    steps = {row["number"] - 1: row["generation"] for row in ancestors.rows}
    columns = (
        Column("generation", "step", "int"),
        Column("number", "candidate", "int"),
        Column("parent", "parent", "int"),
        Column("value", "value", "num"),
    )
    rows: list[Row] = []
    ranking = Ranking(run)
    for candidate in run.candidates:
        parent = next(iter(candidate.parents), None)
        value = ranking.value(candidate)
        if parent is not None and parent in steps and candidate.index not in steps and value is not None:
            rows.append(
                {
                    "generation": steps[parent] + 1,
                    "number": candidate.index + 1,
                    "parent": parent + 1,
                    "value": value,
                }
            )
    return Table("siblings", "Other children of the winner's ancestors", columns, rows)


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """What differs between two described architectures, block by block."""
    if "blocks" not in one or "blocks" not in other:
        return [] if one == other else [f"{one.get('arch', one)} to {other.get('arch', other)}"]
    found = []
    for b in range(max(len(one["blocks"]), len(other["blocks"]))):
        if b >= len(one["blocks"]) or b >= len(other["blocks"]):
            found.append(f"block {b + 1} {'added' if b >= len(one['blocks']) else 'removed'}")
            continue
        mine, theirs = one["blocks"][b], other["blocks"][b]
        parts = [
            f"{name} {_brief(mine.get(name))} to {_brief(theirs.get(name))}"
            for name in dict.fromkeys((*theirs, *mine))
            if mine.get(name) != theirs.get(name) and not _inert(name, mine, theirs)
        ]
        if parts:
            found.append(f"block {b + 1}: " + ", ".join(parts))
    rest = [name for name in dict.fromkeys((*one, *other)) if name != "blocks" and one.get(name) != other.get(name)]
    return found + [f"{name} {_brief(one.get(name))} to {_brief(other.get(name))}" for name in rest]


def _inert(name: str, *blocks: dict[str, Any]) -> bool:
    """Whether a field is read by no operator of these blocks."""
    ops = tuple(op for block in blocks for op in block.get("dense_ops", ()))
    return name in ("left", "right", "dense_in") and name not in fields_read(ops)


def _brief(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (list, tuple)):
        return "+".join(map(str, value))
    return str(value)


def curves(runs: Sequence[Run]) -> Table:
    """Training loss of winners and trainings, per seed."""
    rows: list[Row] = []
    for run in runs:
        for training in run.winner_trainings:
            name = f"{run.label}, seed {training.seed}"
            rows += [{"series": name, "step": step, "loss": loss} for step, loss in training.train_curve if loss]
    columns = (
        Column("series", "training"),
        Column("step", "step", "int"),
        Column("loss", "training log loss", "loss"),
    )
    note = "Mean loss of the batches since the point before."
    return Table("training_curve", "Training of the winner", columns, rows, note)

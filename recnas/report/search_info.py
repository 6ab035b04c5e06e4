"""What happened during a search, as tables: trajectory, terms of the score, the winner's ancestors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

from recnas.bench.correlation import rank_correlation
from recnas.report.kinds import vote_places
from recnas.report.outcome_info import LEAST_RANKED
from recnas.report.runs import SIGEOS, Run, is_degenerate
from recnas.report.stats import expected_best, quantile
from recnas.report.table import Column, Row, Table
from recnas.space.nasrec.operators import fields_read

BINS = 40  # of the terms along the search
RANDOM = "random"
_FIRST = {  # how a winner without parents came about, by method; any other draws it at random
    "hnas": "chosen from a pool by training-free figures",
    "top": "chosen from a pool by training-free figures",
    "nasi": "the most likely one after all steps",
    "darts": "the strongest operations of the mixture",
}
_TRAJECTORY = (
    Column("series", "series"),
    Column("evaluations", "candidates", "int"),
    Column("seconds", "scoring seconds", "seconds"),
    Column("best", "best so far"),
    Column("low", "lowest run"),
    Column("high", "highest run"),
    Column("random", "random"),
)


def trajectory(runs: Sequence[Run]) -> Table:
    """Best-so-far after each candidate, and after how many seconds of scoring.

    That is the best value of the first objective, or in a vote the best place that any candidate so far has in
    the vote over all candidates of these runs: a place among those at hand would change with every newcomer.
    Neither ever falls.

    Runs that differ in nothing but the seed are also averaged (`series` ending in "mean of"); a random search
    that was given is grey, else the expected best of n draws out of the random first population stands for it.
    """
    searches = [run for run in runs if run.kind == "search" and run.goal is not None]
    rows: list[Row] = []
    if not searches:
        return Table("trajectory", "Best score so far", _TRAJECTORY, [])
    ranked_by = [(run.goal, tuple(run.objectives) if run.is_vote else ()) for run in searches]
    most = max(ranked_by, key=ranked_by.count)
    kept = [run for run, by in zip(searches, ranked_by) if by == most]
    (goal, way), voices = most  # type: ignore[misc]
    values_of = _values(kept)
    groups: dict[str, list[tuple[Run, list[Row]]]] = {}
    for run in kept:
        mine = _best_so_far(run, values_of[run.label], way == "min")
        rows += mine
        groups.setdefault(_all_but_seed(run), []).append((run, mine))
    for members in groups.values():
        if len(members) > 1:
            rows += _mean_of(members)
    reference = "random search" if any(run.method == RANDOM for run in kept) else ""
    if not reference:
        drawn = [c for run in kept for c in run.candidates if c.get("origin") == "init"]
        values = [
            v
            for run in kept
            for c, v in zip(run.candidates, values_of[run.label])
            if c.get("origin") == "init" and v is not None
        ]
        if len(values) > 1:
            reference = f"expected best of n out of {len(values)} random candidates"
            each = fmean(c.get("seconds", 0.0) for c in drawn)
            rows += [
                {
                    "series": "random (expected)",
                    "evaluations": n,
                    "seconds": n * each,
                    "best": best,
                    "random": True,
                }
                for n, best in enumerate(expected_best(values, way == "min"), start=1)
            ]
    left_out = [run.label for run in searches if run not in kept]
    note = f"{goal}, {'lower' if way == 'min' else 'higher'} is better. Seconds are those of scoring, summed over workers."
    if voices:
        total = sum(value is not None for found in values_of.values() for value in found)
        note = (
            f"The vote of {', '.join(voices)} decides, none of them alone. Shown is the best place of any candidate so far in the "
            f"vote over all {total:,}; 1 is the best. Seconds are those of scoring, summed over workers."
        )
    if reference:
        note += f" Grey: {reference}."
    if left_out:
        note += f" Not shown, because they rank by something else: {', '.join(left_out)}."
    title = "Best place so far" if voices else "Best score so far"
    return Table("trajectory", title, _TRAJECTORY, rows, note, {"goal": goal, "way": way})


def _values(runs: Sequence[Run]) -> dict[str, list[float | None]]:
    """What each candidate of each run is shown by. Runs that vote alike vote together: places of one run alone
    could not be compared with those of another."""
    if len(runs) == 1 or not runs[0].is_vote:
        return {run.label: [run.value(candidate) for candidate in run.candidates] for run in runs}
    places = iter(vote_places([c for run in runs for c in run.candidates], runs[0].objectives))
    return {run.label: [next(places) for _ in run.candidates] for run in runs}


def _best_so_far(run: Run, values: Sequence[float | None], lower: bool) -> list[Row]:
    rows: list[Row] = []
    best: float | None = None
    seconds = 0.0
    for number, (candidate, value) in enumerate(zip(run.candidates, values), start=1):
        seconds += candidate.get("seconds", 0.0)
        if value is not None and (best is None or (value < best if lower else value > best)):
            best = value
        if best is not None:
            rows.append(
                {
                    "series": run.label,
                    "evaluations": number,
                    "seconds": seconds,
                    "best": best,
                    "random": run.method == RANDOM,
                }
            )
    return rows


def _mean_of(members: Sequence[tuple[Run, list[Row]]]) -> list[Row]:
    name = f"mean of {len(members)} ({members[0][0].method})"
    found = []
    by_number = [{row["evaluations"]: row for row in mine} for _, mine in members]
    for number in by_number[0]:
        if all(number in other for other in by_number):
            at = [other[number] for other in by_number]
            bests = [row["best"] for row in at]
            found.append(
                {"series": name, "evaluations": number, "seconds": fmean(row["seconds"] for row in at), "best": fmean(bests),
                 "low": min(bests), "high": max(bests), "random": members[0][0].method == RANDOM}
            )  # fmt: skip
    return found


def _all_but_seed(run: Run) -> str:
    return json.dumps({name: value for name, value in run.config.items() if name != "seed"}, sort_keys=True)


def terms(run: Run) -> Table:
    """SiGeo's parts along the search: median and quartiles of equal stretches of candidates."""
    columns = (
        Column("proxy", "proxy"), Column("term", "term"), Column("evaluations", "candidates", "int"), Column("n", "n", "int"),
        Column("median", "median", "num"), Column("low", "lower quartile", "num"), Column("high", "upper quartile", "num"),
    )  # fmt: skip
    rows: list[Row] = []
    for proxy in SIGEOS:
        scored = [
            (number, c["scores"][proxy])
            for number, c in enumerate(run.candidates, start=1)
            if proxy in (c.get("scores") or {}) and not is_degenerate(c, proxy)
        ]
        names = list(dict.fromkeys(name for _, score in scored for name in score.get("terms") or {}))
        size = max(1, -(-len(scored) // BINS))
        for name in names:
            for start in range(0, len(scored), size):
                part = scored[start : start + size]
                values = sorted(
                    score["terms"][name] for _, score in part if name in (score.get("terms") or {})
                )
                if values:
                    rows.append(
                        {"proxy": proxy, "term": name, "evaluations": part[-1][0], "n": len(values), "median": quantile(values, 0.5),
                         "low": quantile(values, 0.25), "high": quantile(values, 0.75)}
                    )  # fmt: skip
    note = "Each point is the median of a stretch of candidates, the band its middle half."
    if run.is_vote:
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
        found = [
            c["scores"][proxy]
            for c in run.candidates
            if proxy in (c.get("scores") or {}) and not is_degenerate(c, proxy)
        ]
        for name in dict.fromkeys(name for score in found for name in score.get("terms") or {}):
            pairs = [(score["terms"][name], score["value"]) for score in found if name in score["terms"]]
            tenth = max(1, len(pairs) // 10)
            enough = len(pairs) >= LEAST_RANKED
            ranked = rank_correlation([a for a, _ in pairs] if enough else [], [b for _, b in pairs] if enough else [], resamples=200)
            rows.append(
                {"proxy": proxy, "term": name, "first": fmean(a for a, _ in pairs[:tenth]), "last": fmean(a for a, _ in pairs[-tenth:]),
                 "std": stdev([a for a, _ in pairs]) if len(pairs) > 1 else None, "spearman": ranked.spearman,
                 "interval": list(ranked.spearman_interval) if ranked.spearman_interval else None, "n": len(pairs)}
            )  # fmt: skip
    note = "A term that varies little compared with the others hardly moves the ranking. The loss enters with a minus."
    if any(row["n"] < LEAST_RANKED for row in rows):
        note += f" Fewer than {LEAST_RANKED} candidates are too few for a correlation."
    title = "Which term decides SiGeo, one voice of the vote" if run.is_vote else "Which term decides"
    return Table("term_summary", title, columns, rows, note)


def family(run: Run) -> Table:
    """From the winner back to the random architecture it descends from, oldest first."""
    columns = (
        Column("generation", "step", "int"), Column("number", "candidate", "int"), Column("origin", "origin"), Column("changes", "mutations", "int"),
        Column("value", run.goal[0] if run.goal else "value", "num"), Column("gain", "change", "num"), Column("what", "what changed"),
    )  # fmt: skip
    chain: list[dict[str, Any]] = []
    at = run.winner
    while at is not None and all(at["index"] != seen["index"] for seen in chain):
        chain.append(at)
        parents = at.get("parents") or []
        at = run.by_index.get(parents[0]) if parents else None
    rows: list[Row] = []
    before: dict[str, Any] | None = None
    for step, candidate in enumerate(reversed(chain)):
        value, earlier = run.value(candidate), run.value(before) if before else None
        gain = value - earlier if value is not None and earlier is not None else None
        changes = differences(before["arch"], candidate["arch"]) if before else []
        rows.append(
            {"generation": step, "number": candidate["index"] + 1, "key": candidate["key"], "origin": candidate.get("origin"),
             "changes": candidate.get("changes"), "value": value, "gain": gain,
             "what": _in_short(changes) if before else _FIRST.get(run.method, "drawn at random"), "every_change": "; ".join(changes)}
        )  # fmt: skip
        before = candidate
    better = "lower" if run.goal and run.goal[1] == "min" else "higher"
    note = f"Each row is the parent of the next; the last is the winner. {better.capitalize()} is better. A mutation of a part that nothing reads changes no figure."
    if run.is_vote:
        note += f" Places are those in the vote of {', '.join(run.objectives)} over all {len(run.places):,} candidates."
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
    for candidate in run.candidates:
        parent = next(iter(candidate.get("parents") or []), None)
        value = run.value(candidate)
        if parent is not None and parent in steps and candidate["index"] not in steps and value is not None:
            rows.append(
                {
                    "generation": steps[parent] + 1,
                    "number": candidate["index"] + 1,
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
            for name in theirs
            if mine.get(name) != theirs.get(name) and not _inert(name, mine, theirs)
        ]
        if parts:
            found.append(f"block {b + 1}: " + ", ".join(parts))
    return found


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
        for event in run.best_events:
            name = f"{run.label}, seed {event['seed']}"
            rows += [
                {"series": name, "step": step, "loss": loss}
                for step, loss in event.get("train_curve") or []
                if loss
            ]
    columns = (
        Column("series", "training"),
        Column("step", "step", "int"),
        Column("loss", "training log loss", "loss"),
    )
    note = "Mean loss of the batches since the point before."
    return Table("training_curve", "Training of the winner", columns, rows, note)

"""How far searches had come after each candidate, as a table: the best so far."""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import fmean

from recnas.report.ranking import Ranking, vote_places
from recnas.report.stats import expected_best
from recnas.report.table import Column, Row, Table
from recnas.runs.run import Run

RANDOM = "random"
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
    searches = [ranking for run in runs if run.is_search and (ranking := Ranking(run)).goal is not None]
    rows: list[Row] = []
    if not searches:
        return Table("trajectory", "Best score so far", _TRAJECTORY, [])
    ranked_by = [(ranking.goal, ranking.voices if ranking.is_vote else "") for ranking in searches]
    most = max(ranked_by, key=ranked_by.count)
    shown = [ranking for ranking, by in zip(searches, ranked_by) if by == most]
    kept = [ranking.run for ranking in shown]
    (goal, way), voices = most  # type: ignore[misc]
    values_of = _values(shown)
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
        drawn = [one for run in kept for one in run.candidates if one.origin == "init"]
        values = [
            value
            for run in kept
            for one, value in zip(run.candidates, values_of[run.label])
            if one.origin == "init" and value is not None
        ]
        if len(values) > 1:
            reference = f"expected best of n out of {len(values)} random candidates"
            each = fmean(one.seconds for one in drawn)
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
    left_out = [ranking.run.label for ranking in searches if ranking not in shown]
    note = (
        f"{goal}, {'lower' if way == 'min' else 'higher'} is better. Seconds are those of scoring, summed over workers."
    )
    if voices:
        total = sum(value is not None for found in values_of.values() for value in found)
        note = (
            f"The vote of {voices} decides, none of them alone. Shown is the best place of any candidate so far in the "
            f"vote over all {total:,}; 1 is the best. Seconds are those of scoring, summed over workers."
        )
    if reference:
        note += f" Grey: {reference}."
    if left_out:
        note += f" Not shown, because they rank by something else: {', '.join(left_out)}."
    title = "Best place so far" if voices else "Best score so far"
    return Table("trajectory", title, _TRAJECTORY, rows, note, {"goal": goal, "way": way})


def _values(rankings: Sequence[Ranking]) -> dict[str, list[float | None]]:
    """What each candidate of each run is shown by. Runs that vote alike vote together: places of one run alone
    could not be compared with those of another."""
    if len(rankings) == 1 or not rankings[0].is_vote:
        return {ranking.run.label: [ranking.value(one) for one in ranking.run.candidates] for ranking in rankings}
    runs = [ranking.run for ranking in rankings]
    places = iter(vote_places([one for run in runs for one in run.candidates], rankings[0].objectives))
    return {run.label: [next(places) for _ in run.candidates] for run in runs}


def _best_so_far(run: Run, values: Sequence[float | None], lower: bool) -> list[Row]:
    rows: list[Row] = []
    best: float | None = None
    seconds = 0.0
    for number, (candidate, value) in enumerate(zip(run.candidates, values), start=1):
        seconds += candidate.seconds
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

"""What a reader of a report might take for granted and must not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recnas.report.kinds import is_gradient
from recnas.report.ranking import Ranking
from recnas.runs.run import Run


def not_done(runs: Sequence[Run]) -> list[str]:
    """What was not done, one sentence each."""
    found: list[str] = []
    searches = [run for run in runs if run.is_search]
    compared = {row.id for run in runs if run.board is not None for row in run.board.models if len(row.seeds) > 1}
    for run in searches:
        label = f"{run.label}: " if len(runs) > 1 else ""
        found += [label + line for line in _of_search(run, run.winner_key in compared)]
    if searches and len({run.setting("seed") for run in searches}) == 1:
        found.append("The search was run with one seed; another would propose other candidates.")
    drawn = any(run.method == "random" for run in searches)
    if any(not is_gradient(run) for run in searches) and not drawn:
        found.append(
            "No random search of the same budget is in this report; the grey line is what the random first candidates let one expect."
        )
    alone = [run for run in searches if run.searches_clicks and not _raced_a_hand_crafted_one(run)]
    if alone and not any(run.kind == "compare" for run in runs):
        found.append("No hand-crafted model was trained on the same rows.")
    for run in runs:
        found += [f"{run.label}: {line}" for line in _of_comparison(run)]
    if any(run.searches_clicks and run.setting("limits.latency_ms_1") is None for run in searches):
        found.append("Latency was no objective and no limit of the search.")
    return list(dict.fromkeys(found))


def _raced_a_hand_crafted_one(run: Run) -> bool:
    race = run.result.race if run.result is not None else None
    return race is not None and race.hand_crafted is not None


def _of_search(run: Run, compared: bool) -> Iterator[str]:
    if not run.finished:
        yield "the run did not reach its end; every figure is of what was done until then."
    if run.task == "table":
        yield "nothing was trained here: accuracies are those of the benchmark's authors."
    elif is_gradient(run) and run.result is not None:
        known = "; its accuracies are those of the benchmark's authors" if run.result.test else ""
        yield f"the network it chose was not trained{known}."
    if run.trainings_asked:
        yield from _of_finalists(run, compared)
    if run.races and run.result is not None:
        yield from _of_race(run, compared)
    if run.share is not None and run.share < 1:
        yield (
            f"the supernet saw {100 * run.share:g} % of the training rows; no other share was tried."
            if run.share
            else "scores are zero-shot: the supernet was not trained at all."
        )
    if run.result is not None and run.searches_clicks:
        yield "only the winner was evaluated on test, once, after its last training; no other candidate has a test figure."
    elif run.result is not None and run.result.test:
        yield "only the winner's test accuracy was looked at, once, at the end."


def _of_finalists(run: Run, compared: bool) -> Iterator[str]:
    """`compared`: a comparison trained the winner with several seeds."""
    seeds = run.setting("final.retrain_seeds") if run.searches_clicks else 1
    if seeds == 1 and not compared:
        yield "the winner was trained with one seed; how much another seed would differ was not measured."
    if run.setting("final.seeds") == 1:
        yield "each trained candidate got one seed, so part of the choice among them is luck."
    if run.candidates:
        by = "vote" if Ranking(run).is_vote else "score"
        yield (
            f"only the best {run.setting('final.candidates')} of {len(run.candidates):,} candidates by {by} were trained; "
            "a good one with a bad score would have been missed."
        )
    if rows := run.setting("final.rows"):
        yield f"candidates were trained on the first {rows:,} rows, not on all."


def _of_race(run: Run, compared: bool) -> Iterator[str]:
    race = run.result.race if run.result is not None else None
    if len(run.winner_trainings) == 1 and not compared:
        yield "the winner was trained with one seed; how much another seed would differ was not measured."
    if race is None:
        return
    yield (
        f"{race.architectures} architectures were trained at all, and {race.whole} trainings came beyond the last rung; what is slow at first drops out."
    )
    if race.cut:
        yield f"the budget of the race ended {race.cut} trainings before validation did."


def _of_comparison(run: Run) -> Iterator[str]:
    board = run.board
    if board is None:
        return
    if not board.tune:
        yield "no model was tuned; each has its default settings."
    if len(board.seeds) < 3:
        yield f"{len(board.seeds)} seed(s) say little about the spread."
    yield from (f"{name} failed: {why}" for name, why in board.failed.items())
    yield from (f"{name} was left out: {why}" for name, why in board.skipped.items())

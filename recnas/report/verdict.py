"""The outcome in one sentence with its interval, and the sentences that qualify it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from recnas.bench.floor import GUESS, NOT_BETTER, not_better
from recnas.bench.intervals import mean_interval, t_point
from recnas.bench.verdict import decidable_lines
from recnas.report.advice import compare_command
from recnas.report.headline import floor_lines, headline
from recnas.report.kinds import is_gradient, unit_of
from recnas.report.last_lines import accuracies
from recnas.report.ranking import Ranking
from recnas.report.stats import auc_interval
from recnas.report.table import Row, Table, number
from recnas.runs.read import Correlations
from recnas.runs.run import Run
from recnas.runs.search_result import SearchResult


@dataclass(frozen=True)
class Verdict:
    sentence: str
    more: tuple[str, ...] = ()


def verdict(runs: Sequence[Run], board: Table, summary: Table, tables: Sequence[Correlations] = ()) -> Verdict:
    """Judge by the comparison if there is one, else by the searches, else by what there is."""
    compared = [(run.board, said) for run in runs if run.board is not None and (said := headline(run.board))]
    searches = [run for run in runs if run.is_search]
    more = [line for run in searches if (line := _unfinished(run))] if len(runs) > 1 else []
    if contests := [run.contest.verdict for run in runs if run.contest is not None]:
        return Verdict(_sentence(contests[0]), (*map(_sentence, contests[1:]), *(said for _, said in compared), *more))
    if compared:
        floor = [line for judged, _ in compared for line in floor_lines(judged)]
        others = [said for _, said in compared[1:]]
        return Verdict(compared[0][1], (*floor, *others, *_of_the_board(board), *more))
    done = [(run, run.result) for run in searches if run.result is not None]
    if len(done) > 1:
        on_clicks = all(run.searches_clicks for run, _ in done)
        said = _several(done) if on_clicks else _several_by_accuracy(done)
        return Verdict(said, (*(_single(*one) for one in done), *more))
    if done:
        ((run, result),) = done
        open_question = [_not_compared(run, result)] if run.searches_clicks else []
        open_question += [f"{_sentence(line)}." for line in decidable_lines(run.manifest.decidable)]
        raced = None if result.race is None else result.race.verdict
        if raced is not None:
            return Verdict(f"{_sentence(raced)}.", (_single(run, result), *more, *open_question))
        return Verdict(_single(run, result), (*more, *open_question))
    if searches:
        lines = [line for run in searches if (line := _unfinished(run))]
        return Verdict(lines[0], tuple(lines[1:]))
    if board.rows:
        best = board.rows[0]
        below = not_better(best["test_normalized_entropy"]) if best.get("test_normalized_entropy") is not None else None
        warned = f" It is {below}." if below else ""
        return Verdict(f"{best['model']} reaches test log loss {_figure(best)}; nothing is compared with it.{warned}")
    if summary.rows:
        return Verdict(_best_proxy(summary))
    kinds = ", ".join(dict.fromkeys(run.kind for run in runs)) or "file"
    return Verdict(f"There is no verdict: the {kinds} given here holds no model that was read on test.")


def _sentence(said: str) -> str:
    return said[:1].upper() + said[1:]


def _of_the_board(board: Table) -> list[str]:
    first, reference = board.rows[0], board.more["reference"]
    lines = [f"Lowest mean test log loss: {first['model']}, {_figure(first)}."]
    others = [row for row in board.rows if row.get("verdict") in ("better", "worse", "no real difference")]
    for word in ("better", "no real difference", "worse"):
        named = [row["model"] for row in others if row["verdict"] == word]
        if named:
            what = {
                "better": "Better than",
                "worse": "Worse than",
                "no real difference": "No real difference to",
            }[word]
            lines.append(f"{what} {reference}: {', '.join(named)}.")
    if len(others) > 1:
        lines.append(
            f"Each interval is for one comparison; of {len(others)} made here, chance alone can make one look real."
        )
    return lines


def _single(run: Run, result: SearchResult) -> str:
    """One finished search."""
    if not run.searches_clicks:
        return _single_by_accuracy(run, result)
    test = result.test
    interval = mean_interval(run.test_losses)
    if interval:
        spread = f" (95 % interval {interval[0]:.5f} to {interval[1]:.5f} over {len(run.test_losses)} training seeds)"
    else:
        spread = " (one training seed, so its spread is not known)"
    said = f"The winner of {run.label} reaches test log loss {test['logloss']:.5f}{spread}"
    auc = test.get("auc")
    if auc is not None:
        said += f", AUC {auc:.5f}{_auc_spread(run, auc)}"
    entropy = test.get("normalized_entropy")
    if below := not_better(entropy):  # said first: whatever else is true of it matters less
        said = f"The winner of {run.label} is {below}. It" + said.removeprefix(f"The winner of {run.label}")
    else:
        said += f", better than {GUESS} ({entropy:.3f} times that loss)"
    params = result.winner.cost.get("params")
    return said + "." + (f" It has {params:,.0f} parameters." if params is not None else "")


def _single_by_accuracy(run: Run, result: SearchResult) -> str:
    if run.trainings_asked:
        return (
            f"The winner of {run.label} has test accuracy {result.test['accuracy']:.2f} % on images kept apart; validation chose it "
            f"from {len(result.finalists)} finalists out of {result.budget.scored:,} candidates."
        )
    shown = accuracies(result)
    if not shown:
        return f"{run.label} chose {result.winner.text or result.winner.key}; no table says how it does when trained."
    if is_gradient(run):
        how = f"in {result.budget.steps:,} steps, without a look at any accuracy"
    else:
        how = f"with {result.budget.scored:,} queries"
    return f"The winner of {run.label} has in its table the test accuracy in percent: {shown}. It was found {how}."


def _auc_spread(run: Run, auc: float) -> str:
    test = next((training.test for training in run.winner_trainings if training.test is not None), None)
    rows, clicks = (int((test or {}).get(name) or 0) for name in ("rows", "clicks"))
    interval = auc_interval(auc, clicks, rows - clicks) if rows else None
    if interval is None:
        return ""
    return f" (95 % interval {interval[0]:.5f} to {interval[1]:.5f} over {rows:,} test rows)"


def _several(done: Sequence[tuple[Run, SearchResult]]) -> str:
    losses = {run.label: loss for run, result in done if (loss := result.test.get("logloss")) is not None}
    low = min(losses, key=lambda label: losses[label])
    below = [run.label for run, result in done if not_better(result.test.get("normalized_entropy"))]
    named = f"winner of {below[0]} is" if len(below) == 1 else f"winners of {', '.join(below)} are"
    floor = f" The {named} {NOT_BETTER}." if below else ""
    groups: dict[bool, list[float]] = {True: [], False: []}
    for run, _ in done:
        groups[run.method == "random"].append(losses[run.label])
    if groups[True] and groups[False]:
        gap = fmean(groups[False]) - fmean(groups[True])
        return (
            f"Searched winners {'beat' if gap < 0 else 'do not beat'} those of random search: {gap:+.5f} mean test log loss"
            f"{_gap_spread(groups[False], groups[True])}; the lowest is {losses[low]:.5f} ({low}).{floor}"
        )
    interval = mean_interval(list(losses.values()))
    assert interval is not None
    return (
        f"The winners of {len(losses)} searches reach test log loss {fmean(losses.values()):.5f} on average "
        f"(95 % interval {interval[0]:.5f} to {interval[1]:.5f}); the lowest is {losses[low]:.5f} ({low}).{floor}"
    )


def _several_by_accuracy(done: Sequence[tuple[Run, SearchResult]]) -> str:
    """Accuracies by method; of a table with several data sets those on the first."""
    data = next((name for _, result in done for name in result.test), None)
    if data is None:
        return " ".join(_single(*one) for one in done)
    by_method: dict[str, list[float]] = {}
    for run, result in done:
        value = result.test.get(data)
        if value is not None:
            spent = f"{run.proposed:,} {unit_of(run)}"
            by_method.setdefault(f"{run.method}, {spent}", []).append(value)
    order = sorted(by_method, key=lambda name: -fmean(by_method[name]))
    parts = [
        f"{fmean(by_method[name]):.2f} % ({name}, {len(by_method[name])} search{'es' * (len(by_method[name]) > 1)})"
        for name in order
    ]
    where = "" if data == "accuracy" else f" on {data}"
    return f"Mean test accuracy{where} of what the searches chose: {'; '.join(parts)}."


def _gap_spread(one: Sequence[float], other: Sequence[float]) -> str:
    """Welch's interval of a difference of means, with the smaller sample's degrees of freedom: on the wide side."""
    if len(one) < 2 or len(other) < 2:
        return f" (no interval: {len(one)} and {len(other)} searches)"
    error = math.sqrt(variance(one) / len(one) + variance(other) / len(other))
    few = min(len(one), len(other))
    half = t_point(few - 1) * error
    gap = fmean(one) - fmean(other)
    return f" (95 % interval {gap - half:+.5f} to {gap + half:+.5f}; {len(one)} and {len(other)} searches)"


def _unfinished(run: Run) -> str:
    if run.finished:
        return ""
    total, unit = run.manifest.proposals, unit_of(run)
    done = f"{run.proposed:,}" + (f" of {total:,} {unit}" if total else f" {unit}")
    said = f"{run.label} stopped before its end, so there is no verdict: {done} were done"
    if run.trainings_asked:
        said += f", {len(run.trained)} of {run.trainings_asked} trainings"
    said += ", test was not read"
    ranking = Ranking(run)
    best, goal = ranking.best, ranking.goal
    if best is not None and ranking.is_vote:
        said += f". Candidate {best.index + 1} leads the vote of {ranking.voices} so far (a vote on scores; it says nothing about the loss yet)"
    elif best is not None and best.values is not None and goal is not None:
        said += f". Best by {goal[0]} so far: candidate {best.index + 1}, {number(best.values[goal[0]])}"
        if run.setting("evaluator") == "proxy":
            said += f" (a score, not {'a loss' if run.metric.name == 'logloss' else 'an accuracy'}; it has no interval)"
    return said + "."


def _not_compared(run: Run, result: SearchResult) -> str:
    if result.race is not None and result.race.hand_crafted is not None:
        return (
            "That is about validation rows, which also chose both; on test nothing has been compared with the winner "
            f"yet: {compare_command(run)}"
        )
    return f"It has not been compared with a hand-crafted model on the same rows yet: {compare_command(run)}"


def _best_proxy(summary: Table) -> str:
    known = [row for row in summary.rows if row.get("spearman") is not None]
    if not known:
        why = next((f" ({row['reason']})" for row in summary.rows if row.get("reason")), "")
        return f"There is no verdict: no proxy could be ranked against the truth{why}."
    best = max(known, key=lambda row: row["spearman"])
    interval = best.get("spearman_interval")
    spread = f" (95 % interval {interval[0]:+.2f} to {interval[1]:+.2f}, {best['n']} architectures)" if interval else ""
    share = f" at {100 * best['share']:g} % warm-up" if best.get("share") is not None else ""
    return f"{best['proxy']} ranks trained networks best{share}: Spearman {best['spearman']:+.2f}{spread}; +1 is a perfect ranking."


def _figure(row: Row) -> str:
    spread = row.get("interval")
    if spread:
        return f"{row['test_logloss']:.5f} (95 % interval {spread[0]:.5f} to {spread[1]:.5f} over {row['seeds']} seeds)"
    return f"{row['test_logloss']:.5f} (one seed, no interval)"

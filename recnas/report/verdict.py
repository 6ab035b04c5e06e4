"""The outcome in one sentence with its interval, and the sentences that qualify it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Any

from recnas.bench.floor import GUESS, NOT_BETTER, not_better
from recnas.report.headline import floor_lines, headline
from recnas.report.kinds import total_of, unit_of
from recnas.report.runs import Correlations, Run
from recnas.report.stats import auc_interval, mean_interval, t_point
from recnas.report.table import Row, Table, number


@dataclass(frozen=True)
class Verdict:
    sentence: str
    more: tuple[str, ...] = ()


def verdict(
    runs: Sequence[Run], board: Table, summary: Table, tables: Sequence[Correlations] = ()
) -> Verdict:
    """Judge by the comparison if there is one, else by the searches, else by what there is."""
    compared = [(run.board, said) for run in runs if run.board and (said := headline(run.board))]
    searches = [run for run in runs if run.kind == "search"]
    more = [line for run in searches if (line := _unfinished(run))] if len(runs) > 1 else []
    if compared:
        floor = [line for judged, _ in compared for line in floor_lines(judged)]
        others = [said for _, said in compared[1:]]
        return Verdict(compared[0][1], (*floor, *others, *_of_the_board(board), *more))
    done = [run for run in searches if run.finished]
    if len(done) > 1:
        if not all(run.on_clicks for run in done):
            return Verdict(_several_on_tables(done), (*map(_single, done), *more))
        return Verdict(_several(done), (*map(_single, done), *more))
    if done:
        return Verdict(_single(done[0]), (*more, *([_not_compared(done[0])] if done[0].on_clicks else [])))
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


def _single(run: Run) -> str:
    """One finished search."""
    result = run.result or {}
    test, best = result.get("test") or {}, result.get("best") or {}
    if "test_accuracy" in result:
        figures = ", ".join(f"{name} {value:.2f} %" for name, value in result["test_accuracy"].items() if value is not None)
        if not figures:
            return f"{run.label} chose {best.get('arch')}; no table says how it does when trained."
        where = "in its table" if result.get("best_possible") else "on images kept apart"
        steps = result["budgets"].get("steps")
        how = f"in {steps:,} steps, without a look at any accuracy" if steps else f"with {result['budgets']['scored']} queries"
        return f"The winner of {run.label} has test accuracy {figures} {where}, found {how}."
    losses = [event["test"]["logloss"] for event in run.best_events if "test" in event]
    interval = mean_interval(losses)
    if interval:
        spread = f" (95 % interval {interval[0]:.5f} to {interval[1]:.5f} over {len(losses)} training seeds)"
    else:
        spread = " (one training seed, so its spread is not known)"
    said = f"The winner of {run.label} reaches test log loss {test['logloss']:.5f}{spread}"
    if test.get("auc") is not None:
        said += f", AUC {test['auc']:.5f}{_auc_spread(run, test['auc'])}"
    entropy = test.get("normalized_entropy")
    if below := not_better(entropy):  # said first: whatever else is true of it matters less
        said = f"The winner of {run.label} is {below}. It" + said.removeprefix(f"The winner of {run.label}")
    else:
        said += f", better than {GUESS} ({entropy:.3f} times that loss)"
    params = f" It has {best['params']:,} parameters." if best.get("params") is not None else ""
    return said + "." + params


def _auc_spread(run: Run, auc: float) -> str:
    event: dict[str, Any] = next((e["test"] for e in run.best_events if "test" in e), {})
    if not event.get("rows") or event.get("clicks") is None:
        return ""
    found = auc_interval(auc, event["clicks"], event["rows"] - event["clicks"])
    return (
        f" (95 % interval {found[0]:.5f} to {found[1]:.5f} over {event['rows']:,} test rows)" if found else ""
    )


def _several(runs: Sequence[Run]) -> str:
    losses = {run.label: run.result["test"]["logloss"] for run in runs if run.result}
    low = min(losses, key=lambda label: losses[label])
    below = [run.label for run in runs if run.result and not_better(run.result["test"].get("normalized_entropy"))]
    named = f"winner of {below[0]} is" if len(below) == 1 else f"winners of {', '.join(below)} are"
    floor = f" The {named} {NOT_BETTER}." if below else ""
    groups = {True: [], False: []}  # type: dict[bool, list[float]]
    for run in runs:
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


def _several_on_tables(runs: Sequence[Run]) -> str:
    """Accuracies on the first data set of the table, by method."""
    by_method: dict[str, list[float]] = {}
    data = next((name for run in runs for name in (run.result or {})["test_accuracy"]), None)
    if data is None:
        return " ".join(map(_single, runs))
    for run in runs:
        value = ((run.result or {}).get("test_accuracy") or {}).get(data)
        if value is not None:
            by_method.setdefault(f"{run.method}, {(run.result or {})['budgets']['scored']} queries", []).append(value)
    order = sorted(by_method, key=lambda name: -fmean(by_method[name]))
    parts = [f"{fmean(by_method[name]):.2f} % ({name}, {len(by_method[name])} search{'es' * (len(by_method[name]) > 1)})" for name in order]
    return f"Mean test accuracy on {data} of what the searches chose: {'; '.join(parts)}."


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
    final = run.config.get("final") or {}
    total, unit = total_of(run.config), unit_of(run.config)
    told = f"{len(run.candidates):,}" + (f" of {total:,} {unit}" if total else f" {unit}")
    said = f"{run.label} stopped before its end, so there is no verdict: {told} were done"
    if run.on_clicks:
        said += f", {len(run.trained)} of {final.get('top', 0) * final.get('seeds', 1)} trainings"
    said += ", test was not read"
    best = run.best_by_score
    if best is not None and run.is_vote:
        said += f". Candidate {best['index'] + 1} leads the vote of {', '.join(run.objectives)} so far (a vote on scores; it says nothing about the loss yet)"
    elif best is not None and run.goal is not None:
        said += f". Best by {run.goal[0]} so far: candidate {best['index'] + 1}, {number(best['values'][run.goal[0]])} (a score, not a loss; it has no interval)"
    return said + "."


def _not_compared(run: Run) -> str:
    return (
        "It has not been compared with a hand-crafted model on the same rows yet: "
        f"recnas compare --data {run.data.get('path', 'DATA')} --models dlrm deepfm dcn-v2 {run.path}:best --out runs/compare"
    )


def _best_proxy(summary: Table) -> str:
    known = [row for row in summary.rows if row.get("spearman") is not None]
    if not known:
        why = next((f" ({row['reason']})" for row in summary.rows if row.get("reason")), "")
        return f"There is no verdict: no proxy could be ranked against the truth{why}."
    best = max(known, key=lambda row: row["spearman"])
    interval = best.get("spearman_interval")
    spread = (
        f" (95 % interval {interval[0]:+.2f} to {interval[1]:+.2f}, {best['n']} architectures)"
        if interval
        else ""
    )
    share = f" at {100 * best['share']:g} % warm-up" if best.get("share") is not None else ""
    return f"{best['proxy']} ranks trained networks best{share}: Spearman {best['spearman']:+.2f}{spread}; +1 is a perfect ranking."


def _figure(row: Row) -> str:
    spread = row.get("interval")
    if spread:
        return f"{row['test_logloss']:.5f} (95 % interval {spread[0]:.5f} to {spread[1]:.5f} over {row['seeds']} seeds)"
    return f"{row['test_logloss']:.5f} (one seed, no interval)"

"""The outcome of a search in a few sentences."""

from __future__ import annotations

from typing import Any

from recnas.bench.floor import not_better
from recnas.progress import duration


def verdict(result: dict[str, Any]) -> str:
    best, budgets, seconds = result["best"], result["budgets"], result["seconds"]
    if result.get("method") in ("nasi", "darts"):
        return _of_a_supernet(result)
    if "test_accuracy" in result:
        return _of_a_table(result)
    spread = f" ± {result['test']['std']:.5f}" if result["test"]["std"] is not None else ""
    auc = f", AUC {result['test']['auc']:.5f}" if result["test"].get("auc") is not None else ""
    below = not_better(result["test"].get("normalized_entropy"))
    lines = [
        f"best: {best['key']}, {best['params']:,} parameters, {best['macs']:,} multiply-adds per row",
        f"test log loss {result['test']['logloss']:.5f}{spread}{auc} (validation, which chose it: {result['valid']['logloss']:.5f})",
        *([f"warning: the winner is {below}"] if below else []),
        f"candidate {best['index'] + 1} of {budgets['proposed']:,} proposed ({budgets['scored']:,} scored, "
        f"{budgets['trained']} trained from scratch); before that it had {_place(result)}",
        "time: " + ", ".join(f"{name} {duration(spent)}" for name, spent in seconds.items()),
    ]
    return "\n".join(lines)


def _place(result: dict[str, Any]) -> str:
    """Where it stood before any was trained, and by what: one score, a vote, or a front of compromises."""
    values, budgets = result["best"]["values"], result["budgets"]
    place = f"place {result['best']['rank'] + 1} of {budgets['scored'] - budgets['failed']:,}"
    if len(values) == 1:
        ((goal, value),) = values.items()
        return f"{place} by {goal} ({value:.5g})"
    joined = "by vote" if result.get("combine") == "vote" else "on the front"
    return f"{place} {joined} of {', '.join(values)}"


def _accuracies(result: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {value:.2f}" + (f" (of {result['best_possible'][name]:.2f})" if name in result["best_possible"] else "")
        for name, value in result["test_accuracy"].items()
        if value is not None
    )


def _of_a_supernet(result: dict[str, Any]) -> str:
    best, budgets = result["best"], result["budgets"]
    lines = [f"chosen: {best['arch']}, {best['params']:,} parameters, {best['macs']:,} multiply-adds"]
    if test := _accuracies(result):
        lines.append(f"test accuracy in percent, from the table: {test}; no accuracy was looked at before")
    lines.append(f"{result['method']}, {budgets['steps']:,} steps in {duration(sum(result['seconds'].values()))}")
    return "\n".join(lines)


def _of_a_table(result: dict[str, Any]) -> str:
    best, budgets = result["best"], result["budgets"]
    test = _accuracies(result)
    return "\n".join(
        [
            f"best: {best['arch']}, {best['params']:,} parameters",
            f"test accuracy in percent: {test} (validation, which chose it: {result['valid_accuracy']:.2f})",
            f"query {best['index'] + 1} of {budgets['scored']:,}, which stand for {budgets['epochs']:,} epochs of training",
        ]
    )

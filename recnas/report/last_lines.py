"""The outcome of a search in a few sentences."""

from __future__ import annotations

from recnas.bench.floor import not_better
from recnas.progress import duration
from recnas.report.kinds import GRADIENT
from recnas.report.race import race_lines
from recnas.runs.search_result import SearchResult


def verdict(result: SearchResult) -> str:
    if result.method in GRADIENT:
        return _of_a_supernet(result)
    if result.task == "table":
        return _of_a_table(result)
    winner, test = result.winner, result.test
    spread = f" ± {result.test_std:.5f}" if result.test_std is not None else ""
    if result.metric == "logloss":
        auc = f", AUC {test['auc']:.5f}" if test.get("auc") is not None else ""
        outcome = f"test log loss {test['logloss']:.5f}{spread}{auc} (validation, which chose it: {result.valid['logloss']:.5f})"
        below = not_better(test.get("normalized_entropy"))
    else:
        outcome = f"test accuracy {test['accuracy']:.2f} %{spread} (validation, which chose it: {result.valid['accuracy']:.2f} %)"
        below = None
    lines = [
        f"best: {winner.text or winner.key}, {winner.cost['params']:,.0f} parameters, {winner.cost['macs']:,.0f} multiply-adds",
        outcome,
        *([f"warning: the winner is {below}"] if below else []),
        *(race_lines(result) if result.race is not None else [_found(result)]),
        "time: " + ", ".join(f"{name} {duration(spent)}" for name, spent in result.seconds.items()),
    ]
    return "\n".join(lines)


def _found(result: SearchResult) -> str:
    winner, budget = result.winner, result.budget
    return (
        f"candidate {winner.index + 1} of {budget.proposed:,} proposed ({budget.scored:,} scored, "
        f"{budget.trained} trained from scratch); before that it had {_place(result)}"
    )


def _place(result: SearchResult) -> str:
    """Where it stood before any was trained, and by what: one score, a vote, or a front of compromises."""
    values, budget = result.winner.values or {}, result.budget
    place = f"place {result.winner.rank + 1} of {budget.scored - budget.failed:,}"
    if len(values) == 1:
        ((goal, value),) = values.items()
        return f"{place} by {goal} ({value:.5g})"
    joined = "by vote" if result.combine == "vote" else "on the front"
    return f"{place} {joined} of {', '.join(values)}"


def accuracies(result: SearchResult) -> str:
    """Test accuracies by data set, each with the best there is where that is known."""
    best = result.best_possible
    return ", ".join(
        f"{name} {value:.2f}" + (f" (of {best[name]:.2f})" if best.get(name) is not None else "")
        for name, value in result.test.items()
        if value is not None
    )


def _of_a_supernet(result: SearchResult) -> str:
    winner = result.winner
    lines = [
        f"chosen: {winner.text or winner.arch}, {winner.cost['params']:,.0f} parameters, "
        f"{winner.cost['macs']:,.0f} multiply-adds"
    ]
    if test := accuracies(result):
        lines.append(f"test accuracy in percent, from the table: {test}; no accuracy was looked at before")
    spent = duration(sum(result.seconds.values()))
    return "\n".join([*lines, f"{result.method}, {result.budget.steps:,} steps in {spent}"])


def _of_a_table(result: SearchResult) -> str:
    winner, budget = result.winner, result.budget
    return "\n".join(
        [
            f"best: {winner.text}, {winner.cost['params']:,.0f} parameters",
            f"test accuracy in percent: {accuracies(result)} (validation, which chose it: {result.valid['accuracy']:.2f})",
            f"query {winner.index + 1} of {budget.scored:,}, which stand for {budget.epochs:,.0f} epochs of training",
        ]
    )

"""A comparison in one sentence: the searched model against the best other one, and both against a constant guess."""

from __future__ import annotations

from recnas.bench.floor import NOT_BETTER, is_below
from recnas.report.table import two_digits
from recnas.runs.results import ComparedModel, Leaderboard, PairedDifference


def headline(board: Leaderboard) -> str | None:
    """None if there is only one model, or only models that failed."""
    pair = board.headline
    if pair is None:
        return None
    rows = {row.model: row for row in board.models}
    one, other = rows[pair.model], rows[pair.other]
    against = pair.other + (f", the best of the {len(rows) - 1} other models" if len(rows) > 2 else "")
    difference = pair.difference
    aside = "," if len(rows) > 2 else ""  # closes ", the best of the 3 other models"
    if _is_below(one):
        return _below(board, one, other, against + aside, difference)
    said = _compared(pair.model, against, aside, difference) + _cost(one, other)
    if _is_below(other):
        what = "says little" if difference.logloss < 0 else "is a warning"
        return f"{said}. But {pair.other} is itself {NOT_BETTER}, so this {what}."
    return said + "."


def _is_below(row: ComparedModel) -> bool:
    return is_below(row.value("test", "normalized_entropy").mean, row.to_guess.logloss_interval)


def floor_lines(board: Leaderboard) -> list[str]:
    """Which models are not better than the constant guess, and what that means for the reference."""
    below = [row.model for row in board.models if _is_below(row)]
    if not below:
        return []
    guess = board.guess.get("logloss")
    figure = f" (test log loss {guess:.5f})" if guess is not None else ""
    lines = [f"{', '.join(below)}: {NOT_BETTER}{figure}."]
    if board.reference in below:
        lines.append(f"The reference {board.reference} is among them: being better than it says little.")
    return lines


def _below(
    board: Leaderboard, one: ComparedModel, other: ComparedModel, against: str, difference: PairedDifference
) -> str:
    loss, guess = one.value("test", "logloss").mean, board.guess.get("logloss")
    figures = f" (test log loss {loss:.5f}" + (f"; the constant guess has {guess:.5f})" if guess is not None else ")")
    said = f"{one.model} is {NOT_BETTER}{figures}"
    if _is_below(other):
        return f"{said}, and neither is {against.rstrip(',')}."
    gap = difference.logloss
    return f"{said}; {against} is, and has {abs(gap):.5f} {'less' if gap > 0 else 'more'} test log loss."


def _compared(name: str, against: str, aside: str, difference: PairedDifference) -> str:
    delta, ends = difference.logloss, difference.logloss_interval
    if ends[0] <= 0 <= ends[1]:
        return (
            f"There is no real difference between {name} and {against}: {delta:+.5f} test log loss "
            f"(95 % interval {ends[0]:+.5f} to {ends[1]:+.5f})"
        )
    sizes = sorted(map(abs, ends))
    word = "beats" if delta < 0 else "is worse than"
    return f"{name} {word} {against}{aside} by {abs(delta):.5f} test log loss (95 % interval {sizes[0]:.5f} to {sizes[1]:.5f})"


def _cost(one: ComparedModel, other: ComparedModel) -> str:
    """FLOPs as a ratio, and the latency of both where it was measured."""
    said = ""
    if one.flops and other.flops:
        said += f", at {two_digits(one.flops / other.flops)}× its FLOPs"
    times = [two_digits(row.latency["p50_ms_512"]) for row in (one, other) if row.latency is not None]
    if len(times) == 2:
        said += f" ({times[0]} ms against {times[1]} ms for a batch of 512)"
    return said

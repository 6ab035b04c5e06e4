"""A comparison in one sentence: the searched model against the best other one, and both against a constant guess."""

from __future__ import annotations

from recnas.bench.floor import GUESS, NOT_BETTER, floor_loss, is_below
from recnas.report.table import two_digits
from recnas.runs.records import PairedDifference
from recnas.runs.results import ComparedModel, Leaderboard


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
    rows = [row for row in board.models if _is_below(row)]
    chance = [row.model for row in rows if _is_chance(board, row)]
    worse = [row.model for row in rows if row.model not in chance]
    # The same for all models, but for the last digits: one row tells it as well as another.
    floor = _floor(board, rows[0]) if rows else None
    figure = f" (test log loss {floor:.5f})" if floor is not None else ""
    lines = []
    if worse:
        lines.append(f"{', '.join(worse)}: {NOT_BETTER}{figure}.")
    if chance:
        lines.append(f"{', '.join(chance)}: better than {GUESS}{'' if worse else figure} by no more than chance.")
    if board.reference in worse + chance:
        lines.append(f"The reference {board.reference} is among them: being better than it says little.")
    return lines


def _floor(board: Leaderboard, row: ComparedModel) -> float | None:
    loss, entropy = (row.value("test", name).mean for name in ("logloss", "normalized_entropy"))
    return floor_loss(loss, entropy, board.guess.get("logloss"))


def _is_chance(board: Leaderboard, row: ComparedModel) -> bool:
    """Whether a model that is below the floor has the smaller loss all the same: then it may be chance."""
    floor, loss = _floor(board, row), row.value("test", "logloss").mean
    return floor is not None and loss is not None and _is_below(row) and loss < floor


def _below(
    board: Leaderboard, one: ComparedModel, other: ComparedModel, against: str, difference: PairedDifference
) -> str:
    loss, floor = one.value("test", "logloss").mean, _floor(board, one)
    figures = f" (test log loss {loss:.5f}" + (
        f"; the best constant guess has {floor:.5f})" if floor is not None else ")"
    )
    said = f"{one.model} is {NOT_BETTER}{_by_chance(board, one)}{figures}"
    if _is_below(other):
        chance = _by_chance(board, other)
        return f"{said}, and neither is {against + chance if chance else against.rstrip(',')}."
    gap = difference.logloss
    return f"{said}; {against} is, and has {abs(gap):.5f} {'less' if gap > 0 else 'more'} test log loss."


def _by_chance(board: Leaderboard, row: ComparedModel) -> str:
    return " by more than chance" if _is_chance(board, row) else ""


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

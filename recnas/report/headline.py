"""A comparison in one sentence: the searched model against the best other one, and both against a constant guess."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recnas.bench.floor import GUESS, NOT_BETTER, floor_loss, is_chance, row_is_below
from recnas.report.table import two_digits

Board = Mapping[str, Any]  # what leaderboard.json holds


def headline(board: Board) -> str | None:
    """None if there is only one model, or only models that failed."""
    pair = board.get("headline")
    if not pair:
        return None
    rows = {row["model"]: row for row in board["models"]}
    one, other = rows[pair["model"]], rows[pair["other"]]
    against = pair["other"] + (f", the best of the {len(rows) - 1} other models" if len(rows) > 2 else "")
    difference = pair["difference"]
    aside = "," if len(rows) > 2 else ""  # closes ", the best of the 3 other models"
    if row_is_below(one):
        return _below(board, one, other, against + aside, difference)
    said = _compared(pair["model"], against, aside, difference) + _cost(one, other)
    if row_is_below(other):
        what = "says little" if difference["logloss"] < 0 else "is a warning"
        return f"{said}. But {pair['other']} is itself {NOT_BETTER}, so this {what}."
    return said + "."


def floor_lines(board: Board) -> list[str]:
    """Which models are not better than the constant guess, and what that means for the reference."""
    rows, guess = [row for row in board["models"] if row_is_below(row)], _guess(board)
    chance = [row["model"] for row in rows if is_chance(row, guess)]
    worse = [row["model"] for row in rows if row["model"] not in chance]
    # The same for all models, but for the last digits: one row tells it as well as another.
    floor = floor_loss(rows[0], guess) if rows else None
    figure = f" (test log loss {floor:.5f})" if floor is not None else ""
    lines = []
    if worse:
        lines.append(f"{', '.join(worse)}: {NOT_BETTER}{figure}.")
    if chance:
        lines.append(f"{', '.join(chance)}: better than {GUESS}{'' if worse else figure} by no more than chance.")
    if board.get("reference") in worse + chance:
        lines.append(f"The reference {board['reference']} is among them: being better than it says little.")
    return lines


def _guess(board: Board) -> float | None:
    return (board.get("guess") or {}).get("logloss")


def _below(board: Board, one: Mapping[str, Any], other: Mapping[str, Any], against: str, difference: Mapping[str, Any]) -> str:
    guess = _guess(board)
    loss, floor = one["test"]["logloss"]["mean"], floor_loss(one, guess)
    figures = f" (test log loss {loss:.5f}" + (f"; the best constant guess has {floor:.5f})" if floor is not None else ")")
    said = f"{one['model']} is {NOT_BETTER}{_by_chance(one, guess)}{figures}"
    if row_is_below(other):
        chance = _by_chance(other, guess)
        return f"{said}, and neither is {against + chance if chance else against.rstrip(',')}."
    gap = difference["logloss"]
    return f"{said}; {against} is, and has {abs(gap):.5f} {'less' if gap > 0 else 'more'} test log loss."


def _by_chance(row: Mapping[str, Any], guess: float | None) -> str:
    return " by more than chance" if is_chance(row, guess) else ""


def _compared(name: str, against: str, aside: str, difference: Mapping[str, Any]) -> str:
    delta, ends = difference["logloss"], difference["logloss_interval"]
    if ends[0] <= 0 <= ends[1]:
        return (
            f"There is no real difference between {name} and {against}: {delta:+.5f} test log loss "
            f"(95 % interval {ends[0]:+.5f} to {ends[1]:+.5f})"
        )
    sizes = sorted(map(abs, ends))
    word = "beats" if delta < 0 else "is worse than"
    return f"{name} {word} {against}{aside} by {abs(delta):.5f} test log loss (95 % interval {sizes[0]:.5f} to {sizes[1]:.5f})"


def _cost(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """FLOPs as a ratio, and the latency of both where it was measured."""
    said = ""
    if one.get("flops") and other.get("flops"):
        said += f", at {two_digits(one['flops'] / other['flops'])}× its FLOPs"
    times = [two_digits(row["latency"]["p50_ms_512"]) for row in (one, other) if "p50_ms_512" in (row.get("latency") or {})]
    if len(times) == 2:
        said += f" ({times[0]} ms against {times[1]} ms for a batch of 512)"
    return said

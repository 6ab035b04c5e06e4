"""Which rows are clicks, and what to say about a label that is neither yes nor no."""

from __future__ import annotations

import numpy as np

from recnas.data.raw.sections import Label
from recnas.data.raw.values import number_of

# Understood in any case, beside the numbers 1, 0 and -1.
LABEL_WORDS = {"yes": 1, "no": 0, "true": 1, "false": 0, "t": 1, "f": 0, "y": 1, "n": 0}
_SHOWN = 8


def clicks_of(rule: Label, values: np.ndarray, bad: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """1 for a click, 0 for none; and which rows have a label that is neither."""
    if rule.at_least is not None:
        return (values >= rule.at_least).astype(np.uint8), bad
    neither = (values != 1) & (values != 0) & (values != -1)
    return (values == 1).astype(np.uint8), bad | neither


def label_hint(rule: Label, refused: list[str]) -> str:
    """What to change in the recipe, given labels that are neither a click nor none."""
    shown = sorted(set(refused), key=lambda text: (number_of(text) is None, number_of(text) or 0.0, text))
    some = ", ".join(shown[:_SHOWN]) + (", ..." if len(shown) > _SHOWN else "")
    numbers = sorted({value for text in shown if (value := number_of(text)) is not None})
    if not numbers or len(numbers) < len(shown):
        known = "0/1, -1/1, yes/no, true/false, t/f, y/n"
        return f"Labels not understood: {some}. Understood are {known}, and numbers with a limit: at_least."
    limit = numbers[min((len(numbers) + 1) // 2, len(numbers) - 1)]
    return (
        f"Labels not understood: {some}. Say in the recipe from which number on a row is a click, for example:\n"
        f"     label: {{column: {rule.column}, at_least: {limit:g}}}"
    )

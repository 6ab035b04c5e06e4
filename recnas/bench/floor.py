"""The least a click model must do: predict better than a constant.

Whoever always predicts the click rate needs no model. A model that is not better than that is called so,
whatever else it beats; two such models have nothing to say about each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

GUESS = "always predicting the click rate"
NOT_BETTER = f"not better than {GUESS}"  # in sentences
NO_BETTER = "no better than guessing"  # in tables, where there is little room


def guess_logits(click_rate: float, train_rows: int, rows: int) -> np.ndarray:
    """The constant guess for `rows` rows, from the clicks of training; half a click where there was none."""
    least = 0.5 / max(1, train_rows)
    rate = min(max(click_rate, least), 1 - least)
    return np.full(rows, math.log(rate / (1 - rate)))


def not_better(entropy: float | None) -> str | None:
    """What to say of a test log loss that is `entropy` times that of the best constant guess; None if it is better.

    Rows of one label only have no such figure: there a constant guess is right every time.
    """
    if entropy is None:
        return f"{NOT_BETTER}: all rows have the same label"
    return f"{NOT_BETTER} ({entropy:.3f} times that loss)" if entropy >= 1 else None


def is_below(entropy: float | None, interval: Sequence[float] | None) -> bool:
    """Whether a model of a comparison is not better than the guess.

    Args:
        entropy: mean normalised entropy on test; None if all rows have the same label.
        interval: of its paired difference in log loss to the constant guess; None if nothing is known.
    """
    if interval is None:
        return entropy is not None and entropy >= 1
    return entropy is None or entropy >= 1 or interval[1] >= 0


def floor_loss(loss: float | None, entropy: float | None, guess: float | None) -> float | None:
    """Test log loss of the best constant guess, which `is_below` asks a model to beat.

    Args:
        loss, entropy: of the model: its test log loss, and how many times the best guess's that is.
        guess: test log loss of the click rate of the training rows; that of the test rows themselves may be better.
    """
    if loss is None:
        return guess
    own = loss / entropy if entropy else 0.0  # None: all rows have the same label, and the guess is right every time
    return own if guess is None else min(guess, own)

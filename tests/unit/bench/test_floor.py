"""The constant guess and who is below it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss

from recnas.bench.bootstrap import row_sums
from recnas.bench.floor import floor_loss, guess_logits, is_below, not_better


def test_the_guess_has_the_loss_of_a_constant_prediction():
    label = np.array([1, 0, 0, 0, 1])
    assert row_sums(guess_logits(0.25, 100, 5), label).logloss == pytest.approx(log_loss(label, np.full(5, 0.25)))


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_training_rows_of_one_label_leave_half_a_row_to_the_other(rate: float):
    loss = row_sums(guess_logits(rate, 100, 2), np.array([0, 1])).logloss
    assert loss == pytest.approx(log_loss([0, 1], [0.005, 0.005]))


def test_below_the_floor():
    assert not is_below(0.99, (-0.02, -0.01))
    assert is_below(1.0, (-0.02, -0.01))  # the constant guess of the test rows themselves is the stricter one
    assert is_below(0.99, (-0.02, 0.0))  # the difference may be chance
    assert is_below(None, (-0.02, -0.01))  # all rows have the same label: the constant guess is right every time
    assert not is_below(None, None)
    assert not_better(0.999) is None
    assert not_better(1.0) == "not better than always predicting the click rate (1.000 times that loss)"


@pytest.mark.parametrize(
    ("loss", "entropy", "interval", "floor", "chance"),
    [
        (0.50, 0.98, (-0.02, 0.01), 0.50 / 0.98, True),  # smaller, but the interval reaches zero
        (0.50, 1.02, (-0.03, -0.01), 0.50 / 1.02, False),  # better than the rate of training, not than that of test
        (0.53, 1.0, (0.0, 0.02), 0.52, False),
        (0.0002, None, (-0.02, -0.01), 0.0, False),  # all rows have the same label
    ],
)
def test_the_figure_that_is_named_agrees_with_the_verdict(
    loss: float, entropy: float | None, interval, floor: float, chance: bool
):
    """A model called `not better` never stands beside a constant guess with a larger loss, unless chance is named."""
    assert is_below(entropy, interval)
    best = floor_loss(loss, entropy, 0.52)
    assert best == pytest.approx(floor)
    assert chance == (loss < best)

"""How much a row counts: numbers from 0 on, which training and every metric weigh rows by."""

from __future__ import annotations

import numpy as np

from recnas.data.raw.typed import Typed

NO_WEIGHT = "the weight is empty"
NOT_A_WEIGHT = "the weight is not a finite number"
NEGATIVE = "the weight is negative"
TOO_LARGE = "the weight is too large for a 32-bit number"
FAULTS = (NO_WEIGHT, NOT_A_WEIGHT, NEGATIVE, TOO_LARGE)


def weights_of(typed: Typed) -> tuple[np.ndarray, list[tuple[np.ndarray, str]]]:
    """float32 weights, 0 where there is none; and which rows have none, by reason."""
    fine = ~(typed.missing | typed.bad)
    negative = fine & (typed.values < 0)
    too_large = fine & (typed.values > np.finfo(np.float32).max)
    values = np.where(fine & ~negative & ~too_large, typed.values, 0.0).astype(np.float32)
    faults = zip((typed.missing, typed.bad & ~typed.missing, negative, too_large), FAULTS)
    return values + np.float32(0), list(faults)  # -0.0 becomes 0.0


def weights_or_nan(typed: Typed) -> np.ndarray:
    """The same for rows that are only to be predicted: NaN for what `prepare` would reject."""
    values, faults = weights_of(typed)
    for bad, _ in faults:
        values[bad] = np.nan
    return values

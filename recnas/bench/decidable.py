"""Which difference between two models so many rows can show: said before a run, so that nobody waits for an answer that cannot come.

The mean of N paired differences of losses has a standard error of s / sqrt(N), and an interval of 95 % reaches 1.96 of these to
either side: a difference below that cannot be told from none. The spread s is not known before both models are trained.
If their logits differ by d, their losses differ by about (p - y) d, whose variance is d^2 p (1 - p); so

    s = disagreement * sqrt(rate * (1 - rate)),

where `disagreement` is about the root mean square of d.
"""

from __future__ import annotations

import math

import numpy as np

from recnas.data.prepared import PreparedData
from recnas.runs.results import Decidable

# Measured between dnn, dcn-v2, deepfm and dlrm, trained alike, as the standard deviation of their paired differences over
# sqrt(rate * (1 - rate)): 0.34 to 0.66 on generated Criteo-like rows, 0.13 to 0.22 on a sample of KDD Cup 2012,
# 0.6 to 1.1 on Frappe, whose logits are large; winners of searches on generated rows 0.38 to 0.55.
USUAL = 0.4
LEAST, MOST = 0.13, 1.1
REACH = 1.96  # standard errors from the middle of a 95 % interval to its ends


def smallest_difference(rows: float, click_rate: float, disagreement: float = USUAL) -> float:
    """In log loss, between two models on the same rows; of weighted rows their effective number."""
    return REACH * disagreement * math.sqrt(click_rate * (1 - click_rate) / rows)


def decidable(data: PreparedData) -> dict[str, Decidable]:
    """By split; nothing where all rows of training have the same label."""
    rate = data.manifest["click_rate"]["train"]
    if rate is None or not 0 < rate < 1:
        return {}
    found = {}
    for split in ("valid", "test"):
        if rows := data.rows(split):
            weight = np.asarray(data.array(split, "weight"), np.float64) if data.weighted else np.ones(1)
            same = rows * float(weight.mean() ** 2 / (weight**2).mean())
            least, usual, most = (smallest_difference(same, rate, d) for d in (LEAST, USUAL, MOST))
            found[split] = Decidable(rows=rows, least=least, usual=usual, most=most)
    return found

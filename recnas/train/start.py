"""Where training starts: at the click rate.

A network whose output starts at 0 says that half of all rows are clicks. Where 0.5 % are, it spends its training on
coming down from there: logistic regression never arrived, and beating it said nothing. With the bias of the last
layer at log(p / (1 - p)) every network starts from the best constant guess.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from recnas.train.loop import FixedNetwork, Trainee
from recnas.train.pending import is_finite


def click_logit(rate: float | None, rows: int) -> float:
    """log(p / (1 - p)); of rows that are all alike, as if there were one more of the other kind."""
    least = 1 / (rows + 2)
    p = min(max(rate or 0.0, least), 1 - least)
    return math.log(p / (1 - p))


@torch.no_grad()
def start_at(
    trainee: Trainee, logits: Sequence[float], dense: Tensor, embedded: Tensor, weight: Tensor | None = None
) -> None:
    """Let outputs start at `logits`, one per label: exactly so on average over some rows, `dense [B, I]` and `embedded [B, F, D]`, each
    counted as often as `weight [B]` says.

    Of NASRec's networks one in sixty starts ten units off (a factorization machine in its last block), so the bias
    makes up for what the rest of the network says at first. The paths of a supernet each say something else; its
    head is quiet (`HEAD_START`), and the bias alone must do.
    """
    bias = trainee.output_bias
    for place, logit in enumerate(logits):
        bias[place] = logit
    if not isinstance(trainee, FixedNetwork):
        return
    for place, said in enumerate(trainee.network.eval()(dense, embedded).reshape(len(dense), -1).unbind(1)):
        if weight is not None and bool(weight.any()):
            mean = float((said * weight).sum() / weight.sum())
        else:
            mean = float(said.mean())
        offset = mean - logits[place]
        if is_finite(offset):  # otherwise the first step of training says what is wrong
            bias[place] -= offset

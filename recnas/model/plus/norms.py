"""Batch normalisation whose statistics live outside: a network of its own keeps them, a candidate has none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from recnas.model import observe
from recnas.space.nasrec.plan import Plan
from recnas.space.plus.field_operators import WUKONG
from recnas.space.plus.operators import DENSE_OPS

MOMENTUM = 0.1


class Statistics(NamedTuple):
    """Running mean and variance by name, and whether batches are normalised by their own."""

    buffers: Mapping[str, Tensor]
    training: bool


def statistics_names(gain: str) -> tuple[str, str]:
    """Names of the running mean and variance that belong to the gain called `gain`."""
    stem = gain.removesuffix(".weight")
    return f"{stem}.running_mean", f"{stem}.running_var"


def running_statistics(plan: Plan) -> dict[str, Tensor]:
    """New running means and variances of every batch normalisation of a network, by name."""
    found = {}
    for number, block in enumerate(plan.blocks, start=1):
        if getattr(block.block, "norm", "none") != "batch":
            continue
        for param in plan.params:
            if param.name in {f"blocks.{number}.{op}.norm.weight" for op in (*DENSE_OPS, f"{WUKONG}.hidden")}:
                mean, variance = statistics_names(param.name)
                found[mean], found[variance] = torch.zeros(param.shape), torch.ones(param.shape)
    return found


def normalise(x: Tensor, kind: str, names: tuple[str, str] | None, params: Mapping[str, Tensor],
              statistics: Statistics | None) -> Tensor:  # fmt: skip
    """`[B, n]` by the norm of a block: over its units, or over the rows of the batch."""
    if kind == "none" or names is None or observe.norms_are_off():
        return x
    gain, offset = params[names[0]], params[names[1]]
    if kind == "layer":
        observe.norm(x, (0,))
        return F.layer_norm(x, (x.shape[-1],), gain, offset)
    observe.norm(x, (1,))
    if statistics is None:
        if x.shape[0] == 1:  # its own variance says nothing
            return x * gain + offset
        return F.batch_norm(x, None, None, gain, offset, training=True)
    mean, variance = (statistics.buffers[name] for name in statistics_names(names[0]))
    own = statistics.training and x.shape[0] > 1
    return F.batch_norm(x, mean, variance, gain, offset, own, MOMENTUM)

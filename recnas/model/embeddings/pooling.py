"""From the rows of several values to one vector: what a bag is to a network, and back to the rows' gradients.

Ids of a bag have `length` places a row; places that hold MISSING_ID have no value (`data.bags`). The vector of a bag
without values is zero. Gradients are told per value, so a row that a batch touches twice gets the sum of both, with
every optimizer: what happens to tables is the same as for single values.

    sum, mean   every value gets the gradient, or its share of it
    max         per component, the first of the largest values gets it; the others are touched with zero

Tracing for an export takes plain operations with places of a fixed number; otherwise torch's kernel skips empty places.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from recnas.data.schema import MISSING_ID, Pool


@dataclass(frozen=True)
class BagPlaces:
    """A bag among the ids of a row. start: of its table in the stack of all tables."""

    field: int
    columns: slice
    pool: Pool
    start: int


def pooled(stack: Tensor, ids: Tensor, bag: BagPlaces) -> Tensor:
    """`[B, D]` of the folded ids `[B, length]` of one bag."""
    rows = ids + bag.start
    if not torch.compiler.is_compiling():
        return F.embedding_bag(rows, stack, mode=bag.pool, padding_idx=bag.start + MISSING_ID)
    there = (ids != MISSING_ID).unsqueeze(-1)
    values = stack.index_select(0, rows.flatten()).view(*rows.shape, stack.shape[1])
    if bag.pool == "max":
        largest = values.masked_fill(~there, float("-inf")).amax(1)
        return largest.masked_fill(~there.any(1), 0.0)
    total = (values * there).sum(1)
    return total if bag.pool == "sum" else total / there.sum(1).clamp(min=1)


def value_gradients(stack: Tensor, ids: Tensor, bag: BagPlaces, grad: Tensor) -> tuple[Tensor, Tensor]:
    """Row numbers `[N]` in the stack of all values of a bag, and the gradient of each, of that of its vector `[B, D]`."""
    there = ids != MISSING_ID
    row = there.nonzero()[:, 0]
    rows = ids[there] + bag.start
    if bag.pool == "max":
        values = stack.index_select(0, (ids + bag.start).flatten()).view(*ids.shape, stack.shape[1])
        first = values.masked_fill(~there.unsqueeze(-1), float("-inf")).argmax(1, keepdim=True)
        places = torch.arange(ids.shape[1], device=ids.device)[None, :, None]
        return rows, torch.where(places == first, grad.unsqueeze(1), 0.0)[there]
    if bag.pool == "mean":
        grad = grad / there.sum(1, keepdim=True).clamp(min=1)
    return rows, grad.index_select(0, row)

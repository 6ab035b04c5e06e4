"""From the rows of several values to one vector: what a bag is to a network, and back to the rows' gradients.

Ids of a bag have `length` places a row; places that hold MISSING_ID have no value (`data.bags`). The vector of a bag
without values is zero. Gradients are told per value, so a row that a batch touches twice gets the sum of both, with
every optimizer: what happens to tables is the same as for single values.

    sum, mean   every value gets the gradient, or its share of it
    max         per component, the first of the largest values gets it; the others are touched with zero
    attention   as torch differentiates it; the row's own value, which is asked about, gets some too

Tracing for an export takes plain operations with places of a fixed number; otherwise torch's kernel skips empty places.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from recnas.data.schema import MISSING_ID, Pool
from recnas.model.embeddings.attention import attend

_PLACES = 1 << 18  # of a sequence that attention looks at at a time


@dataclass(frozen=True)
class BagPlaces:
    """A bag among the ids of a row. start: of its table in the stack of all tables."""

    field: int
    columns: slice
    pool: Pool
    start: int
    query: int | None = None  # of attention: the id of the row's own value


def pooled(stack: Tensor, ids: Tensor, bag: BagPlaces, attention: Tensor | None = None) -> Tensor:
    """`[B, D]` of one bag of the folded ids of a batch. attention: its weights, if that is its pool."""
    own = ids[:, bag.columns]
    if attention is not None:
        if not torch.compiler.is_compiling() and own.numel() > _PLACES:  # some rows at a time, for their pairs' memory
            return torch.cat(
                [pooled(stack, some, bag, attention) for some in ids.split(max(1, _PLACES // own.shape[1]))]
            )
        return attend(_values(stack, own, bag), own != MISSING_ID, _queries(stack, ids, bag), attention)
    if not torch.compiler.is_compiling() and isinstance(stack, Tensor):  # tables of 8-bit numbers are none
        return F.embedding_bag(own + bag.start, stack, mode=bag.pool, padding_idx=bag.start + MISSING_ID)
    there = (own != MISSING_ID).unsqueeze(-1)
    values = _values(stack, own, bag)
    if bag.pool == "max":
        largest = values.masked_fill(~there, float("-inf")).amax(1)
        return largest.masked_fill(~there.any(1), 0.0)
    total = (values * there).sum(1)
    return total if bag.pool == "sum" else total / there.sum(1).clamp(min=1)


def value_gradients(stack: Tensor, ids: Tensor, bag: BagPlaces, grad: Tensor) -> tuple[Tensor, Tensor]:
    """Row numbers `[N]` in the stack of all values of a bag, and the gradient of each, of that of its vector `[B, D]`."""
    own = ids[:, bag.columns]
    there = own != MISSING_ID
    rows = own[there] + bag.start
    if bag.pool == "max":
        values = _values(stack, own, bag)
        first = values.masked_fill(~there.unsqueeze(-1), float("-inf")).argmax(1, keepdim=True)
        places = torch.arange(own.shape[1], device=ids.device)[None, :, None]
        return rows, torch.where(places == first, grad.unsqueeze(1), 0.0)[there]
    if bag.pool == "mean":
        grad = grad / there.sum(1, keepdim=True).clamp(min=1)
    return rows, grad.index_select(0, there.nonzero()[:, 0])


def attention_gradients(
    stack: Tensor, ids: Tensor, bag: BagPlaces, grad: Tensor, attention: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The same of a sequence with attention, queries behind its values; and the gradient of the attention's weights."""
    own = ids[:, bag.columns]
    there = own != MISSING_ID
    with torch.enable_grad():
        leaves = [_values(stack, own, bag), _queries(stack, ids, bag), attention]
        leaves = [leaf.detach().requires_grad_() for leaf in leaves]
        of_values, of_queries, of_weights = torch.autograd.grad(attend(leaves[0], there, *leaves[1:]), leaves, grad)
    rows = torch.cat([own[there], ids[:, bag.query]]) + bag.start
    return rows, torch.cat([of_values[there], of_queries]), of_weights


def _values(stack: Tensor, own: Tensor, bag: BagPlaces) -> Tensor:
    """`[B, length, D]`, whatever is in the empty places."""
    return stack.index_select(0, (own + bag.start).flatten()).view(*own.shape, stack.shape[1])


def _queries(stack: Tensor, ids: Tensor, bag: BagPlaces) -> Tensor:
    return stack.index_select(0, ids[:, bag.query] + bag.start)

"""One process's contiguous share of a batch, when several processes train on the same batches.

Processes must exchange tensors of one size, so every share has as many rows as the largest. What is missing
is filled up with the first row of the batch; those rows are computed and then left out of every sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from recnas.data.batch import Batch


@dataclass(frozen=True)
class PartBatch(Batch):
    """A share of a batch. real: its leading rows that count. whole: rows of the batch it is a share of."""

    real: int = field(kw_only=True)
    whole: int = field(kw_only=True)


def share_of(start: int, stop: int, rank: int, world: int) -> tuple[int, int]:
    """The places within start..stop-1 that belong to `rank`; empty for a late rank of a small batch."""
    size = share_size(stop - start, world)
    first = min(start + rank * size, stop)
    return first, min(first + size, stop)


def share_size(rows: int, world: int) -> int:
    """Rows of every share, filled up."""
    return -(-rows // world)


def filled(found: Batch | None, first_row: Callable[[], Batch], whole: int, world: int) -> PartBatch:
    """`found` (None: no rows), filled up with copies of the batch's first row if it is short."""
    real = len(found) if found is not None else 0
    missing = share_size(whole, world) - real
    if found is not None and not missing:
        return PartBatch(found.dense, found.ids, found.label, found.weight, found.label_weights, real=real, whole=whole)
    one = first_row()
    parts = [*([found] if found is not None else []), *[one] * missing]
    dense, ids, label = (torch.cat([getattr(part, name) for part in parts]) for name in ("dense", "ids", "label"))
    weights = [part.weight for part in parts if part.weight is not None]
    weight = torch.cat(weights) if weights else None
    return PartBatch(dense, ids, label, weight, one.label_weights, real=real, whole=whole)

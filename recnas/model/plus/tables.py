"""What a network of `nasrec-plus` reads of tables that its architecture wants narrower than the vectors.

In a supernet the tables have full width, and a field's further columns are multiplied by zero, so that they neither
count nor learn. A network of its own has tables without those columns; it reads zeros in their place, and the product changes nothing.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from recnas.model.embeddings import FieldColumns
from recnas.space.nasrec.arch import NasrecArch
from recnas.space.nasrec.layers import NetShape
from recnas.space.plus.arch import PlusArch


def field_columns(arch: NasrecArch, shape: NetShape) -> FieldColumns | None:
    """What the tables of a network hold; None if they are all alike."""
    if not isinstance(arch, PlusArch) or not arch.narrow:
        return None
    own, labels = arch.first_order * shape.labels, shape.labels
    columns = arch.table_columns(shape.width, shape.n_sparse, labels)
    return FieldColumns(arch.table_width(shape.width, labels) - own, own, columns)


def narrowed(arch: PlusArch, embedded: Tensor, shape: NetShape) -> Tensor:
    """Table rows `[B, F, W]` with zeros where a field has no column."""
    return embedded * _mask(arch, shape, embedded.shape[2], embedded.device, embedded.dtype)


@lru_cache(maxsize=256)
def _mask(arch: PlusArch, shape: NetShape, columns: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """`[F, W]`; the columns of the ids' own weights are those after the vectors."""
    own = arch.first_order * shape.labels
    at = 0 if columns < shape.width + own else shape.width
    held, place = arch.table_columns(shape.width, shape.n_sparse, shape.labels), torch.arange(columns)
    rows = [(place < n - own) | ((place >= at) & (place < at + own) & (n > 0)) for n in held]
    return torch.stack(rows).to(device, dtype)

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
from recnas.space.plus.arch import PlusArch


def field_columns(arch: NasrecArch, width: int, fields: int) -> FieldColumns | None:
    """What the tables of a network hold; None if they are all alike."""
    if not isinstance(arch, PlusArch) or not arch.narrow:
        return None
    own = int(arch.first_order)
    return FieldColumns(arch.table_width(width) - own, own, arch.table_columns(width, fields))


def narrowed(arch: PlusArch, embedded: Tensor, width: int) -> Tensor:
    """Table rows `[B, F, W]` with zeros where a field has no column."""
    return embedded * _mask(arch, width, embedded.shape[1], embedded.shape[2], embedded.device, embedded.dtype)


@lru_cache(maxsize=256)
def _mask(arch: PlusArch, width: int, fields: int, columns: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """`[F, W]`; the column of the ids' own weights is the one after the vectors."""
    at = 0 if columns < width + arch.first_order else width
    held, place = arch.table_columns(width, fields), torch.arange(columns)
    rows = [(place < n - arch.first_order) | ((place == at) & (n > 0) & arch.first_order) for n in held]
    return torch.stack(rows).to(device, dtype)

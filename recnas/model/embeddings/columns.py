"""Which columns of a table row every field keeps, where tables are not all as wide as the vectors.

A field keeps the leading components of its vector and, if ids have a weight of their own, one column more; what it does not
keep reads as zeros. Fields with equally many columns form a group, whose tables have no room for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


def fields_of(x: Tensor, fields: tuple[int, ...]) -> Tensor:
    """`x[:, fields]`. On a device the index is kept there: sending it in every step would make the host wait."""
    if x.device.type == "cpu":
        return x[:, list(fields)]
    return x.index_select(1, _index(fields, x.device))


@lru_cache(maxsize=256)
def _index(fields: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor(fields, dtype=torch.int64, device=device)


class Group(NamedTuple):
    """Fields whose tables have so many columns."""

    fields: tuple[int, ...]
    columns: int


@dataclass(frozen=True)
class FieldColumns:
    """Args:
    vectors: components that a network reads; 0 if it reads none. own: how many weights of its own every id has, one per
    label or none.
    columns: of each field's table, that weight included; 0 for a field without a table.
    """

    vectors: int
    own: int
    columns: tuple[int, ...]

    @property
    def width(self) -> int:
        """Of what a network is given."""
        return self.vectors + self.own

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        sizes = sorted(set(self.columns) - {0})
        return tuple(Group(tuple(f for f, n in enumerate(self.columns) if n == size), size) for size in sizes)

    @cached_property
    def _order(self) -> tuple[int, ...]:
        """Where each field is when groups stand behind each other and then what has no table."""
        behind = [f for group in self.groups for f in group.fields]
        behind += [f for f, n in enumerate(self.columns) if not n]
        return tuple(sorted(range(len(behind)), key=behind.__getitem__))

    def spread(self, values: Sequence[Tensor], ids: Tensor) -> Tensor:
        """What every group's tables hold, `[B, fields of the group, columns or more]`, as `[B, F, width]` with zeros."""
        parts = []
        for group, found in zip(self.groups, values):
            kept = group.columns - self.own
            vectors = F.pad(found[..., :kept], (0, self.vectors - kept))
            parts.append(torch.cat((vectors, found[..., kept : group.columns]), -1) if self.own else vectors)
        without = self.columns.count(0)
        if without:
            like = values[0] if values else torch.zeros((), device=ids.device)
            parts.append(like.new_zeros(ids.shape[0], without, self.width))
        return fields_of(torch.cat(parts, 1), self._order)

    def gathered(self, values: Tensor, sizes: Sequence[int]) -> list[Tensor]:
        """The inverse for gradients: of `[B, F, width]` each group's part, filled up to `sizes` columns."""
        found = []
        for group, size in zip(self.groups, sizes):
            kept, mine = group.columns - self.own, fields_of(values, group.fields)
            part = torch.cat((mine[..., :kept], mine[..., self.vectors : self.width]), -1)
            found.append(F.pad(part, (0, size - group.columns)))
        return found

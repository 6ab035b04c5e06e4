"""The search space `nasrec-plus`: NASRec-Full, and what hand-crafted CTR models are made of.

`arch` is the value and says how it extends NASRec's; `operators` has a record per further operator; `rules` says what is
valid and what a search may change, `sampling` where it begins, `moves` how it goes on, `json` reads and writes. Encoders
of hand-crafted models are in `encode`; `recnas.baselines.encoded` copies their weights.

    space = PlusSpace(blocks=8)
    arch = space.sample(numpy.random.default_rng(0))
    dcn = encode("dcn-v2", NetShape(13, 26), {"crosses": 2})
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from math import prod
from typing import Any

from numpy.random import Generator

from recnas.errors import SpaceError
from recnas.space.base import nearest_name
from recnas.space.nasrec.arch import NasrecArch
from recnas.space.nasrec.layers import NetShape
from recnas.space.nasrec.sampling import ANY_CONNECTION, STRATEGIES
from recnas.space.nasrec.space import NasrecSpace, _positive
from recnas.space.plus import json as files
from recnas.space.plus import moves
from recnas.space.plus.arch import AS_DATA, NAME, Head, PlusArch
from recnas.space.plus.rules import BLOCKS, CHOICES, DENSE_DIMS, INNER, MAX_INPUTS, SPARSE_DIMS, PlusRules, check
from recnas.space.plus.sampling import draw_arch, full_block
from recnas.space.plus.tables import SHARES

PLUS = NAME


class PlusSpace(NasrecSpace):
    """The space.

    Args:
        blocks: most blocks of an architecture that a search or a supernet has.
        dense_dims: widths a search chooses from; 0 is the length of the raw inputs of a data set.
        sparse_dims: row counts a search chooses from.
        max_inputs: most inputs a search gives a connection field.
        table_widths: whether a search also chooses how wide each column's table is, on data it was told of by `on`.
    """

    trains_full_path = False  # paths with several operators instead
    rules: PlusRules  # type: ignore[assignment]

    def __init__(
        self,
        blocks: int = BLOCKS,
        *,
        dense_dims: tuple[int, ...] = DENSE_DIMS,
        sparse_dims: tuple[int, ...] = SPARSE_DIMS,
        max_inputs: int = MAX_INPUTS,
        table_widths: bool = False,
    ) -> None:
        (self.blocks,) = _positive("blocks", blocks)
        (max_inputs,) = _positive("max_inputs", max_inputs)
        widths = _positive("dense_dims", tuple(d for d in dense_dims if d != AS_DATA))
        self.rules = PlusRules(
            dense_dims=(AS_DATA, *widths) if AS_DATA in dense_dims else widths,
            sparse_dims=_positive("sparse_dims", sparse_dims),
            max_inputs=max_inputs,
        )
        self.name = NAME
        self.connections = ""
        self.table_widths = table_widths

    def __repr__(self) -> str:
        return f"PlusSpace(blocks={self.blocks})"

    def on(self, fields: int) -> PlusSpace:
        """The space on data with so many categorical columns."""
        if not self.table_widths:
            return self
        found = copy(self)
        found.rules = replace(self.rules, fields=fields)
        return found

    def sample_path(self, rng: Generator, strategy: str = ANY_CONNECTION) -> PlusArch:
        """One step's path for weight-sharing training; any-path has several operators per stream."""
        if strategy not in STRATEGIES:
            raise SpaceError(f"unknown path strategy {strategy!r}", nearest_name(strategy, STRATEGIES))
        return draw_arch(self.rules, self.blocks, rng, strategy)

    def full_path(self) -> PlusArch:
        """Every operator and every stream: what a supernet holds."""
        width = max(self.rules.dense_dims)
        blocks = tuple(full_block(self.rules, b, width) for b in range(1, self.blocks + 1))
        everything = tuple(range(self.blocks + 1))
        return PlusArch(self.name, blocks, Head(everything, everything), first_order=True)

    def storage_path(self, shape: NetShape) -> PlusArch:
        path = self.full_path()
        d, s = shape.dense_max, shape.sparse_max
        return replace(path, blocks=tuple(replace(block, dense_dim=d, sparse_dim=s) for block in path.blocks))

    def fits(self, arch: NasrecArch) -> bool:
        """Whether a supernet of this space can hold the architecture's blocks; there may be fewer."""
        return arch.space == self.name and len(arch.blocks) <= self.blocks

    def slots(self, shape: NetShape) -> NetShape:
        """The shape with room for the widest stream of either kind."""
        return replace(
            shape,
            dense_max=max(*self.rules.dense_dims, shape.raw_width),
            sparse_max=max(*self.rules.sparse_dims, shape.n_sparse + shape.n_dense),
        )

    def table_width(self, width: int) -> int:
        """Columns of a table row that every candidate can work with."""
        return width + 1

    def mutate(self, arch: NasrecArch, rng: Generator) -> PlusArch:
        self.validate(arch)
        return moves.mutate(_own(arch), self.rules, self.blocks, rng)

    def neighbours(self, arch: NasrecArch) -> Iterator[PlusArch]:
        self.validate(arch)
        return moves.neighbours(_own(arch), self.rules)

    def validate(self, arch: NasrecArch, sampled: bool = True) -> None:
        check(_own(arch), self.rules, sampled)

    def to_dict(self, arch: NasrecArch) -> dict[str, Any]:
        return files.to_dict(_own(arch))

    def from_dict(self, data: dict[str, Any]) -> PlusArch:
        arch = files.from_dict(data)
        self.validate(arch, sampled=False)
        return arch

    def size(self) -> int:
        """Number of descriptions that a search can make of up to `blocks` blocks; every gene counted."""
        total, so_far = 0, 1
        for b in range(1, self.blocks + 1):
            so_far *= self._descriptions(b)
            total += so_far * 4 ** (b + 1) * 8  # and the head
        return total * (len(SHARES) + 1) ** self.rules.fields

    def effective_size(self) -> int:
        """Not known closely: an upper bound."""
        return self.size()

    def _descriptions(self, b: int) -> int:
        rules = self.rules
        inner = len({width for widths in INNER.values() for width in widths} | {0})
        own = len(rules.dense_ops) * (len(rules.dense_dims) + 1) * len(rules.sparse_ops) * len(rules.sparse_dims) * 4
        return own * (self._input_sets(b) + 1) ** 3 * b**4 * prod(map(len, CHOICES.values())) * inner


def _own(arch: NasrecArch) -> PlusArch:
    if not isinstance(arch, PlusArch):
        raise SpaceError(
            f"an architecture of {arch.space} is not one of {NAME}",
            "convert it: recnas.space.plus.convert.from_nasrec(arch)",
        )
    return arch

"""Parameters, multiply-adds and embedding memory of a NASRec network, by arithmetic, before it is built.

The rules below are those of the standalone network. With them the dense parameters of NASRec's published
architectures come out exactly as its code counts them, with and without LayerNorm, and the multiply-adds of
the live parts agree with the MFLOPs it publishes (Criteo 2.20 and 1.45, Avazu 3.08 and 1.87 M).

Nothing is counted twice: the layers are those that `operators` lists for the network itself.

Two readings of "the network". The default counts what recnas builds: live parts only. `live_only=False`
counts what NASRec instantiates: dead parts too, and for fm with d == w a LayerNorm(d) it never applies.

Multiply-adds are per row of data: one per weight use in every matrix product, the full (p+1)^2 w of dot's
Gram matrix, and both products of attention (half of what torch's flop counter says). Elementwise work,
LayerNorm and fm's squares are not counted.
The supernet is `count(space.full_path(), ...)`: there every input has its full width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from recnas.data.schema import Schema
from recnas.space.nasrec.arch import FM, NasrecArch
from recnas.space.nasrec.layers import LayerBuilder, NetShape, Span
from recnas.space.nasrec.liveness import live_parts
from recnas.space.nasrec.operators import parts_of
from recnas.space.nasrec.plan import built_parts

DEFAULT_WIDTH = 16


class PartCost(NamedTuple):
    """One operator, merge, fm or the head: its parameters and its multiply-adds per row of data."""

    name: str
    params: int
    macs: int


@dataclass(frozen=True)
class BlockCost:
    """The counted parts of one block; empty for a dead block."""

    parts: tuple[PartCost, ...]

    @property
    def params(self) -> int:
        return sum(part.params for part in self.parts)

    @property
    def macs(self) -> int:
        return sum(part.macs for part in self.parts)


@dataclass(frozen=True)
class Cost:
    """What a network costs. `params` leaves the embedding tables out, as the literature does."""

    params: int
    macs: int  # multiply-adds per row of data
    embedding_params: int
    embedding_bytes: int  # float32, optimizer state not counted
    live_blocks: int
    blocks: tuple[BlockCost, ...]  # one per block of the architecture
    head: PartCost

    @property
    def total_params(self) -> int:
        return self.params + self.embedding_params


class _Counter(LayerBuilder):
    """Adds up what the layers of one part after the other have."""

    params = 0
    macs = 0

    def param(
        self, name: str, shape: tuple[int, ...], init: str, *axes: Sequence[Span], uses: int = 0
    ) -> tuple[str, ...]:
        size = prod(shape)
        self.params += size
        self.macs += size * uses
        return (name,)

    def products(self, macs: int) -> None:
        self.macs += macs

    def take(self, part: str) -> PartCost:
        """What was added since the last call."""
        cost = PartCost(part, self.params, self.macs)
        self.params = self.macs = 0
        return cost


def count(
    arch: NasrecArch,
    schema: Schema,
    width: int = DEFAULT_WIDTH,
    layernorm: bool = True,
    live_only: bool = True,
) -> Cost:
    """Count one architecture on one data set.

    Args:
        arch: a valid architecture or path.
        schema: fixes the raw input: its dense columns (none: one constant zero column), fields and tables.
        width: embedding width D.
        layernorm: whether operators normalise; changes biases too (see the table above).
        live_only: count what recnas builds; False counts what NASRec instantiates.
    """
    shape = NetShape(schema.n_dense, schema.n_sparse, width, layernorm, labels=schema.n_labels)
    arch = arch.sized(shape)
    counter = _Counter(arch, shape)
    blocks = []
    for block, built in zip(arch.blocks, built_parts(arch, keep_dead=not live_only)):
        parts = []
        for name, layers in parts_of(block, built):
            layers(counter, name, block)
            part = counter.take(name)
            if name == FM and not live_only and layernorm and width == block.dense_dim:
                part = part._replace(params=2 * block.dense_dim)  # the norm that NASRec never applies
            parts.append(part)
        blocks.append(BlockCost(tuple(parts)))
    arch.list_head(counter)
    head = counter.take("head")
    columns = schema.table_columns(arch.table_columns(width, schema.n_sparse, schema.n_labels))
    values = sum(rows * own for rows, own in zip(schema.table_rows, columns))
    return Cost(
        params=sum(block.params for block in blocks) + head.params,
        macs=sum(block.macs for block in blocks) + head.macs,
        embedding_params=values,
        embedding_bytes=4 * values,
        live_blocks=sum(parts.dense or parts.sparse for parts in live_parts(arch)),
        blocks=tuple(blocks),
        head=head,
    )

"""One architecture of `nasrec-plus` as a value: NASRec's blocks with further genes, and a head of its own.

Decision: the space extends the NASRec family. A block still has a dense and a sparse stream, an operator is still
one record and one forward function, and plan, supernet, cost, key, liveness and drawing stay folds over the
records. What is new is in subclasses, so the published spaces hold nothing they do not use:

- a dense operator may read rows flat (`flat_in`), and products of rows are taken of two inputs (`row_left`, `row_right`);
- a block may normalise, activate, add a residual and drop out;
- the head reads any set of streams (`dense` 0: the raw numbers, `rows` 0: the raw vectors) and may add one weight
  per id (`first_order`). A dense stream of one unit is a logit by itself: it is added without a weight;
- there may be any number of blocks;
- tables may be narrower than the vectors (`narrow`, see `tables`).

`dense_dim` 0 stands for the length of all raw numbers and vectors of a row of data, `sparse_dim` 0 for the
number of its fields, numeric ones included: the two widths that depend on the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from recnas.errors import SpaceError
from recnas.space.nasrec.arch import DENSE, SPARSE, Block, NasrecArch
from recnas.space.nasrec.liveness import live_parts
from recnas.space.nasrec.operators import OPERATORS
from recnas.space.plus.tables import Narrow, kept, to_lists

if TYPE_CHECKING:
    from recnas.space.nasrec.layers import Layer, LayerBuilder, NetShape

NAME = "nasrec-plus"
AS_DATA = 0  # a width that the data decide
SPARE_BIAS = "head.spare_bias"


@dataclass(frozen=True)
class PlusBlock(Block):
    """A block with everything a hand-crafted model may need. Which genes count is up to its operators."""

    flat_in: tuple[int, ...] = ()  # rows read flat, beside dense_in
    row_left: tuple[int, ...] = (0,)
    row_right: tuple[int, ...] = (0,)
    norm: str = "none"  # none, batch or layer; of what a dense operator computes
    activation: str = "none"  # none, relu or silu; after it
    residual: bool = False  # then the operator's input is added, cut or padded to the width
    dropout: float | None = None  # after the block; None: the share that training is set to
    inner: int = 0  # a width inside: rank of a cross, of a mask, of a gate; 0: full
    rank: int = 8  # columns of Y in Wukong's FM block
    hidden: int = 128  # width of a perceptron inside
    heads: int = 1
    head_width: int = 0  # of attention between fields; 0: the embedding width over the heads
    scaled: bool = False  # attention scores are divided by the root of head_width
    shortcut: str = "linear"  # around attention: linear, plain (no matrix where widths are equal) or none
    row_norm: bool = False  # LayerNorm of what attention gives, before its ReLU
    context: int = -1  # column that gates; -1: a learned vector
    matrices: str = "all"  # of bilinear pairs: all (one), each (one per field) or interaction (one per pair)
    reduction: int = 3  # fields per unit of the squeeze

    def row_width(self, width: int) -> int:
        """Components of the block's rows."""
        if "attend" in self.sparse_ops:
            return self.heads * self.head_width or width
        return width

    def further_genes(self, read: set[str]) -> dict[str, Any]:
        counted = {*read, "dropout"}
        return {name: value for name, value in self.set_genes().items() if name in counted}

    def set_genes(self) -> dict[str, Any]:
        """Further genes that differ from their defaults."""
        return {name: getattr(self, name) for name, default in GENES.items() if getattr(self, name) != default}


def as_plus(block: Block) -> PlusBlock:
    """For operators of this space, whose blocks have all its genes."""
    assert isinstance(block, PlusBlock)
    return block


CONNECTIONS = ("flat_in", "row_left", "row_right")
ADDED = {f.name: f.default for f in fields(PlusBlock) if f.name not in {own.name for own in fields(Block)}}
GENES = {name: default for name, default in ADDED.items() if name not in CONNECTIONS}


@dataclass(frozen=True)
class Head:
    """What the logit is made of: the weighted units of these streams, and a bias.

    dense, rows: inputs that are read. mean: the weighted sum is divided by the number of streams.
    spare_bias: a second bias, as models have whose linear term and perceptron both bring one.
    """

    dense: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()
    mean: bool = False
    spare_bias: bool = False

    @property
    def streams(self) -> int:
        return len(self.dense) + len(self.rows)


@dataclass(frozen=True)
class PlusArch(NasrecArch):
    """A whole network of `nasrec-plus`."""

    blocks: tuple[PlusBlock, ...]
    head: Head = field(default_factory=Head)
    first_order: bool = False  # one weight per id, in a further column of the tables
    start_scale: float = 1.0  # factor on the vectors' initial values, for networks that add up their products
    narrow: Narrow = ()  # columns whose tables are narrower than the vectors, with their shares

    @property
    def head_reads(self) -> dict[str, tuple[int, ...]]:
        return {DENSE: self.head.dense, SPARSE: self.head.rows}

    @cached_property
    def reads_vectors(self) -> bool:
        """Whether anything but the first-order weights is looked up."""
        if 0 in self.head.rows:
            return True
        for block, live in zip(self.blocks, live_parts(self)):
            for op in (block.dense_ops if live.dense else ()) + (block.sparse_ops if live.sparse else ()):
                record = OPERATORS[op]
                rows = (name for name in record.reads if name in ("sparse_in", *CONNECTIONS))
                if record.raw or any(0 in getattr(block, name) for name in rows):
                    return True
        return False

    def table_width(self, width: int, labels: int = 1) -> int:
        return (width if self.reads_vectors or not self.first_order else 0) + self.first_order * labels

    def table_columns(self, width: int, fields: int, labels: int = 1) -> tuple[int, ...]:
        own, shares = self.first_order * labels, dict(self.narrow)
        vectors = self.table_width(width, labels) - own
        parts = (shares.get(column, 1.0) for column in range(fields))
        return tuple(kept(share, vectors) + own if share else 0 for share in parts)

    def sized(self, shape: NetShape) -> PlusArch:
        if self.narrow and self.narrow[-1][0] >= shape.n_sparse:
            raise SpaceError(
                f"the table of column {self.narrow[-1][0]} is narrower, and the data have {shape.n_sparse} categorical columns",
                "leave it out of narrow; columns are numbered from 0",
            )

        def known(block: PlusBlock) -> PlusBlock:
            return replace(
                block,
                dense_dim=block.dense_dim or max(1, shape.raw_width),
                sparse_dim=block.sparse_dim or max(1, shape.n_sparse + shape.n_dense),
            )

        if all(block.dense_dim and block.sparse_dim for block in self.blocks):
            return self
        return replace(self, blocks=tuple(map(known, self.blocks)))

    @property
    def _felt(self) -> Narrow:
        """Of `narrow` what makes a difference: tables of first-order weights alone can only be dropped."""
        if self.first_order and not self.reads_vectors:
            return tuple((column, share) for column, share in self.narrow if not share)
        return self.narrow

    def head_genes(self, position: Mapping[int, int]) -> dict[str, Any]:
        last = max(position.values())
        dense, rows = ([position[j] for j in inputs] for inputs in (self.head.dense, self.head.rows))
        genes: dict[str, Any] = {}
        if dense != [last] or rows != [last] or not last:
            genes["head"] = {"dense": dense, "rows": rows}
        genes |= {"mean": True} if self.head.mean and self.head.streams > 1 else {}
        genes |= {"spare_bias": True} if self.head.spare_bias else {}
        genes |= {"first_order": True} if self.first_order else {}
        genes |= {"narrow": to_lists(self._felt)} if self._felt else {}
        return genes | ({"start_scale": self.start_scale} if self.start_scale != 1 else {})

    def list_head(self, builder: LayerBuilder) -> tuple[Layer, tuple[int, ...]]:
        weighted, _ = self.head_parts(builder)
        columns, labels = builder.wide_spans(weighted, self.head.rows), builder.shape.labels
        if columns:
            layer = builder.linear("head", labels, columns, norm=False, bias=True)
        else:
            layer = builder.bare("head", labels)
        if self.head.spare_bias or not builder.elide:
            builder.vector(SPARE_BIAS, labels, "zeros")
        return layer, tuple(span.length for span in columns)

    def head_parts(self, builder: LayerBuilder) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Dense inputs of the head that have weights, and those that are logits already."""
        return split_logits(builder.arch, self.head.dense, builder.shape.labels)


def split_logits(arch: NasrecArch, dense: Iterable[int], labels: int = 1) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Inputs that the head weighs, and those of one unit, which it adds as they are. Of several labels none has a unit
    of its own, so each weighs all."""
    dense = tuple(dense)
    if labels > 1:
        return dense, ()
    logits = tuple(j for j in dense if j and arch.blocks[j - 1].dense_dim == 1)
    return tuple(j for j in dense if j not in logits), logits

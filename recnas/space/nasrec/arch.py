"""One NASRec architecture as a value.

An architecture is a chain of blocks. Input 0 is the raw data, input j is the output of block j
(1-based), and block b may read inputs 0..b-1. Each block has a dense stream (a vector of `dense_dim`
units) and a sparse stream (`sparse_dim` rows of embedding width, 8 more with `merge`). Several
operators of one stream are summed; the spaces draw exactly one each, the supernet's full path uses all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from recnas.space.nasrec.layers import Layer, LayerBuilder, NetShape

DENSE = "dense"  # the two streams
SPARSE = "sparse"

# Operators of the published spaces: four that write the dense stream, two that write the sparse stream.
FC = "fc"
DOT = "dot"
GATE = "gate"
SUM = "sum"
TRANSFORMER = "transformer"
EFC = "efc"
MERGE = "merge"  # the two optional bits of a block, as parts of its network
FM = "fm"

# Which stream a connection field of a block reads; `Operator.reads` names these fields. The last three are fields of
# `recnas.space.plus` only: rows read flat, and two sets of rows whose products are taken.
STREAM_READ_BY = {
    "dense_in": DENSE,
    "sparse_in": SPARSE,
    "left": DENSE,
    "right": DENSE,
    "flat_in": SPARSE,
    "row_left": SPARSE,
    "row_right": SPARSE,
}

DENSE_DIMS = (16, 32, 64, 128, 256, 512, 768, 1024)
SPARSE_DIMS = (16, 32, 48, 64)
MERGE_ROWS = 8  # rows that the dense-to-sparse merge appends
MAX_INPUTS = 4  # at most this many dense_in or sparse_in connections when sampled


def dot_rows(dense_dim: int) -> int:
    """Rows the dot-product operator projects to, so that about `dense_dim` products come out."""
    return round((2 * dense_dim) ** 0.5)


@dataclass(frozen=True)
class Block:
    """One choice block. Connection tuples are sorted and hold no repeats."""

    dense_ops: tuple[str, ...]
    sparse_ops: tuple[str, ...]
    dense_dim: int
    sparse_dim: int
    merge: bool  # 8 extra sparse rows made from the dense stream (before FM is added)
    fm: bool  # factorization machine of the sparse stream, added to the dense stream
    dense_in: tuple[int, ...]  # read by fc and dot
    sparse_in: tuple[int, ...]  # read by dot, transformer and efc
    left: tuple[int, ...]  # read by gate and sum; one input each when sampled
    right: tuple[int, ...]

    def row_width(self, width: int) -> int:
        """Components of the block's rows, when embeddings are `width` wide."""
        return width

    def further_genes(self, read: set[str]) -> dict[str, Any]:
        """Those of `read` that are set; only blocks of `recnas.space.plus` have such."""
        return {}

    @property
    def sparse_rows(self) -> int:
        """Rows of the block's sparse output."""
        return self.sparse_dim + (MERGE_ROWS if self.merge else 0)


@dataclass(frozen=True)
class NasrecArch:
    """A whole network: `space` is the name it was drawn from, `blocks` in order."""

    space: str
    blocks: tuple[Block, ...]

    @property
    def start_scale(self) -> float:
        """Factor on the initial values of the vectors in the tables."""
        return 1.0

    @property
    def first_order(self) -> bool:
        """Whether the tables hold one weight per id beside the vectors."""
        return False

    @property
    def head_reads(self) -> dict[str, tuple[int, ...]]:
        """The inputs that the logit is made of, by stream: both outputs of the last block."""
        return {DENSE: (len(self.blocks),), SPARSE: (len(self.blocks),)}

    def head_genes(self, position: Mapping[int, int]) -> dict[str, Any]:
        """What the key says of the head: nothing where it reads both outputs of the last block."""
        return {}

    def sized(self, shape: NetShape) -> NasrecArch:
        """The same with every width a number; here they are."""
        return self

    def list_head(self, builder: LayerBuilder) -> tuple[Layer, tuple[int, ...]]:
        """The last Linear, and how many columns each of its parts has."""
        from recnas.space.nasrec import plan  # it needs this module first

        return plan.list_head(builder, plan.head_columns(self, builder.shape))

    def table_width(self, width: int, labels: int = 1) -> int:
        """Columns of a table row when vectors are `width` wide."""
        return width

    def table_columns(self, width: int, fields: int, labels: int = 1) -> tuple[int, ...]:
        """Columns of every field's table; 0: it has none."""
        return (self.table_width(width, labels),) * fields

    @cached_property
    def key(self) -> str:
        """Name of the standalone network; equal for descriptions that build the same one."""
        from recnas.space.nasrec import key as nasrec_key  # it needs this module first

        return nasrec_key.key(self)

    @cached_property
    def shared_key(self) -> str:
        """Name of the path through a weight-sharing supernet, where positions count too."""
        from recnas.space.nasrec import key as nasrec_key

        return nasrec_key.shared_key(self)


class LiveBlock(NamedTuple):
    """Which parts of a block the logit depends on. `dense` and `sparse` are the summed operator
    outputs; `fm` and `merge` the two optional bits where the stream they feed is read by someone."""

    dense: bool
    sparse: bool
    fm: bool
    merge: bool


class ReadBlock(NamedTuple):
    """Which finished outputs of a block somebody downstream (a live operator or the head) reads."""

    dense: bool
    sparse: bool

"""From an architecture to its parameters and to the regions of the supernet they live in. No torch here.

A *plan* lists every parameter the live part of an architecture needs and, for each block, the layers its
operators look up. The same builder serves three readers:

- a standalone subnet (`sliced=False`): one tensor per parameter, in the shapes of the reference code;
- a candidate inside the supernet (`sliced=True`): the same parameter as one leaf per input *slot*, because
  the columns of an input are bound to a fixed place in the shared weight;
- the supernet itself: the standalone plan of the full path, with nothing left out (`elide=False`).

Slots. Input 0 is the raw data, input j the output of block j. In every shared weight, dense input j owns
`dense_max` columns and sparse input j owns `sparse_max` row columns plus 8 for its merge rows; a candidate
uses the leading columns of each slot it reads and the leading rows of the output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

from recnas.space.nasrec.arch import MERGE_ROWS, Block, LiveBlock, NasrecArch
from recnas.space.nasrec.layers import Layer, LayerBuilder, NetShape, Span
from recnas.space.nasrec.liveness import live_parts
from recnas.space.nasrec.operators import parts_of

HEAD_WEIGHT, HEAD_BIAS = "head.weight", "head.bias"  # the last Linear, to the logits
Region = tuple[slice, ...]


class Piece(NamedTuple):
    """One leaf of a candidate: where it sits in the supernet's storage and in the standalone tensor."""

    leaf: str
    source: Region
    target: Region


class Param(NamedTuple):
    """One parameter of the standalone form. `name` is also the supernet storage it is cut from."""

    name: str
    shape: tuple[int, ...]
    init: str  # "xavier", "zeros", "ones" or "residual"
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class BlockPlan:
    """One block: what its operators, merge and fm look up, by name; what is inactive or dead is not there."""

    block: Block
    parts: Mapping[str, Any]


@dataclass(frozen=True)
class Plan:
    """Everything `recnas.model.nasrec.forward.run` needs besides the tensors."""

    arch: NasrecArch
    shape: NetShape
    blocks: tuple[BlockPlan, ...]
    head: Layer
    head_widths: tuple[int, ...]  # columns of the dense, sparse and merge part of the head
    params: tuple[Param, ...]
    # leaf -> (storage, region), in a fixed order; filled from `params`
    regions: Mapping[str, tuple[str, Region]] = field(init=False, repr=False)
    elements: int = field(init=False)  # weights in all parameters

    def __post_init__(self) -> None:
        regions = {p.leaf: (param.name, p.source) for param in self.params for p in param.pieces}
        object.__setattr__(self, "regions", regions)
        object.__setattr__(self, "elements", sum(prod(param.shape) for param in self.params))

    def parameter_of(self, leaf: str) -> str:
        """The standalone parameter a leaf belongs to: leaves of one Linear share it."""
        return self.regions[leaf][0]


@lru_cache(maxsize=512)
def build_plan(arch: NasrecArch, shape: NetShape, sliced: bool, keep_dead: bool = False, elide: bool = True) -> Plan:
    """Plan of an architecture.

    Args:
        arch: any number of blocks.
        shape: raw widths and options; `dense_max` and `sparse_max` fix the slots.
        sliced: names are leaves of the supernet instead of whole parameters.
        keep_dead: also list parts the logit does not depend on (the reference builds them).
        elide: leave out Linear layers whose widths already agree.
    """
    arch = arch.sized(shape)
    builder = _PlanBuilder(arch, shape, sliced, elide)
    blocks = []
    for i, (block, live) in enumerate(zip(arch.blocks, built_parts(arch, keep_dead)), start=1):
        parts = {name: layers(builder, f"blocks.{i}.{name}", block) for name, layers in parts_of(block, live)}
        blocks.append(BlockPlan(block, parts))
    head, widths = arch.list_head(builder)
    return Plan(arch, shape, tuple(blocks), head, widths, tuple(builder.params))


def built_parts(arch: NasrecArch, keep_dead: bool) -> tuple[LiveBlock, ...]:
    """Per block what is built: what the logit depends on, or everything that is switched on."""
    if keep_dead:
        return tuple(LiveBlock(True, True, block.fm, block.merge) for block in arch.blocks)
    return live_parts(arch)


def head_columns(arch: NasrecArch, shape: NetShape) -> list[Span]:
    """What the last Linear reads: both streams of the last block, flattened."""
    last = arch.blocks[-1]
    columns = [
        Span("dense", 0, last.dense_dim),
        Span("sparse", shape.dense_max, last.sparse_dim * shape.width),
    ]
    if last.merge:
        first = shape.dense_max + shape.sparse_max * shape.width
        columns.append(Span("merge", first, MERGE_ROWS * shape.width))
    return columns


def list_head(builder: LayerBuilder, columns: Sequence[Span]) -> tuple[Layer, tuple[int, ...]]:
    """The last Linear, and how many columns each of its parts has."""
    return builder.linear("head", builder.shape.labels, columns, norm=False, bias=True), tuple(
        span.length for span in columns
    )


class _PlanBuilder(LayerBuilder):
    def __init__(self, arch: NasrecArch, shape: NetShape, sliced: bool, elide: bool) -> None:
        super().__init__(arch, shape, sliced, elide)
        self.params: list[Param] = []

    def param(
        self, name: str, shape: tuple[int, ...], init: str, *axes: Sequence[Span], uses: int = 0
    ) -> tuple[str, ...]:
        cuts: list[tuple[str, Region, Region]] = [(name, (), ())]
        for spans in axes:
            offset, grown = 0, []
            for leaf, source, target in cuts:
                offset = 0
                for span in spans:
                    suffix = f".{span.suffix}" if span.suffix else ""
                    there = slice(span.start, span.start + span.length)
                    here = slice(offset, offset + span.length)
                    grown.append((leaf + suffix, (*source, there), (*target, here)))
                    offset += span.length
            cuts = grown
        pieces = tuple(Piece(*cut) for cut in cuts)
        self.params.append(Param(name, shape, init, pieces))
        return tuple(piece.leaf for piece in pieces) if self.sliced else (name,)

    def products(self, macs: int) -> None:
        """A plan lists parameters only."""

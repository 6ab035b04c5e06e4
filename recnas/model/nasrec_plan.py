"""From an architecture to its parameters and to the regions of the supernet they live in. No torch here.

A *plan* lists every parameter the live part of an architecture needs and, for each block, the names an
operator looks up. The same builder serves three readers:

- a standalone subnet (`sliced=False`): one tensor per parameter, in the shapes of the reference code;
- a candidate inside the supernet (`sliced=True`): the same parameter as one leaf per input *slot*, because
  the columns of an input are bound to a fixed place in the shared weight;
- the supernet itself: the standalone plan of the full path, with nothing left out (`elide=False`).

Slots. Input 0 is the raw data, input j the output of block j. In every shared weight, dense input j owns
`dense_max` columns and sparse input j owns `sparse_max` row columns plus 8 for its merge rows; a candidate
uses the leading columns of each slot it reads and the leading rows of the output.

When widths already agree some Linear layers do not exist (`elide`), in both forms alike: the two
projections of `dot`, the output of `dot`, `gate` and `sum`, the merge at width 8 * D, FM at width D.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import NamedTuple

from recnas.data.schema import Schema
from recnas.errors import SpaceError
from recnas.space.nasrec_arch import (
    DENSE_DIMS,
    DOT,
    EFC,
    FC,
    GATE,
    MERGE_ROWS,
    SPARSE_DIMS,
    SUM,
    TRANSFORMER,
    Block,
    LiveBlock,
    NasrecArch,
    dot_rows,
    live_parts,
)

HEADS = 8
HEAD_WEIGHT, HEAD_BIAS = "head.weight", "head.bias"  # the last Linear, to one logit
Region = tuple[slice, ...]


@dataclass(frozen=True)
class NetShape:
    """What a network needs to know besides its architecture."""

    n_dense: int  # I; without dense fields the network reads one column of zeros
    n_sparse: int  # F
    width: int = 16  # D
    layernorm: bool = True
    activation: str = "relu"  # or "silu"
    dense_max: int = DENSE_DIMS[-1]  # slot sizes of the supernet
    sparse_max: int = SPARSE_DIMS[-1]

    @classmethod
    def of(cls, schema: Schema, **options: object) -> NetShape:
        return cls(schema.n_dense, schema.n_sparse, **options)  # type: ignore[arg-type]

    @property
    def dense_width(self) -> int:
        return max(1, self.n_dense)

    def dense_slot(self, j: int) -> int:
        """First column of dense input j in a shared weight."""
        return 0 if j == 0 else self.dense_width + self.dense_max * (j - 1)

    def sparse_slot(self, j: int) -> int:
        """First column of sparse input j in a shared weight over rows."""
        return 0 if j == 0 else self.n_sparse + (self.sparse_max + MERGE_ROWS) * (j - 1)


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


class Layer(NamedTuple):
    """Names of a Linear and the LayerNorm after it; either may be absent."""

    weight: tuple[str, ...] = ()
    bias: str | None = None
    norm: tuple[str, str] | None = None


class DotPlan(NamedTuple):
    dense: Layer  # to one row of width D
    rows: Layer  # to p rows
    out: Layer  # from p (p + 1) / 2 products


class GatePlan(NamedTuple):
    square: tuple[tuple[str, ...], ...]  # [right piece][left piece]
    square_bias: tuple[str, ...]  # [right piece]
    padded: int  # width both sides are padded to before the square; 0 in the sliced form
    out: Layer


class SumPlan(NamedTuple):
    widths: tuple[int, ...]  # of the pieces the summed vector is cut into for `out`
    out: Layer


class TransformerPlan(NamedTuple):
    rows: Layer
    attention_in: Layer
    attention_out: Layer  # its norm follows the residual
    ffn_in: Layer
    ffn_out: Layer  # its norm follows the residual


@dataclass(frozen=True)
class BlockPlan:
    """One block; an operator that is inactive or dead is None."""

    block: Block
    live: LiveBlock
    fc: Layer | None = None
    dot: DotPlan | None = None
    gate: GatePlan | None = None
    sum: SumPlan | None = None
    transformer: TransformerPlan | None = None
    efc: Layer | None = None
    merge: Layer | None = None
    fm: Layer | None = None


@dataclass(frozen=True)
class Plan:
    """Everything `nasrec_forward.run` needs besides the tensors."""

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


class _Span(NamedTuple):
    """A run of columns (or rows) of a weight: its name suffix, its place in the storage, its length."""

    suffix: str
    start: int
    length: int


@lru_cache(maxsize=512)
def build_plan(
    arch: NasrecArch, shape: NetShape, sliced: bool, keep_dead: bool = False, elide: bool = True
) -> Plan:
    """Plan of an architecture.

    Args:
        arch: any number of blocks.
        shape: raw widths and options; `dense_max` and `sparse_max` fix the slots.
        sliced: names are leaves of the supernet instead of whole parameters.
        keep_dead: also list parts the logit does not depend on (the reference builds them).
        elide: leave out Linear layers whose widths already agree.
    """
    return _Builder(arch, shape, sliced, elide).build(keep_dead)


class _Builder:
    def __init__(self, arch: NasrecArch, shape: NetShape, sliced: bool, elide: bool) -> None:
        self.arch, self.shape, self.sliced, self.elide = arch, shape, sliced, elide
        self.params: list[Param] = []

    def build(self, keep_dead: bool) -> Plan:
        live = live_parts(self.arch)
        if keep_dead:
            live = tuple(LiveBlock(True, True, b.fm, b.merge) for b in self.arch.blocks)
        blocks = tuple(
            self.block(f"blocks.{i}", block, alive)
            for i, (block, alive) in enumerate(zip(self.arch.blocks, live), start=1)
        )
        last, shape = self.arch.blocks[-1], self.shape
        columns = [
            _Span("dense", 0, last.dense_dim),
            _Span("sparse", shape.dense_max, last.sparse_dim * shape.width),
        ]
        if last.merge:
            first = shape.dense_max + shape.sparse_max * shape.width
            columns.append(_Span("merge", first, MERGE_ROWS * shape.width))
        head = self.linear("head", 1, columns, norm=False, bias=True)
        widths = tuple(span.length for span in columns)
        return Plan(self.arch, shape, blocks, head, widths, tuple(self.params))

    def block(self, name: str, block: Block, live: LiveBlock) -> BlockPlan:
        d, width = block.dense_dim, self.shape.width
        plan: dict[str, object] = {}
        if live.dense:
            dense, rows = self.dense_spans(block.dense_in), self.row_spans(block.sparse_in)
            if FC in block.dense_ops:
                plan["fc"] = self.linear(f"{name}.fc", d, dense)
            if DOT in block.dense_ops:
                plan["dot"] = self.dot(f"{name}.dot", d, dense, rows)
            if GATE in block.dense_ops:
                plan["gate"] = self.gate(f"{name}.gate", block)
            if SUM in block.dense_ops:
                plan["sum"] = self.sum(f"{name}.sum", block)
        if live.sparse:
            rows = self.row_spans(block.sparse_in)
            if TRANSFORMER in block.sparse_ops:
                plan["transformer"] = self.transformer(f"{name}.transformer", block.sparse_dim, rows)
            if EFC in block.sparse_ops:
                plan["efc"] = self.linear(f"{name}.efc", block.sparse_dim, rows)
        if live.merge:
            plan["merge"] = self.projection(f"{name}.merge", MERGE_ROWS * width, [_Span("", 0, d)])
        if live.fm:
            plan["fm"] = self.projection(f"{name}.fm", d, [_Span("", 0, width)])
        return BlockPlan(block, live, **plan)  # type: ignore[arg-type]

    # Operators

    def dot(self, name: str, d: int, dense: Sequence[_Span], rows: Sequence[_Span]) -> DotPlan:
        p = dot_rows(d)
        products = p * (p + 1) // 2
        return DotPlan(
            dense=self.projection(f"{name}.dense", self.shape.width, dense),
            rows=self.projection(f"{name}.rows", p, rows),
            out=self.output(f"{name}.out", d, [_Span("", 0, products)], products),
        )

    def gate(self, name: str, block: Block) -> GatePlan:
        left, right = self.dense_spans(block.left), self.dense_spans(block.right)
        m = max(_total(left), _total(right))
        weight = self.param(f"{name}.square.weight", (m, m), "xavier", right, left)
        bias = self.param(f"{name}.square.bias", (m,), "zeros", right)
        if self.sliced:
            n = len(left)
            square = tuple(weight[i * n : (i + 1) * n] for i in range(len(right)))
            return GatePlan(square, bias, 0, self.output(f"{name}.out", block.dense_dim, right, m, bias=True))
        return GatePlan((weight,), bias, m, self.output(f"{name}.out", block.dense_dim, right, m, bias=True))

    def sum(self, name: str, block: Block) -> SumPlan:
        left, right = self.dense_spans(block.left), self.dense_spans(block.right)
        # One shared column cannot serve two slots, so the wider side lends its own (left when equal).
        wider = right if _total(right) > _total(left) else left
        widths = tuple(span.length for span in wider)
        return SumPlan(widths, self.output(f"{name}.out", block.dense_dim, wider, sum(widths)))

    def transformer(self, name: str, s: int, rows: Sequence[_Span]) -> TransformerPlan:
        w = self.shape.width
        if w % HEADS:
            raise SpaceError(
                f"The transformer splits the embedding width into {HEADS} heads, and {w} is not a multiple of {HEADS}.",
                f"Choose an embedding width such as {HEADS * max(1, round(w / HEADS))}.",
            )
        columns = [_Span("", 0, w)]
        return TransformerPlan(
            rows=self.linear(f"{name}.rows", s, rows),
            attention_in=self.linear(f"{name}.attention.in", 3 * w, columns, norm=False, bias=True),
            attention_out=self.residual(f"{name}.attention.out", columns),
            ffn_in=self.linear(f"{name}.ffn.in", w, columns, norm=False, bias=True),
            ffn_out=self.residual(f"{name}.ffn.out", columns),
        )

    # Layers

    def linear(
        self,
        name: str,
        out: int,
        columns: Sequence[_Span],
        norm: bool | None = None,
        bias: bool | None = None,
    ) -> Layer:
        """A Linear that always exists; a LayerNorm follows, or else the Linear has a bias."""
        norm = self.shape.layernorm if norm is None else norm
        bias = not self.shape.layernorm if bias is None else bias
        weight = self.param(f"{name}.weight", (out, _total(columns)), "xavier", [_Span("", 0, out)], columns)
        bias_name = self.vector(f"{name}.bias", out, "zeros") if bias else None
        return Layer(weight, bias_name, self.norm(name, out) if norm else None)

    def projection(self, name: str, out: int, columns: Sequence[_Span]) -> Layer:
        """A Linear and its LayerNorm, neither of which exists where the width is already right."""
        return Layer() if self.elide and _total(columns) == out else self.linear(name, out, columns)

    def output(
        self, name: str, out: int, columns: Sequence[_Span], width: int, bias: bool | None = None
    ) -> Layer:
        """A Linear from `width` that may be elided and a LayerNorm that stays. `columns` may cover less
        than `width`: the rest multiplies padding and exists in the standalone form only."""
        norm = self.norm(name, out) if self.shape.layernorm else None
        if self.elide and width == out:
            return Layer(norm=norm)
        weight = self.param(f"{name}.weight", (out, width), "xavier", [_Span("", 0, out)], columns)
        has_bias = not self.shape.layernorm if bias is None else bias
        return Layer(weight, self.vector(f"{name}.bias", out, "zeros") if has_bias else None, norm)

    def residual(self, name: str, columns: Sequence[_Span]) -> Layer:
        """A square Linear whose LayerNorm is always on and starts with a small gain."""
        layer = self.linear(name, _total(columns), columns, norm=False, bias=True)
        return layer._replace(norm=self.norm(name, _total(columns), "residual"))

    def norm(self, name: str, n: int, gain: str = "ones") -> tuple[str, str]:
        return self.vector(f"{name}.norm.weight", n, gain), self.vector(f"{name}.norm.bias", n, "zeros")

    def vector(self, name: str, n: int, init: str) -> str:
        return self.param(name, (n,), init, [_Span("", 0, n)])[0]

    def param(self, name: str, shape: tuple[int, ...], init: str, *axes: Sequence[_Span]) -> tuple[str, ...]:
        """Register a parameter cut into the product of the spans of its axes; the names to look it up by."""
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

    # Slots

    def dense_spans(self, inputs: Sequence[int]) -> list[_Span]:
        return [_Span(str(j), self.shape.dense_slot(j), self.dense_dim(j)) for j in inputs]

    def dense_dim(self, j: int) -> int:
        return self.shape.dense_width if j == 0 else self.arch.blocks[j - 1].dense_dim

    def row_spans(self, inputs: Sequence[int]) -> list[_Span]:
        spans = []
        for j in inputs:
            first = self.shape.sparse_slot(j)
            if j == 0:
                spans.append(_Span("0", first, self.shape.n_sparse))
                continue
            block = self.arch.blocks[j - 1]
            spans.append(_Span(str(j), first, block.sparse_dim))
            if block.merge:
                spans.append(_Span(f"{j}.merge", first + self.shape.sparse_max, MERGE_ROWS))
        return spans


def _total(spans: Sequence[_Span]) -> int:
    return sum(span.length for span in spans)

"""The operators of NASRec blocks: one record each, from which everything but the computation follows.

A record says which stream an operator writes, which connections of its block it reads, and its layers as a
function of widths. What is live, what a network is called, which genes a mutation may touch, what is drawn
and what it costs are computed from these. The computation itself is one function of the same name in
`recnas.model.nasrec.operators`.

To add an operator: a record here, a function there; a space offers it by naming it in its `NasrecRules`.

w embedding width, d dense_dim, s sparse_dim; in_d summed width of dense_in, in_r summed rows of sparse_in;
m the wider of concat(left) and concat(right) (the other is padded with zeros); p = dot_rows(d).

| part | linear layers: shape (when present) | bias | LayerNorm, if on | then |
|---|---|---|---|---|
| fc | in_d -> d (always) | LN off | d | ReLU |
| dot, dense side | in_d -> w (in_d != w) | LN off | w, only with the linear | |
| dot, sparse side | in_r -> p over rows (in_r != p) | LN off | p over rows, only with the linear | |
| dot, output | p(p+1)/2 -> d (if they differ) | LN off | d, always | |
| gate | m -> m (always), sigmoid, times right; m -> d (m != d) | always, both | d, always | |
| sum | m -> d (m != d) | LN off | d, always | |
| efc | in_r -> s over rows (always) | LN off | s over rows | ReLU |
| transformer | in_r -> s over rows (always) | LN off | s over rows | |
| ... attention, 8 heads | w -> 3w and w -> w | always | w twice, on even if LN is off | residuals |
| ... feed-forward | w -> w, ReLU, w -> w | always | (the second of these) | |
| merge | d -> 8w (d != 8w) | LN off | 8w, only with the linear | 8 rows |
| fm | w -> d (d != w) | LN off | d, only with the linear | added |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from recnas.errors import SpaceError
from recnas.space.nasrec.arch import (
    DENSE,
    DOT,
    EFC,
    FC,
    FM,
    GATE,
    MERGE,
    MERGE_ROWS,
    SPARSE,
    STREAM_READ_BY,
    SUM,
    TRANSFORMER,
    Block,
    LiveBlock,
    dot_rows,
)
from recnas.space.nasrec.layers import Layer, LayerBuilder, Span, total

HEADS = 8

# Lists the layers of an operator of `block`, whose parameters live under `name`.
ListLayers = Callable[[LayerBuilder, str, Block], Any]


@dataclass(frozen=True)
class Operator:
    """What an operator is, apart from its computation.

    Args:
        name: what architectures and configs write.
        stream: `dense` or `sparse`, what it produces.
        reads: fields of the block whose inputs it reads (`dense_in`, `left`, `right`: dense streams;
            `sparse_in`: rows).
        layers: lists its layers; the record it returns is what the operator's function is given.
        commutes: whether left and right may be exchanged without changing the network.
        genes: further fields of a block that change the operator (`recnas.space.plus`).
        raw: whether it reads the raw inputs too, whatever its connections.
        label: a shorter name for drawings.
    """

    name: str
    stream: str
    reads: tuple[str, ...]
    layers: ListLayers
    commutes: bool = False
    label: str = ""
    genes: tuple[str, ...] = ()
    raw: bool = False


class DotLayers(NamedTuple):
    dense: Layer  # to one row of width D
    rows: Layer  # to p rows
    out: Layer  # from p (p + 1) / 2 products


class GateLayers(NamedTuple):
    square: tuple[tuple[str, ...], ...]  # [right piece][left piece]
    square_bias: tuple[str, ...]  # [right piece]
    padded: int  # width both sides are padded to before the square; 0 in the sliced form
    out: Layer


class SumLayers(NamedTuple):
    widths: tuple[int, ...]  # of the pieces the summed vector is cut into for `out`
    out: Layer


class TransformerLayers(NamedTuple):
    rows: Layer
    attention_in: Layer
    attention_out: Layer  # its norm follows the residual
    ffn_in: Layer
    ffn_out: Layer  # its norm follows the residual


def _fc(build: LayerBuilder, name: str, block: Block) -> Layer:
    return build.linear(name, block.dense_dim, build.dense_spans(block.dense_in))


def _dot(build: LayerBuilder, name: str, block: Block) -> DotLayers:
    width, p = build.shape.width, dot_rows(block.dense_dim)
    products = p * (p + 1) // 2
    dense = build.projection(f"{name}.dense", width, build.dense_spans(block.dense_in))
    rows = build.projection(f"{name}.rows", p, build.row_spans(block.sparse_in), uses=width)
    build.products((p + 1) ** 2 * width)  # the whole Gram matrix
    return DotLayers(dense, rows, build.output(f"{name}.out", block.dense_dim, [Span("", 0, products)], products))


def _gate(build: LayerBuilder, name: str, block: Block) -> GateLayers:
    left, right = build.dense_spans(block.left), build.dense_spans(block.right)
    m = max(total(left), total(right))
    weight = build.param(f"{name}.square.weight", (m, m), "xavier", right, left, uses=1)
    bias = build.param(f"{name}.square.bias", (m,), "zeros", right)
    out = build.output(f"{name}.out", block.dense_dim, right, m, bias=True)
    if build.sliced:
        n = len(left)
        return GateLayers(tuple(weight[i * n : (i + 1) * n] for i in range(len(right))), bias, 0, out)
    return GateLayers((weight,), bias, m, out)


def _sum(build: LayerBuilder, name: str, block: Block) -> SumLayers:
    left, right = build.dense_spans(block.left), build.dense_spans(block.right)
    # One shared column cannot serve two slots, so the wider side lends its own (left when equal).
    wider = right if total(right) > total(left) else left
    widths = tuple(span.length for span in wider)
    return SumLayers(widths, build.output(f"{name}.out", block.dense_dim, wider, sum(widths)))


def _efc(build: LayerBuilder, name: str, block: Block) -> Layer:
    return build.linear(name, block.sparse_dim, build.row_spans(block.sparse_in), uses=build.shape.width)


def _transformer(build: LayerBuilder, name: str, block: Block) -> TransformerLayers:
    s, w = block.sparse_dim, build.shape.width
    if w % HEADS:
        raise SpaceError(
            f"The transformer splits the embedding width into {HEADS} heads, and {w} is not a multiple of {HEADS}.",
            f"Choose an embedding width such as {HEADS * max(1, round(w / HEADS))}.",
        )
    columns = [Span("", 0, w)]
    build.products(2 * s * s * w)  # queries with keys, weights with values
    return TransformerLayers(
        rows=build.linear(f"{name}.rows", s, build.row_spans(block.sparse_in), uses=w),
        attention_in=build.linear(f"{name}.attention.in", 3 * w, columns, norm=False, bias=True, uses=s),
        attention_out=build.residual(f"{name}.attention.out", columns, uses=s),
        ffn_in=build.linear(f"{name}.ffn.in", w, columns, norm=False, bias=True, uses=s),
        ffn_out=build.residual(f"{name}.ffn.out", columns, uses=s),
    )


def _merge(build: LayerBuilder, name: str, block: Block) -> Layer:
    return build.projection(name, MERGE_ROWS * build.shape.width, [Span("", 0, block.dense_dim)])


def _fm(build: LayerBuilder, name: str, block: Block) -> Layer:
    return build.projection(name, block.dense_dim, [Span("", 0, build.shape.width)])


_DENSE_SIDES = ("left", "right")
OPERATORS: dict[str, Operator] = {
    operator.name: operator
    for operator in (
        Operator(FC, DENSE, ("dense_in",), _fc),
        Operator(DOT, DENSE, ("dense_in", "sparse_in"), _dot),
        Operator(GATE, DENSE, _DENSE_SIDES, _gate),
        Operator(SUM, DENSE, _DENSE_SIDES, _sum, commutes=True),
        Operator(TRANSFORMER, SPARSE, ("sparse_in",), _transformer, label="attention"),
        Operator(EFC, SPARSE, ("sparse_in",), _efc),
    )
}


def register(operator: Operator) -> None:
    """Make an operator known to every NASRec space; its function is registered in `recnas.model.nasrec`."""
    if operator.name in OPERATORS and OPERATORS[operator.name] != operator:
        raise SpaceError(f"there is an operator {operator.name!r} already", "give yours another name")
    unknown = [name for name in operator.reads if name not in STREAM_READ_BY]
    if unknown or operator.stream not in (DENSE, SPARSE):
        raise SpaceError(
            f"the operator {operator.name!r} writes {operator.stream!r} and reads {', '.join(operator.reads)}",
            f"streams are {DENSE} and {SPARSE}, connections {', '.join(STREAM_READ_BY)}",
        )
    OPERATORS[operator.name] = operator


def operator_names(stream: str) -> tuple[str, ...]:
    """Every operator that writes this stream, in the order architectures name them."""
    return tuple(name for name, operator in OPERATORS.items() if operator.stream == stream)


def fields_read(ops: tuple[str, ...]) -> set[str]:
    """The connection fields of a block that these operators read."""
    return {name for op in ops for name in OPERATORS[op].reads}


def genes_read(ops: tuple[str, ...]) -> set[str]:
    """The further genes of a block that change these operators."""
    return {name for op in ops for name in OPERATORS[op].genes}


def parts_of(block: Block, live: LiveBlock) -> Iterator[tuple[str, ListLayers]]:
    """The parts of a block that are built, in order: operators, then merge and fm."""
    ops = (block.dense_ops if live.dense else ()) + (block.sparse_ops if live.sparse else ())
    for op in ops:
        yield op, OPERATORS[op].layers
    if live.merge:
        yield MERGE, _merge
    if live.fm:
        yield FM, _fm

"""The operators that `nasrec-plus` adds to NASRec's: one record each, as in `recnas.space.nasrec.operators`.

d dense_dim, s sparse_dim; x the dense inputs and flattened rows (`dense_in`, `flat_in`) behind each other; l and r
the dense inputs `left` and `right`; X and Y the rows `row_left` and `row_right`; D the embedding width. Vectors and rows
that have another size than the operator writes are cut, or padded with zeros.

| operator | gives | from |
|---|---|---|
| flat | x | |
| deep | W x + b | every perceptron |
| cross | r * (W l + b), W of rank `inner` | DCN-V2; with r = l DCNv3's exponential one |
| cross-vector | r * (w . l) + b | DCN |
| cross-gated | r * (W l + b) * sigmoid(G l) | GDCN |
| cross-masked | r * ([c, c * relu(norm(c))] + b), c = W l | DCNv3 |
| mask | W (x * V relu(U raw + a) + ...) | MaskNet |
| factorised | [a, a * c] of W x + b = [a, c] | FinalNet |
| context-gate | x * 2 sigmoid(V relu(U c + a) + b), c a vector | FinalMLP |
| fusion | sum of l W r, head by head | FinalMLP |
| pairs | products of all pairs of rows, added up; with d = 1 also over D | FM, DeepFM |
| weighted-pairs | the same with a strength per pair, and a weight per component | FwFM |
| dots | inner products of all pairs of rows, x being rows too | DLRM |
| gram | W times the inner products of X and Y | xDeepFM, maps that only the logit sees |
| bilinear | W [pairs of X, pairs of gated X, x] + b, a pair being x_i M * x_j | FiBiNET |
| fields | the vectors, and a vector per numeric column times its number | FM, Wukong, ... |
| normal | rows normalised one by one, with gain and offset | MaskNet |
| cin | W times the products of the rows of X and Y, component by component | xDeepFM |
| attend | attention between rows without bias, residual, ReLU | AutoInt |
| field-gate | x_i * (sum_j G_ij x_j + b_i) | FinalNet |
| wukong | LayerNorm([FM block, L X] + R X) | Wukong |

Every dense one of these then normalises, activates and adds the residual as its block says. Weights over `left`, `row_left` and
`row_right` are not bound to the input they come from: in a supernet, all inputs share the leading columns.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from recnas.space.nasrec.arch import DENSE, SPARSE, Block
from recnas.space.nasrec.layers import Layer, LayerBuilder, Span, total
from recnas.space.nasrec.operators import Operator, register
from recnas.space.plus.arch import PlusBlock

Norm = tuple[str, str] | None

FLAT, DEEP, MASK, FACTORISED = "flat", "deep", "mask", "factorised"
CROSS, CROSS_VECTOR, CROSS_GATED, CROSS_MASKED = "cross", "cross-vector", "cross-gated", "cross-masked"
PAIRS, GRAM, DOTS = "pairs", "gram", "dots"
FIELDS, NORMAL, CIN = "fields", "normal", "cin"

_WIDE = ("dense_in", "flat_in")
_FINISH = ("norm", "activation", "residual")


def run_of(n: int) -> list[Span]:
    """The leading `n` columns of a weight that is bound to no input."""
    return [Span("", 0, n)]


def norm_of(build: LayerBuilder, name: str, block: PlusBlock, n: int) -> Norm:
    """Gain and offset of the block's normalisation; batch and layer share theirs in a supernet."""
    return build.norm(name, n) if block.norm != "none" or not build.elide else None


class PlusLayers(NamedTuple):
    """A Linear, or nothing, and the normalisation of the block."""

    layer: Layer
    norm: Norm


class CrossLayers(NamedTuple):
    narrow: Layer  # to `inner` units; no weight at full rank
    cross: Layer
    gate: Layer
    norm: Norm


class MaskLayers(NamedTuple):
    narrow: Layer  # of the raw inputs
    widen: tuple[str, ...]  # [piece of x]
    widen_bias: tuple[str, ...]
    hidden: Layer
    norm: Norm


class ProductLayers(NamedTuple):
    weight: str | None  # [d or s, n (n + 1) / 2] of the rows with themselves
    square: str | None  # [d or s, left, right] of two inputs
    norm: Norm


def _block(block: Block) -> PlusBlock:
    assert isinstance(block, PlusBlock)
    return block


def _affine(build: LayerBuilder, name: str, out: int, columns: list[Span], bias: bool = True, uses: int = 1) -> Layer:
    return build.linear(name, out, columns, norm=False, bias=bias, uses=uses)


def _flat(build: LayerBuilder, name: str, block: Block) -> PlusLayers:
    return PlusLayers(Layer(), norm_of(build, name, _block(block), block.dense_dim))


def _deep(build: LayerBuilder, name: str, block: Block) -> PlusLayers:
    plus = _block(block)
    columns = build.wide_spans(plus.dense_in, plus.flat_in)
    return PlusLayers(_affine(build, name, plus.dense_dim, columns), norm_of(build, name, plus, plus.dense_dim))


def _left(build: LayerBuilder, block: Block) -> list[Span]:
    """The columns of what a cross reads: of a path with several inputs, the last."""
    return run_of(total(build.dense_spans(block.left[-1:])) if build.elide else build.shape.dense_max)


def _cross(build: LayerBuilder, name: str, block: Block) -> CrossLayers:
    plus, d, columns = _block(block), block.dense_dim, _left(build, block)
    narrow, cross = Layer(), Layer()
    if plus.inner or not build.elide:
        rank = plus.inner or MOST_INNER
        narrow = _affine(build, f"{name}.narrow", rank, columns, bias=False)
        cross = _affine(build, f"{name}.widen", d, run_of(rank))
    if not plus.inner or not build.elide:
        cross = _affine(build, name, d, columns)
    return CrossLayers(narrow, cross, Layer(), norm_of(build, name, plus, d))


def _cross_vector(build: LayerBuilder, name: str, block: Block) -> CrossLayers:
    weight = _affine(build, name, 1, _left(build, block), bias=False)
    bias = build.vector(f"{name}.bias", block.dense_dim, "zeros")
    return CrossLayers(Layer(), weight._replace(bias=bias), Layer(), norm_of(build, name, _block(block), block.dense_dim))


def _cross_gated(build: LayerBuilder, name: str, block: Block) -> CrossLayers:
    d, columns = block.dense_dim, _left(build, block)
    cross = _affine(build, name, d, columns)
    gate = _affine(build, f"{name}.gate", d, columns, bias=False)
    return CrossLayers(Layer(), cross, gate, norm_of(build, name, _block(block), d))


def first_half(units: int, width: int) -> int:
    """How many of `units` lie in the first halves of vectors of `width`; what is over counts as a vector begun."""
    half = (width + 1) // 2
    return units // width * half + min(units % width, half)


def _cross_masked(build: LayerBuilder, name: str, block: Block) -> CrossLayers:
    d = block.dense_dim
    first = first_half(d, build.shape.width)
    cross = _affine(build, name, first, _left(build, block), bias=False)
    bias = build.vector(f"{name}.bias", d, "zeros")
    return CrossLayers(Layer(), cross._replace(bias=bias), Layer(), norm_of(build, name, _block(block), first))


def _mask(build: LayerBuilder, name: str, block: Block) -> MaskLayers:
    plus = _block(block)
    inner, columns = plus.inner or MOST_INNER, build.wide_spans(plus.dense_in, plus.flat_in)
    narrow = _affine(build, f"{name}.narrow", inner, run_of(build.shape.raw_width))
    widen = build.param(f"{name}.widen.weight", (total(columns), inner), "xavier", columns, run_of(inner), uses=1)
    bias = build.param(f"{name}.widen.bias", (total(columns),), "zeros", columns)
    hidden = _affine(build, f"{name}.hidden", plus.dense_dim, columns, bias=False)
    return MaskLayers(narrow, widen, bias, hidden, norm_of(build, name, plus, plus.dense_dim))


def _pairs(build: LayerBuilder, name: str, block: Block) -> PlusLayers:
    return PlusLayers(Layer(), norm_of(build, name, _block(block), block.dense_dim))


def _dots(build: LayerBuilder, name: str, block: Block) -> PlusLayers:
    plus = _block(block)
    width = build.shape.width
    n = -(-total(build.dense_spans(plus.dense_in)) // width) + build.rows(plus.row_left)
    build.products(n * n * width)  # the whole Gram matrix
    return PlusLayers(Layer(), norm_of(build, name, plus, plus.dense_dim))


def _products(build: LayerBuilder, name: str, block: PlusBlock, out: int, uses: int) -> tuple[str | None, str | None]:
    """Weights of the products of two sets of rows; equal sets have each pair once."""
    left, right = build.rows(block.row_left), build.rows(block.row_right)
    weight = square = None
    if block.row_left == block.row_right or not build.elide:
        n = left if build.elide else build.shape.most_rows
        pairs = n * (n + 1) // 2
        (weight,) = build.param(f"{name}.weight", (out, pairs), "xavier", run_of(out), run_of(pairs), uses=uses)
    if block.row_left != block.row_right or not build.elide:
        if not build.elide:
            left = right = build.shape.most_rows
        spans = run_of(out), run_of(left), run_of(right)
        (square,) = build.param(f"{name}.square", (out, left, right), "products", *spans, uses=uses)
    return weight, square


def _gram(build: LayerBuilder, name: str, block: Block) -> ProductLayers:
    plus = _block(block)
    build.products(build.rows(plus.row_left) * build.rows(plus.row_right) * build.shape.width)
    weights = _products(build, name, plus, plus.dense_dim, 1)
    return ProductLayers(*weights, norm_of(build, name, plus, plus.dense_dim))


def _cin(build: LayerBuilder, name: str, block: Block) -> ProductLayers:
    return ProductLayers(*_products(build, name, _block(block), block.sparse_dim, build.shape.width), None)


def _fields(build: LayerBuilder, name: str, block: Block) -> str:
    return build.vector(f"{name}.weight", build.shape.dense_width * build.shape.width, "spread")


class NormalLayers(NamedTuple):
    gain: str
    offset: str


def _normal(build: LayerBuilder, name: str, block: Block) -> NormalLayers:
    return NormalLayers(*build.norm(name, block.sparse_dim * build.shape.width))


MOST_INNER = 256  # rank or inner width that a supernet has room for, and what 0 stands for where there is no full one

OWN = (
    Operator(FLAT, DENSE, _WIDE, _flat, genes=_FINISH),
    Operator(DEEP, DENSE, _WIDE, _deep, genes=_FINISH),
    Operator(CROSS, DENSE, ("left", "right"), _cross, genes=(*_FINISH, "inner")),
    Operator(CROSS_VECTOR, DENSE, ("left", "right"), _cross_vector, genes=_FINISH, label="cross-vec"),
    Operator(CROSS_GATED, DENSE, ("left", "right"), _cross_gated, genes=_FINISH, label="cross-gate"),
    Operator(CROSS_MASKED, DENSE, ("left", "right"), _cross_masked, genes=_FINISH, label="cross-mask"),
    Operator(MASK, DENSE, _WIDE, _mask, genes=(*_FINISH, "inner"), raw=True),
    Operator(PAIRS, DENSE, ("row_left",), _pairs, genes=_FINISH),
    Operator(GRAM, DENSE, ("row_left", "row_right"), _gram, genes=_FINISH),
    Operator(DOTS, DENSE, ("dense_in", "row_left"), _dots, genes=_FINISH),
    Operator(FIELDS, SPARSE, (), _fields, raw=True),
    Operator(NORMAL, SPARSE, ("row_left",), _normal),
    Operator(CIN, SPARSE, ("row_left", "row_right"), _cin),
)
for _operator in OWN:
    register(_operator)

CROSSES = (CROSS, CROSS_VECTOR, CROSS_GATED, CROSS_MASKED)
AS_WIDE_AS_DATA = (*CROSSES, FLAT)  # operators that a search begins with at the length of the raw inputs
INNER: dict[str, tuple[int, ...]] = {}
LOGITS: tuple[str, ...] = ()
FACTORS_OF: tuple[str, ...] = ()
WEIGHTS: dict[str, float] = {}
DRAWN: dict[str, tuple[Any, ...]] = {}
DENSE_OPS = tuple(operator.name for operator in OWN if operator.stream == DENSE)
SPARSE_OPS = tuple(operator.name for operator in OWN if operator.stream == SPARSE)

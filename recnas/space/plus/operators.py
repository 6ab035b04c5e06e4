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
| mask | W (x * (V relu(U raw + a) + b)) | MaskNet |
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

from typing import NamedTuple

from recnas.space.nasrec.arch import DENSE, SPARSE, Block
from recnas.space.nasrec.layers import Layer, LayerBuilder, Span, total
from recnas.space.nasrec.operators import Operator, register
from recnas.space.plus import field_operators as field
from recnas.space.plus.arch import PlusBlock, as_plus
from recnas.space.plus.parts import FINISH, MOST_INNER, WIDE, Norm, PlusLayers, affine, norm_of, run_of

FLAT, DEEP, MASK = "flat", "deep", "mask"
CROSS, CROSS_VECTOR, CROSS_GATED, CROSS_MASKED = "cross", "cross-vector", "cross-gated", "cross-masked"
PAIRS, GRAM, DOTS = "pairs", "gram", "dots"
FIELDS, NORMAL, CIN = "fields", "normal", "cin"


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


def _flat(build: LayerBuilder, name: str, block: Block) -> PlusLayers:
    return PlusLayers(Layer(), norm_of(build, name, as_plus(block), block.dense_dim))


def _deep(build: LayerBuilder, name: str, block: Block) -> PlusLayers:
    plus = as_plus(block)
    columns = build.wide_spans(plus.dense_in, plus.flat_in)
    return PlusLayers(affine(build, name, plus.dense_dim, columns), norm_of(build, name, plus, plus.dense_dim))


def _left(build: LayerBuilder, block: Block) -> list[Span]:
    """The columns of what a cross reads: of a path with several inputs, the last."""
    return run_of(total(build.dense_spans(block.left[-1:])) if build.elide else build.shape.dense_max)


def _cross(build: LayerBuilder, name: str, block: Block) -> CrossLayers:
    plus, d, columns = as_plus(block), block.dense_dim, _left(build, block)
    narrow, cross = Layer(), Layer()
    if plus.inner or not build.elide:
        rank = plus.inner or MOST_INNER
        narrow = affine(build, f"{name}.narrow", rank, columns, bias=False)
        cross = affine(build, f"{name}.widen", d, run_of(rank))
    if not plus.inner or not build.elide:
        cross = affine(build, name, d, columns)
    return CrossLayers(narrow, cross, Layer(), norm_of(build, name, plus, d))


def _cross_vector(build: LayerBuilder, name: str, block: Block) -> CrossLayers:
    weight = affine(build, name, 1, _left(build, block), bias=False)
    bias = build.vector(f"{name}.bias", block.dense_dim, "zeros")
    return CrossLayers(
        Layer(), weight._replace(bias=bias), Layer(), norm_of(build, name, as_plus(block), block.dense_dim)
    )


def _cross_gated(build: LayerBuilder, name: str, block: Block) -> CrossLayers:
    d, columns = block.dense_dim, _left(build, block)
    cross = affine(build, name, d, columns)
    gate = affine(build, f"{name}.gate", d, columns, bias=False)
    return CrossLayers(Layer(), cross, gate, norm_of(build, name, as_plus(block), d))


def first_half(units: int, width: int) -> int:
    """How many of `units` lie in the first halves of vectors of `width`; what is over counts as a vector begun."""
    half = (width + 1) // 2
    return units // width * half + min(units % width, half)


def _cross_masked(build: LayerBuilder, name: str, block: Block) -> CrossLayers:
    d = block.dense_dim
    first = first_half(d, build.shape.width)
    cross = affine(build, name, first, _left(build, block), bias=False)
    bias = build.vector(f"{name}.bias", d, "zeros")
    return CrossLayers(Layer(), cross._replace(bias=bias), Layer(), norm_of(build, name, as_plus(block), first))


def _mask(build: LayerBuilder, name: str, block: Block) -> MaskLayers:
    plus = as_plus(block)
    inner, columns = plus.inner or MOST_INNER, build.wide_spans(plus.dense_in, plus.flat_in)
    narrow = affine(build, f"{name}.narrow", inner, run_of(build.shape.raw_width))
    widen = build.param(f"{name}.widen.weight", (total(columns), inner), "xavier", columns, run_of(inner), uses=1)
    bias = build.param(f"{name}.widen.bias", (total(columns),), "zeros", columns)
    hidden = affine(build, f"{name}.hidden", plus.dense_dim, columns, bias=False)
    return MaskLayers(narrow, widen, bias, hidden, norm_of(build, name, plus, plus.dense_dim))


def _pairs(build: LayerBuilder, name: str, block: Block) -> PlusLayers:
    return PlusLayers(Layer(), norm_of(build, name, as_plus(block), block.dense_dim))


def _dots(build: LayerBuilder, name: str, block: Block) -> PlusLayers:
    plus = as_plus(block)
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
    plus = as_plus(block)
    build.products(build.rows(plus.row_left) * build.rows(plus.row_right) * build.shape.width)
    weights = _products(build, name, plus, plus.dense_dim, 1)
    return ProductLayers(*weights, norm_of(build, name, plus, plus.dense_dim))


def _cin(build: LayerBuilder, name: str, block: Block) -> ProductLayers:
    return ProductLayers(*_products(build, name, as_plus(block), block.sparse_dim, build.shape.width), None)


def _fields(build: LayerBuilder, name: str, block: Block) -> str:
    return build.vector(f"{name}.weight", build.shape.dense_width * build.shape.width, "spread")


class NormalLayers(NamedTuple):
    gain: str
    offset: str


def _normal(build: LayerBuilder, name: str, block: Block) -> NormalLayers:
    return NormalLayers(*build.norm(name, block.sparse_dim * build.shape.width))


OWN = (
    Operator(FLAT, DENSE, WIDE, _flat, genes=FINISH),
    Operator(DEEP, DENSE, WIDE, _deep, genes=FINISH),
    Operator(CROSS, DENSE, ("left", "right"), _cross, genes=(*FINISH, "inner")),
    Operator(CROSS_VECTOR, DENSE, ("left", "right"), _cross_vector, genes=FINISH, label="cross-vec"),
    Operator(CROSS_GATED, DENSE, ("left", "right"), _cross_gated, genes=FINISH, label="cross-gate"),
    Operator(CROSS_MASKED, DENSE, ("left", "right"), _cross_masked, genes=FINISH, label="cross-mask"),
    Operator(MASK, DENSE, WIDE, _mask, genes=(*FINISH, "inner"), raw=True),
    Operator(PAIRS, DENSE, ("row_left",), _pairs, genes=FINISH),
    Operator(GRAM, DENSE, ("row_left", "row_right"), _gram, genes=FINISH),
    Operator(DOTS, DENSE, ("dense_in", "row_left"), _dots, genes=FINISH),
    Operator(FIELDS, SPARSE, (), _fields, raw=True),
    Operator(NORMAL, SPARSE, ("row_left",), _normal),
    Operator(CIN, SPARSE, ("row_left", "row_right"), _cin),
)
ALL = (*OWN, *field.FIELD_OWN)
for _operator in ALL:
    register(_operator)

CROSSES = (CROSS, CROSS_VECTOR, CROSS_GATED, CROSS_MASKED)
ASWIDE_AS_DATA = (*CROSSES, FLAT)  # operators that a search begins with at the length of the raw inputs
# Widths inside that a search chooses from: 0 is a matrix of full rank, which only a cross has.
INNER: dict[str, tuple[int, ...]] = {
    CROSS: (0, 16, 32, 64, 128),
    MASK: (32, 64, 128, 256),
    field.GATED: (16, 32, 64),
}
LOGITS = (PAIRS, field.WEIGHTED, field.FUSION)  # operators that may give one number, a logit
CROSSES = (CROSS, CROSS_VECTOR, CROSS_GATED, CROSS_MASKED)
AS_WIDE_AS_DATA = (*CROSSES, FLAT, field.GATED)  # operators that a search begins with at the length of the raw inputs
DENSE_OPS = tuple(operator.name for operator in ALL if operator.stream == DENSE)
SPARSE_OPS = tuple(operator.name for operator in ALL if operator.stream == SPARSE)

"""Further operators of `nasrec-plus`, those of one family of models each; see `operators` for the table and the letters.

What `attend` writes may be wider than embeddings: `row_width` says how wide the rows of a block are.
"""

from __future__ import annotations

from typing import NamedTuple

from recnas.errors import SpaceError
from recnas.space.nasrec.arch import DENSE, SPARSE, Block
from recnas.space.nasrec.layers import Layer, LayerBuilder, total
from recnas.space.nasrec.operators import Operator
from recnas.space.plus.arch import as_plus
from recnas.space.plus.parts import FINISH, WIDE, Norm, PlusLayers, affine, norm_of, run_of

FACTORISED, GATED, FUSION = "factorised", "context-gate", "fusion"
WEIGHTED, BILINEAR = "weighted-pairs", "bilinear"
ATTEND, FIELD_GATE, WUKONG = "attend", "field-gate", "wukong"
MOST_HEADS, MOST_RANK = 4, 16  # that a supernet has room for


class GateLayers(NamedTuple):
    context: str | None  # a learned vector
    hidden: Layer
    out: tuple[str, ...]  # [piece of x]
    out_bias: tuple[str, ...]
    norm: Norm


class WeightedLayers(NamedTuple):
    strength: str
    linear: str
    norm: Norm


class BilinearLayers(NamedTuple):
    squeeze: Layer
    excite: Layer
    weight: str
    out: Layer
    norm: Norm


class AttendLayers(NamedTuple):
    project: str
    residual: str | None
    norm: Norm


class WukongLayers(NamedTuple):
    project: str  # Y
    norm: Norm  # of the products
    hidden: Layer
    hidden_norm: Norm
    out: Layer
    compress: str
    residual: str | None
    out_norm: tuple[str, str]


def _factorised(build: LayerBuilder, name: str, block: Block) -> PlusLayers:
    plus = as_plus(block)
    columns = build.wide_spans(plus.dense_in, plus.flat_in)
    return PlusLayers(affine(build, name, plus.dense_dim, columns), norm_of(build, name, plus, plus.dense_dim))


def _gated(build: LayerBuilder, name: str, block: Block) -> GateLayers:
    plus, width = as_plus(block), build.shape.width
    if plus.context >= build.shape.n_sparse:
        raise SpaceError(
            f"column {plus.context} gates, and the data have {build.shape.n_sparse} categorical columns",
            "name one of them, or -1 for a learned vector",
        )
    columns, inner = build.wide_spans(plus.dense_in, plus.flat_in), plus.inner or 256
    learned = build.vector(f"{name}.context", width, "spread") if plus.context < 0 else None
    # A learned vector is the same for all rows of a batch: its gate costs nothing per row.
    uses = 0 if learned else 1
    hidden = affine(build, f"{name}.hidden", inner, run_of(width), uses=uses)
    out = build.param(f"{name}.out.weight", (total(columns), inner), "xavier", columns, run_of(inner), uses=uses)
    bias = build.param(f"{name}.out.bias", (total(columns),), "zeros", columns)
    return GateLayers(learned, hidden, out, bias, norm_of(build, name, plus, plus.dense_dim))


class FusionLayers(NamedTuple):
    weight: str
    widths: tuple[int, int]  # of left and right, whole heads
    norm: Norm


def _fusion(build: LayerBuilder, name: str, block: Block) -> FusionLayers:
    """Weights `[heads, left / heads, right / heads]`; what does not fill a head is left out."""
    plus = as_plus(block)
    if build.elide:
        left, right = (total(build.dense_spans(side[-1:])) for side in (plus.left, plus.right))
        heads = min(plus.heads, left, right)
        left, right = left // heads, right // heads
    else:
        heads, left, right = MOST_HEADS, build.shape.dense_max, build.shape.dense_max
    axes = run_of(heads), run_of(left), run_of(right)
    (weight,) = build.param(f"{name}.weight", (heads, left, right), "fusion", *axes, uses=1)
    return FusionLayers(weight, (left * heads, right * heads), norm_of(build, name, plus, plus.dense_dim))


def _weighted(build: LayerBuilder, name: str, block: Block) -> WeightedLayers:
    plus, width = as_plus(block), build.shape.width
    n = build.rows(plus.row_left) if build.elide else build.shape.most_rows
    build.products(n * n * width)
    strength = build.vector(f"{name}.strength", n * (n - 1) // 2, "ones")
    linear = build.vector(f"{name}.linear", n * width, "spread")
    return WeightedLayers(strength, linear, norm_of(build, name, plus, plus.dense_dim))


def _bilinear(build: LayerBuilder, name: str, block: Block) -> BilinearLayers:
    plus, width = as_plus(block), build.shape.width
    n = build.rows(plus.row_left)
    pairs, x = n * (n - 1) // 2, build.dense_spans(plus.dense_in)
    squeezed = max(1, n // plus.reduction)
    squeeze = affine(build, f"{name}.squeeze", squeezed, run_of(n), bias=False)
    excite = affine(build, f"{name}.excite", n, run_of(squeezed), bias=False)
    matrices = {"all": (), "each": (n,), "interaction": (pairs,)}[plus.matrices]
    uses = {"all": 2 * n, "each": 2, "interaction": 2}[plus.matrices]
    axes = [*(run_of(count) for count in matrices), run_of(width), run_of(width)]
    (weight,) = build.param(f"{name}.weight", (*matrices, width, width), "heads", *axes, uses=uses)
    # One Linear over everything: the pairs first, as they are there in any case.
    out = affine(build, f"{name}.out", plus.dense_dim, run_of(2 * pairs * width + total(x)))
    return BilinearLayers(squeeze, excite, weight, out, norm_of(build, name, plus, plus.dense_dim))


def _attend(build: LayerBuilder, name: str, block: Block) -> AttendLayers:
    plus = as_plus(block)
    before, n = build.row_width(plus.row_left), build.rows(plus.row_left)
    out = plus.row_width(build.shape.width)
    build.products(2 * n * n * out)
    (project,) = build.param(f"{name}.project", (3 * out, before), "xavier", run_of(3 * out), run_of(before), uses=n)
    residual = None
    if plus.shortcut == "linear" or (plus.shortcut == "plain" and before != out) or not build.elide:
        (residual,) = build.param(f"{name}.residual", (out, before), "xavier", run_of(out), run_of(before), uses=n)
    norm = build.norm(name, out) if plus.row_norm or not build.elide else None
    return AttendLayers(project, residual, norm)


def _field_gate(build: LayerBuilder, name: str, block: Block) -> Layer:
    plus = as_plus(block)
    n = build.rows(plus.row_left) if build.elide else build.shape.most_rows
    (weight,) = build.param(f"{name}.weight", (n, n), "zeros", run_of(n), run_of(n), uses=build.shape.width)
    return Layer((weight,), build.vector(f"{name}.bias", n, "ones"))


def _wukong(build: LayerBuilder, name: str, block: Block) -> WukongLayers:
    """Half of the rows are compressed linearly, the others come from the factorization machine block."""
    plus, width = as_plus(block), build.shape.width
    n = build.rows(plus.row_left) if build.elide else build.shape.most_rows
    s, rank = plus.sparse_dim, plus.rank if build.elide else MOST_RANK
    machine = s - s // 2
    build.products(n * rank * width)  # X (X^T Y)
    rows, ranks = run_of(n), run_of(rank)
    (project,) = build.param(f"{name}.project", (rank, n), "xavier", ranks, rows, uses=width)
    norm = build.norm(f"{name}.products", n * rank)
    axes = run_of(plus.hidden), rows, ranks
    weight = build.param(f"{name}.hidden.weight", (plus.hidden, n, rank), "products", *axes, uses=1)
    hidden = Layer(weight, build.vector(f"{name}.hidden.bias", plus.hidden, "zeros"))
    hidden_norm = norm_of(build, f"{name}.hidden", plus, plus.hidden)
    out = affine(build, f"{name}.out", machine * width, run_of(plus.hidden))
    (compress,) = build.param(f"{name}.compress", (s // 2, n), "xavier", run_of(s // 2), rows, uses=width)
    residual = None
    if n != s or not build.elide:
        (residual,) = build.param(f"{name}.residual", (s, n), "xavier", run_of(s), rows, uses=width)
    return WukongLayers(project, norm, hidden, hidden_norm, out, compress, residual, build.norm(name, width))


DROP_INSIDE = (ATTEND, WUKONG)  # they drop out themselves, where their papers do

FIELD_OWN = (
    Operator(FACTORISED, DENSE, WIDE, _factorised, genes=FINISH),
    Operator(GATED, DENSE, WIDE, _gated, genes=(*FINISH, "inner", "context"), label="ctx-gate"),
    Operator(FUSION, DENSE, ("left", "right"), _fusion, genes=(*FINISH, "heads")),
    Operator(WEIGHTED, DENSE, ("row_left",), _weighted, genes=FINISH, label="w-pairs"),
    Operator(BILINEAR, DENSE, ("dense_in", "row_left"), _bilinear, genes=(*FINISH, "matrices", "reduction")),
    Operator(
        ATTEND, SPARSE, ("row_left",), _attend, genes=("heads", "head_width", "scaled", "shortcut", "row_norm")
    ),
    Operator(FIELD_GATE, SPARSE, ("row_left",), _field_gate),
    Operator(WUKONG, SPARSE, ("row_left",), _wukong, genes=("rank", "hidden", "norm")),
)  # fmt: skip

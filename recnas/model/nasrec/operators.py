"""The computation of each NASRec operator: one function per record of `recnas.space.nasrec.operators`.

A function is given the record of layers that its operator listed, and what its block reads (`BlockInputs`). It
returns `[B, d]` for a dense operator, `[D, B, rows]` for a sparse one.

Layouts. Dense stream `[B, d]`. Sparse stream `[D, B, rows]`: with rows last a Linear over rows is one
matrix product over D * B vectors, and LayerNorm and FM work along the last axis; with D first the layers of
the transformer, which mix along D, are one product `[n, D] @ [D, B * rows]`. Nothing is ever transposed.

Weights arrive as tuples. With one weight, the inputs are concatenated and multiplied once (a standalone
network); with one weight per input, the products are accumulated (leaf views of the supernet).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from recnas.model import kernels, observe
from recnas.space.nasrec.arch import DOT, EFC, FC, GATE, SUM, TRANSFORMER, Block
from recnas.space.nasrec.layers import Layer, NetShape
from recnas.space.nasrec.operators import HEADS, DotLayers, GateLayers, SumLayers, TransformerLayers


def relu(x: Tensor, batch_axis: int = 0) -> Tensor:
    if observe.listening():
        observe.relu(x, batch_axis)
        return torch.relu(x)
    # In place: what comes before (a Linear or a LayerNorm) does not need its own output for backward.
    return torch.relu_(x)


def silu(x: Tensor, batch_axis: int = 0) -> Tensor:
    return F.silu(x)


ACTIVATIONS: dict[str, Callable[[Tensor, int], Tensor]] = {"relu": relu, "silu": silu}


class Weights(NamedTuple):
    """The tensors of one layer: Linear (no weight: identity), then LayerNorm where there is one."""

    weight: Sequence[Tensor] = ()
    bias: Tensor | None = None
    norm: tuple[Tensor, Tensor] | None = None


@dataclass(frozen=True)
class BlockInputs:
    """What the operators of one block are given. A connection that none of them reads is empty."""

    block: Block
    shape: NetShape
    params: Mapping[str, Tensor]
    dense_in: Sequence[Tensor]
    left: Sequence[Tensor]
    right: Sequence[Tensor]
    rows: Sequence[Tensor]  # of sparse_in, joined unless memory is short

    def weights(self, layer: Layer) -> Weights:
        """The tensors of a layer."""
        return Weights(
            tuple(self.params[name] for name in layer.weight),
            self.params[layer.bias] if layer.bias else None,
            (self.params[layer.norm[0]], self.params[layer.norm[1]]) if layer.norm else None,
        )

    def activate(self, x: Tensor, batch_axis: int = 0) -> Tensor:
        return ACTIVATIONS[self.shape.activation](x, batch_axis)


def fc(layers: Layer, given: BlockInputs) -> Tensor:
    return given.activate(dense_layer(given.dense_in, given.weights(layers)))


def dense_layer(xs: Sequence[Tensor], layer: Weights) -> Tensor:
    """Linear over the concatenation of `xs: [B, k_j]`, then LayerNorm."""
    if not layer.weight:
        out = join(xs)
    elif len(layer.weight) == len(xs):
        out = kernels.linear(xs, layer.weight, layer.bias)
    else:
        out = kernels.linear((join(xs),), layer.weight, layer.bias)
    return layer_norm(out, layer.norm)


def row_layer(xs: Sequence[Tensor], layer: Weights) -> Tensor:
    """Linear over the joined rows of `xs: [D, B, rows_j]` to `[D, B, n]`, then LayerNorm over the n rows."""
    if not layer.weight:
        out = join(xs)
    elif observe.listening():
        out = _reported_row_layer(join(xs), layer)
    elif len(xs) > 1 and len(layer.weight) == len(xs):
        flat = kernels.linear([x.flatten(0, 1) for x in xs], layer.weight, layer.bias)
        out = flat.unflatten(0, xs[0].shape[:2])
    else:
        # A weight over rows is at most a few tens of kilobytes: joining its pieces costs less than
        # accumulating one product after the other.
        out = F.linear(join(xs), join(layer.weight), layer.bias)
    return layer_norm(out, layer.norm)


def _reported_row_layer(x: Tensor, layer: Weights) -> Tensor:
    """The same for a listener: every weight on its own rows, examples on axis 1."""
    pieces = x.split([weight.shape[1] for weight in layer.weight], -1)
    out = sum(F.linear(piece, weight) for piece, weight in zip(pieces[1:], layer.weight[1:]))
    out = F.linear(pieces[0], layer.weight[0], layer.bias) + out
    for piece, weight, bias in zip(pieces, layer.weight, (layer.bias, *[None] * (len(pieces) - 1))):
        observe.linear(weight, piece, out, bias, batch_axis=1)
    return out


def layer_norm(x: Tensor, norm: tuple[Tensor, Tensor] | None) -> Tensor:
    if norm is None or observe.norms_are_off():
        return x
    observe.norm(x, tuple(range(x.dim() - 1)))
    return F.layer_norm(x, (x.shape[-1],), norm[0], norm[1])


def join(xs: Sequence[Tensor]) -> Tensor:
    return xs[0] if len(xs) == 1 else torch.cat(tuple(xs), -1)


def pad(x: Tensor, width: int) -> Tensor:
    """Zeros on the right up to `width`."""
    return x if x.shape[-1] == width else F.pad(x, (0, width - x.shape[-1]))


def dot(layers: DotLayers, given: BlockInputs) -> Tensor:
    """Products of all pairs among one row made from the dense inputs (first) and p sparse rows."""
    first = dense_layer(given.dense_in, given.weights(layers.dense)).t().unsqueeze(-1)  # [D, B, 1]
    rows = row_layer(given.rows, given.weights(layers.rows))
    products = kernels.pairwise_dots(torch.cat((first, rows), -1).transpose(0, 1))
    return dense_layer((products,), given.weights(layers.out))


def gate(layers: GateLayers, given: BlockInputs) -> Tensor:
    """`sigmoid(square(left)) * right`, then Linear.

    `square[i]` holds the rows that gate right piece i. With `padded` both sides are first joined and
    padded to that width, as a standalone square Linear needs; without, zeros are never multiplied.
    """
    left, right = given.left, given.right
    if layers.padded:
        left, right = (pad(join(left), layers.padded),), (pad(join(right), layers.padded),)
    gated = []
    for rows, bias, x in zip(layers.square, layers.square_bias, right):
        square = [given.params[name] for name in rows]
        gated.append(torch.sigmoid(kernels.linear(left, square, given.params[bias])) * x)
    out = given.weights(layers.out)
    if not out.weight:
        gated = [pad(join(gated), given.block.dense_dim)]
    return dense_layer(gated, out)


def add(layers: SumLayers, given: BlockInputs) -> Tensor:
    """`left + right`, the shorter padded with zeros, then Linear; `widths` cuts the sum for its weights."""
    width, out = sum(layers.widths), given.weights(layers.out)
    total = pad(join(given.left), width) + pad(join(given.right), width)
    return dense_layer(total.split(list(layers.widths), -1) if len(out.weight) > 1 else (total,), out)


def efc(layers: Layer, given: BlockInputs) -> Tensor:
    return given.activate(row_layer(given.rows, given.weights(layers)), 1)


def transformer(layers: TransformerLayers, given: BlockInputs) -> Tensor:
    """Linear over rows, then one post-norm encoder layer over the rows as tokens of width D."""
    to_rows, attend, mix, grow, shrink = map(given.weights, layers)
    x = row_layer(given.rows, to_rows)
    attended = kernels.attention(column_layer(x, attend), HEADS)
    x = column_norm(x + column_layer(attended, mix), mix.norm)
    hidden = relu(column_layer(x, grow), 1)
    return column_norm(x + column_layer(hidden, shrink), shrink.norm)


# By the name of the operator; `register` adds to it.
FORWARDS: dict[str, Callable[[Any, BlockInputs], Tensor]] = {
    FC: fc,
    DOT: dot,
    GATE: gate,
    SUM: add,
    TRANSFORMER: transformer,
    EFC: efc,
}


def register(name: str, forward: Callable[[Any, BlockInputs], Tensor]) -> None:
    """Give the operator `name` (see `recnas.space.nasrec.operators.register`) its computation."""
    FORWARDS[name] = forward


def column_layer(x: Tensor, layer: Weights) -> Tensor:
    """Linear along D, `[D, B, rows]` to `[n, B, rows]`; always with a bias."""
    assert layer.bias is not None
    out = torch.addmm(layer.bias.unsqueeze(1), layer.weight[0], x.flatten(1)).unflatten(1, x.shape[1:])
    observe.linear(layer.weight[0], x, out, layer.bias, axis=0, batch_axis=1)
    return out


def column_norm(x: Tensor, norm: tuple[Tensor, Tensor] | None) -> Tensor:
    assert norm is not None
    if observe.norms_are_off():
        return x
    observe.norm(x, tuple(range(1, x.dim())))
    return kernels.column_norm(x, norm[0], norm[1])


def factorization_machine(rows: Tensor) -> Tensor:
    """Square of the sum minus sum of the squares, `[D, B, rows]` to `[B, D]` (no factor 1/2)."""
    total = rows.sum(-1)
    return (total * total - rows.square().sum(-1)).t()


def merge_rows(dense: Tensor, layer: Weights, width: int) -> Tensor:
    """The dense stream as 8 extra rows, `[B, d]` to `[D, B, 8]`."""
    return dense_layer((dense,), layer).unflatten(1, (-1, width)).permute(2, 0, 1)


def as_logits(out: Tensor) -> Tensor:
    """`[B, L]`, or `[B]` of a single label."""
    return out.squeeze(1) if out.shape[1] == 1 else out


def logit(parts: Sequence[Tensor], weights: Sequence[Tensor], bias: Tensor, widths: Sequence[int]) -> Tensor:
    """Linear to one number per label. Parts `[B, d]` or `[D, B, rows]`; a weight `[L, n]` counts row by row.

    One weight for all parts is cut by `widths`.
    """
    if observe.listening():
        return _reported_logit(parts, weights, bias)
    if len(weights) != len(parts):
        weights = weights[0].split(list(widths), 1)
    out = bias
    for part, weight in zip(parts, weights):
        if part.dim() == 3:
            by_column = weight.view(weight.shape[0], part.shape[2], part.shape[0]).permute(2, 1, 0)  # [D, rows, L]
            out = out + as_logits(torch.bmm(part, by_column).sum(0))
        else:
            out = out + as_logits(torch.mm(part, weight.t()))
    return out


def _reported_logit(parts: Sequence[Tensor], weights: Sequence[Tensor], bias: Tensor) -> Tensor:
    flat = [part.permute(1, 2, 0).flatten(1) if part.dim() == 3 else part for part in parts]
    observe.features(join(flat))
    if len(weights) != len(flat):
        flat = [join(flat)]
    return as_logits(kernels.linear(flat, weights, bias))

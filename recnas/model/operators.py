"""The operators of a NASRec block, as functions of tensors.

Layouts. Dense stream `[B, d]`. Sparse stream `[D, B, rows]`: with rows last a Linear over rows is one
matrix product over D * B vectors, and LayerNorm and FM work along the last axis; with D first the layers of
the transformer, which mix along D, are one product `[n, D] @ [D, B * rows]`. Nothing is ever transposed.

Weights arrive as tuples. With one weight, the inputs are concatenated and multiplied once (a standalone
network); with one weight per input, the products are accumulated (leaf views of the supernet).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from recnas.model import kernels, taps


def relu(x: Tensor, batch_axis: int = 0) -> Tensor:
    if taps.listening():
        taps.relu(x, batch_axis)
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
    elif taps.listening():
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
        taps.linear(weight, piece, out, bias, batch_axis=1)
    return out


def layer_norm(x: Tensor, norm: tuple[Tensor, Tensor] | None) -> Tensor:
    if norm is None or taps.norms_are_off():
        return x
    taps.norm(x, tuple(range(x.dim() - 1)))
    return F.layer_norm(x, (x.shape[-1],), norm[0], norm[1])


def join(xs: Sequence[Tensor]) -> Tensor:
    return xs[0] if len(xs) == 1 else torch.cat(tuple(xs), -1)


def pad(x: Tensor, width: int) -> Tensor:
    """Zeros on the right up to `width`."""
    return x if x.shape[-1] == width else F.pad(x, (0, width - x.shape[-1]))


def dot(
    dense: Sequence[Tensor], rows: Sequence[Tensor], to_row: Weights, to_rows: Weights, out: Weights
) -> Tensor:
    """Products of all pairs among one row made from the dense inputs (first) and p sparse rows."""
    first = dense_layer(dense, to_row).t().unsqueeze(-1)  # [D, B, 1]
    products = kernels.pairwise_dots(torch.cat((first, row_layer(rows, to_rows)), -1).transpose(0, 1))
    return dense_layer((products,), out)


def gate(
    left: Sequence[Tensor],
    right: Sequence[Tensor],
    square: Sequence[Sequence[Tensor]],
    square_bias: Sequence[Tensor],
    padded: int,
    width: int,
    out: Weights,
) -> Tensor:
    """`sigmoid(square(left)) * right`, then Linear.

    `square[i]` holds the rows that gate right piece i. With `padded` both sides are first joined and
    padded to that width, as a standalone square Linear needs; without, zeros are never multiplied.
    `width` is that of the result.
    """
    if padded:
        left, right = (pad(join(left), padded),), (pad(join(right), padded),)
    gated = [
        torch.sigmoid(kernels.linear(left, rows, bias)) * x
        for rows, bias, x in zip(square, square_bias, right)
    ]
    if not out.weight:
        gated = [pad(join(gated), width)]
    return dense_layer(gated, out)


def add(left: Sequence[Tensor], right: Sequence[Tensor], widths: Sequence[int], out: Weights) -> Tensor:
    """`left + right`, the shorter padded with zeros, then Linear. `widths` cuts the sum for its weights."""
    width = sum(widths)
    total = pad(join(left), width) + pad(join(right), width)
    return dense_layer(total.split(list(widths), -1) if len(out.weight) > 1 else (total,), out)


def transformer(
    rows: Sequence[Tensor],
    to_rows: Weights,
    attend: Weights,
    mix: Weights,
    grow: Weights,
    shrink: Weights,
    *,
    heads: int,
) -> Tensor:
    """Linear over rows, then one post-norm encoder layer over the rows as tokens of width D."""
    x = row_layer(rows, to_rows)
    attended = kernels.attention(column_layer(x, attend), heads)
    x = column_norm(x + column_layer(attended, mix), mix.norm)
    hidden = relu(column_layer(x, grow), 1)
    return column_norm(x + column_layer(hidden, shrink), shrink.norm)


def column_layer(x: Tensor, layer: Weights) -> Tensor:
    """Linear along D, `[D, B, rows]` to `[n, B, rows]`; always with a bias."""
    assert layer.bias is not None
    out = torch.addmm(layer.bias.unsqueeze(1), layer.weight[0], x.flatten(1)).unflatten(1, x.shape[1:])
    taps.linear(layer.weight[0], x, out, layer.bias, axis=0, batch_axis=1)
    return out


def column_norm(x: Tensor, norm: tuple[Tensor, Tensor] | None) -> Tensor:
    assert norm is not None
    if taps.norms_are_off():
        return x
    taps.norm(x, tuple(range(1, x.dim())))
    return kernels.column_norm(x, norm[0], norm[1])


def factorization_machine(rows: Tensor) -> Tensor:
    """Square of the sum minus sum of the squares, `[D, B, rows]` to `[B, D]` (no factor 1/2)."""
    total = rows.sum(-1)
    return (total * total - rows.square().sum(-1)).t()


def merge_rows(dense: Tensor, layer: Weights, width: int) -> Tensor:
    """The dense stream as 8 extra rows, `[B, d]` to `[D, B, 8]`."""
    return dense_layer((dense,), layer).unflatten(1, (-1, width)).permute(2, 0, 1)


def logit(parts: Sequence[Tensor], weights: Sequence[Tensor], bias: Tensor, widths: Sequence[int]) -> Tensor:
    """Linear to one number. Parts `[B, d]` or `[D, B, rows]`; a weight `[1, n]` counts row by row.

    One weight for all parts is cut by `widths`.
    """
    if taps.listening():
        return _reported_logit(parts, weights, bias)
    if len(weights) != len(parts):
        weights = weights[0].split(list(widths), 1)
    out = bias
    for part, weight in zip(parts, weights):
        if part.dim() == 3:
            by_column = weight.view(part.shape[2], part.shape[0]).t().unsqueeze(-1)  # [D, rows, 1]
            out = out + torch.bmm(part, by_column).sum(0).squeeze(-1)
        else:
            out = out + torch.mm(part, weight.t()).squeeze(-1)
    return out


def _reported_logit(parts: Sequence[Tensor], weights: Sequence[Tensor], bias: Tensor) -> Tensor:
    flat = [part.permute(1, 2, 0).flatten(1) if part.dim() == 3 else part for part in parts]
    taps.features(join(flat))
    if len(weights) != len(flat):
        flat = [join(flat)]
    return kernels.linear(flat, weights, bias).squeeze(-1)

"""The computation of the operators of `recnas.space.plus.field_operators`, one function per record."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from recnas.model import kernels, observe
from recnas.model.nasrec.operators import column_norm, join, relu
from recnas.model.plus.inputs import PlusInputs, affine, fit, over_rows
from recnas.model.plus.norms import normalise
from recnas.space.nasrec.layers import Layer
from recnas.space.plus.field_operators import (
    AttendLayers,
    BilinearLayers,
    FusionLayers,
    GateLayers,
    WeightedLayers,
    WukongLayers,
)
from recnas.space.plus.parts import PlusLayers


def factorised(layers: PlusLayers, given: PlusInputs) -> Tensor:
    """Halves a and c of a Linear as [a, a * c]; of an odd number of units the last stays as it is."""
    wide = given.wide
    y = affine(wide, layers.layer, given)
    half = y.shape[1] // 2
    first, second, rest = y.split([half, half, y.shape[1] - 2 * half], 1)
    return given.finish(torch.cat((first, first * second, rest), 1), layers.norm, wide)


def context_gate(layers: GateLayers, given: PlusInputs) -> Tensor:
    wide = given.wide
    if layers.context is not None:
        context = given.params[layers.context].unsqueeze(0)
        if observe.listening():
            context = context.expand(given.streams.batch, -1)
    else:
        context = given.streams.vectors[:, given.genes.context]
    hidden = relu(affine((context,), layers.hidden, given))
    weights = [given.params[name] for name in layers.out]
    biases = [given.params[name] for name in layers.out_bias]
    xs = wide if len(weights) == len(wide) else [join(wide)]
    gated = [x * (2 * torch.sigmoid(kernels.linear((hidden,), (w,), b))) for x, w, b in zip(xs, weights, biases)]
    return given.finish(fit(join(gated), given.block.dense_dim), layers.norm, wide)


def fusion(layers: FusionLayers, given: PlusInputs) -> Tensor:
    weight = given.params[layers.weight]
    left, right = (fit(side[-1], width) for side, width in zip((given.left, given.right), layers.widths))
    heads, batch = len(weight), left.shape[0]
    per_head = left.reshape(batch, heads, -1).transpose(0, 1)  # [heads, B, left / heads]
    crossed = torch.bmm(per_head, weight).transpose(0, 1).reshape(batch, -1)
    y = (crossed * right).sum(1, keepdim=True)
    if observe.listening():
        products = left.reshape(batch, heads, -1, 1) * right.reshape(batch, heads, 1, -1)
        observe.linear(weight, products.flatten(1), y)
    return given.finish(fit(y, given.block.dense_dim), layers.norm)


@lru_cache(maxsize=64)
def _pairs(n: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Members of the pairs, those of the leading rows first."""
    first, second = torch.tril_indices(n, n, -1)
    return first.to(device), second.to(device)


def weighted_pairs(layers: WeightedLayers, given: PlusInputs) -> Tensor:
    rows = given.set_of_rows(given.genes.row_left)  # [D, B, n]
    width, _, n = rows.shape
    between = rows.new_zeros(n, n).index_put(_pairs(n, rows.device), given.params[layers.strength])
    linear = given.params[layers.linear].view(n, width).t().unsqueeze(1)
    y = ((rows @ between + linear) * rows).sum((0, 2)).unsqueeze(1)
    return given.finish(fit(y, given.block.dense_dim), layers.norm)


def bilinear(layers: BilinearLayers, given: PlusInputs) -> Tensor:
    genes, weight = given.genes, given.params[layers.weight]
    rows = given.set_of_rows(genes.row_left).permute(1, 2, 0)  # [B, n, D]
    n = rows.shape[1]
    left, right = torch.triu_indices(n, n, 1, device=rows.device)
    squeezed = relu(affine((rows.mean(2),), layers.squeeze, given))
    importance = relu(affine((squeezed,), layers.excite, given))
    parts = []
    for x in (rows, rows * importance.unsqueeze(2)):
        if genes.matrices == "all":
            turned = F.linear(x, weight)
            observe.linear(weight, x, turned)
            first = turned.index_select(1, left)
        elif genes.matrices == "each":
            first = torch.bmm(x.transpose(0, 1), weight.transpose(1, 2)).index_select(0, left).transpose(0, 1)
        else:
            first = torch.bmm(x.transpose(0, 1).index_select(0, left), weight.transpose(1, 2)).transpose(0, 1)
        parts.append((first * x.index_select(1, right)).flatten(1))
    parts += given.dense_in
    return given.finish(affine((join(parts),), layers.out, given), layers.norm)


def attend(layers: AttendLayers, given: PlusInputs) -> Tensor:
    """Attention without biases between the rows, `[D, B, n]` to `[heads head_width, B, n]`."""
    x = given.set_of_rows(given.genes.row_left)
    project = given.params[layers.project]
    three = _over_components(x, project)
    out = three.shape[0] // 3
    heads = given.genes.heads if given.genes.head_width else math.gcd(given.genes.heads, out)
    if not given.genes.scaled:  # the kernel divides scores by this
        query, rest = three.split([out, 2 * out])
        three = torch.cat((query * math.sqrt(out // heads), rest))
    attended = kernels.attention(three, heads) if x.shape[2] else three[:out]  # nobody to attend to
    mixed = given.drop(attended.flatten(1)).view(out, *x.shape[1:])
    if layers.residual is not None:
        mixed = mixed + _over_components(x, given.params[layers.residual])
    elif given.genes.shortcut == "plain":
        mixed = mixed + x
    if layers.norm is not None and given.genes.row_norm:
        gain, offset = (given.params[name] for name in layers.norm)
        mixed = column_norm(mixed, (gain, offset))
    if observe.listening():
        observe.relu(mixed, 1)
    return fit(torch.relu(mixed), given.block.sparse_dim)


def _over_components(x: Tensor, weight: Tensor) -> Tensor:
    out = (weight @ x.flatten(1)).unflatten(1, x.shape[1:])
    observe.linear(weight, x, out, axis=0, batch_axis=1)
    return out


def field_gate(layers: Layer, given: PlusInputs) -> Tensor:
    rows = given.set_of_rows(given.genes.row_left)
    (name,) = layers.weight
    mixed = over_rows(rows, given.params[name], given.params[layers.bias or ""])
    return fit(rows * mixed, given.block.sparse_dim)


def wukong(layers: WukongLayers, given: PlusInputs) -> Tensor:
    rows = given.set_of_rows(given.genes.row_left)  # X, [D, B, n]
    width, batch, _ = rows.shape
    compressed = over_rows(rows, given.params[layers.project])  # X^T Y, [D, B, rank]
    products = torch.bmm(rows.permute(1, 2, 0), compressed.transpose(0, 1)).flatten(1)
    products = normalise(products, "layer", layers.norm, given.params, None)
    weight = given.params[layers.hidden.weight[0]]
    hidden = F.linear(products, weight.flatten(1), given.params[layers.hidden.bias or ""])
    observe.linear(weight, products, hidden, given.params[layers.hidden.bias or ""])
    hidden = normalise(hidden, given.genes.norm, layers.hidden_norm, given.params, given.statistics)
    machine = affine((given.drop(relu(hidden)),), layers.out, given).view(batch, -1, width).permute(2, 0, 1)
    new = torch.cat((machine, over_rows(rows, given.params[layers.compress])), 2)
    shortcut = rows if layers.residual is None else over_rows(rows, given.params[layers.residual])
    gain, offset = layers.out_norm
    return column_norm(new + shortcut, (given.params[gain], given.params[offset]))

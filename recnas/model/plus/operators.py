"""The computation of each operator that `nasrec-plus` adds: one function per record of `recnas.space.plus.operators`."""

from __future__ import annotations

from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from recnas.model import kernels, observe
from recnas.model.nasrec.operators import join, register, relu
from recnas.model.plus import field_operators as more
from recnas.model.plus.inputs import PlusInputs, affine, fit
from recnas.space.plus import field_operators as field
from recnas.space.plus import operators as records
from recnas.space.plus.operators import CrossLayers, MaskLayers, NormalLayers, ProductLayers
from recnas.space.plus.parts import PlusLayers


def flat(layers: PlusLayers, given: PlusInputs) -> Tensor:
    wide = given.wide
    y = fit(join(wide), given.block.dense_dim)
    if given.genes.activation == "relu":
        y = y.clone()  # the activation works in place
    return given.finish(y, layers.norm, wide)


def deep(layers: PlusLayers, given: PlusInputs) -> Tensor:
    wide = given.wide
    return given.finish(affine(wide, layers.layer, given), layers.norm, wide)


def cross(layers: CrossLayers, given: PlusInputs) -> Tensor:
    left = (given.left[-1],)
    x = left
    if layers.narrow.weight:
        x = (affine(left, layers.narrow, given),)
    return _crossed(affine(x, layers.cross, given), layers, given)


def _crossed(factor: Tensor, layers: CrossLayers, given: PlusInputs) -> Tensor:
    """`right * factor`, finished; a plain cross with its residual is one operation."""
    start, genes = fit(given.right[-1], factor.shape[1]), given.genes
    if genes.residual and genes.norm == genes.activation == "none":
        return torch.addcmul(fit(given.left[-1], factor.shape[1]), start, factor)
    return given.finish(start * factor, layers.norm, given.left[-1:])


def cross_vector(layers: CrossLayers, given: PlusInputs) -> Tensor:
    along = affine((given.left[-1],), layers.cross, given, bias=False)  # [B, 1]
    start = fit(given.right[-1], given.block.dense_dim)
    return given.finish(
        torch.addcmul(given.params[layers.cross.bias or ""], start, along), layers.norm, given.left[-1:]
    )


def cross_gated(layers: CrossLayers, given: PlusInputs) -> Tensor:
    left = (given.left[-1],)
    gate = torch.sigmoid(affine(left, layers.gate, given))
    return _crossed(affine(left, layers.cross, given) * gate, layers, given)


def cross_masked(layers: CrossLayers, given: PlusInputs) -> Tensor:
    """The self-mask is normalised as the block says; what comes out is not."""
    d, width = given.block.dense_dim, given.shape.width
    c = affine((given.left[-1],), layers.cross, given, bias=False)
    normal = given.normalised(c, layers.norm)
    masked = c * relu(normal + 0.0 if normal is c else normal)
    half = (width + 1) // 2
    full = d // width
    # The first half of every vector is c, the second half the masked c, cut if vectors are odd.
    cut = full * half
    pairs = torch.cat((c[:, :cut].unflatten(1, (full, half)), masked[:, :cut].unflatten(1, (full, half))), 2)
    both = [pairs[..., :width].flatten(1)] if full else []
    rest = d - full * width
    if rest:
        both += [c[:, cut:], masked[:, cut:][:, : rest - min(rest, half)]]
    factor = join(both) + given.params[layers.cross.bias or ""]
    start = fit(given.right[-1], d)
    y = given.activated(start * factor)
    return y + fit(given.left[-1], d) if given.genes.residual else y


def mask(layers: MaskLayers, given: PlusInputs) -> Tensor:
    wide = given.wide
    narrow = relu(affine((given.streams.raw,), layers.narrow, given))
    widen = [given.params[name] for name in layers.widen]
    bias = [given.params[name] for name in layers.widen_bias]
    xs = wide if len(widen) == len(wide) else [join(wide)]
    masked = [x * kernels.linear((narrow,), (w,), b) for x, w, b in zip(xs, widen, bias)]
    return given.finish(affine(masked, layers.hidden, given), layers.norm, wide)


def pairs(layers: PlusLayers, given: PlusInputs) -> Tensor:
    rows = given.set_of_rows(given.genes.row_left)  # [D, B, n]
    total = rows.sum(-1)
    products = 0.5 * (total.square() - rows.square().sum(-1)).t()  # [B, D]
    d = given.block.dense_dim
    return given.finish(products.sum(1, keepdim=True) if d == 1 else fit(products, d), layers.norm)


def dots(layers: PlusLayers, given: PlusInputs) -> Tensor:
    width = given.shape.width
    rows = [part for part in (given.set_of_rows(given.genes.row_left),) if part.shape[2]]
    if given.block.dense_in:
        x = join(given.dense_in)
        n = -(-x.shape[1] // width)
        rows = [fit(x, n * width).unflatten(1, (n, width)).permute(2, 0, 1), *rows]
    products = kernels.pairwise_dots(join(rows).transpose(0, 1))
    return given.finish(fit(products, given.block.dense_dim), layers.norm)


@lru_cache(maxsize=64)
def _lower(n: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Members of the n (n + 1) / 2 pairs: those of the leading rows come first."""
    first, second = torch.tril_indices(n, n)
    return first.to(device), second.to(device)


def gram(layers: ProductLayers, given: PlusInputs) -> Tensor:
    left, right = (given.set_of_rows(rows) for rows in (given.genes.row_left, given.genes.row_right))
    products = torch.bmm(left.permute(1, 2, 0), right.transpose(0, 1)).flatten(1)  # [B, l r]
    if layers.weight is not None:
        first, second = _lower(left.shape[2], left.device)
        products = products.index_select(1, first * left.shape[2] + second)
    return given.finish(_over_products(products, layers, given), layers.norm)


def _over_products(products: Tensor, layers: ProductLayers, given: PlusInputs) -> Tensor:
    """`[B, pairs]` to `[B, n]`, or `[D, B, pairs]` to `[D, B, n]`."""
    weight = given.params[layers.weight or layers.square or ""]  # a square one is [n, l, r]
    if observe.listening():
        out = F.linear(products, weight.flatten(1))
        observe.linear(weight, products, out, batch_axis=products.dim() - 2)
        return out
    if layers.weight is None:
        return F.linear(products, weight.flatten(1))
    return kernels.linear((products.flatten(0, -2),), (weight,), None).unflatten(0, products.shape[:-1])


def cin(layers: ProductLayers, given: PlusInputs) -> Tensor:
    left, right = (given.set_of_rows(rows) for rows in (given.genes.row_left, given.genes.row_right))
    if layers.weight is not None:
        first, second = _lower(left.shape[2], left.device)
        products = left.index_select(2, first) * left.index_select(2, second)
    else:
        products = (left.unsqueeze(3) * right.unsqueeze(2)).flatten(2)
    return _over_products(products, layers, given)


def fields(weight: str, given: PlusInputs) -> Tensor:
    streams = given.streams
    width = given.shape.width
    numbers = given.params[weight].view(-1, width).t().unsqueeze(1) * streams.dense(0)  # [D, B, I]
    rows = join((*streams.rows(0), numbers)) if streams.vectors.shape[1] else numbers
    return fit(rows, given.block.sparse_dim)


def normal(layers: NormalLayers, given: PlusInputs) -> Tensor:
    """Every row normalised by itself, `[D, B, n]`."""
    rows = fit(given.set_of_rows(given.genes.row_left), given.block.sparse_dim).permute(1, 2, 0)
    if observe.norms_are_off():
        return rows.permute(2, 0, 1)
    observe.norm(rows, (0, 1))
    unit = F.layer_norm(rows, (rows.shape[2],))
    gain, offset = (given.params[name].view(rows.shape[1:]) for name in layers)
    return torch.addcmul(offset, unit, gain).permute(2, 0, 1)


for _name, _forward in {
    records.FLAT: flat,
    records.DEEP: deep,
    records.CROSS: cross,
    records.CROSS_VECTOR: cross_vector,
    records.CROSS_GATED: cross_gated,
    records.CROSS_MASKED: cross_masked,
    records.MASK: mask,
    records.PAIRS: pairs,
    records.DOTS: dots,
    records.GRAM: gram,
    records.CIN: cin,
    records.FIELDS: fields,
    records.NORMAL: normal,
    field.FACTORISED: more.factorised,
    field.GATED: more.context_gate,
    field.FUSION: more.fusion,
    field.WEIGHTED: more.weighted_pairs,
    field.BILINEAR: more.bilinear,
    field.ATTEND: more.attend,
    field.FIELD_GATE: more.field_gate,
    field.WUKONG: more.wukong,
}.items():
    register(_name, _forward)  # type: ignore[arg-type]

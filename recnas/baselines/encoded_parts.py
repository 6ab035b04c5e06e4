"""Which parameter of an encoded network is which of a hand-crafted one; one function per model.

Blocks are found in order by their operators, as the encoders of `recnas.space.plus` wrote them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from recnas.baselines.base import Baseline
from recnas.space.plus import field_operators as field
from recnas.space.plus import operators as ops
from recnas.space.plus.arch import PlusArch


class Copy:
    """Tensors for the encoded network, by their names there."""

    def __init__(self, source: Baseline, arch: PlusArch) -> None:
        self.source: Any = source
        self.arch = arch
        self.shape = source.shape
        self.tensors: dict[str, Tensor] = {}
        self._next: dict[str, int] = {}

    def __setitem__(self, name: str, tensor: Tensor) -> None:
        self.tensors[name] = tensor

    def block(self, op: str) -> str:
        """The parameters' prefix of the next block with this operator."""
        start = self._next.get(op, 0)
        for b in range(start, len(self.arch.blocks)):
            block = self.arch.blocks[b]
            if op in (*block.dense_ops, *block.sparse_ops):
                self._next[op] = b + 1
                return f"blocks.{b + 1}.{op}"
        raise LookupError(f"the architecture has no further {op}")

    # Orders of units

    def raw(self) -> Tensor:
        """Places in the hand-crafted order (vectors, numbers) of the units in ours (numbers, vectors)."""
        numbers = torch.arange(self.shape.n_dense) + self.shape.n_sparse * self.shape.width
        return torch.cat((numbers, torch.arange(self.shape.n_sparse * self.shape.width)))

    # Parts that several models share

    def linear(self, name: str, layer: nn.Linear, columns: Tensor | None = None, rows: Tensor | None = None) -> None:
        weight = layer.weight if columns is None else layer.weight[:, columns]
        self[f"{name}.weight"] = weight if rows is None else weight[rows]
        if layer.bias is not None:
            self[f"{name}.bias"] = layer.bias if rows is None else layer.bias[rows]

    def norm(self, name: str, norm: nn.Module | None) -> None:
        if norm is None:
            return
        named = {**dict(norm.named_parameters()), **dict(norm.named_buffers())}
        for key in ("weight", "bias", "running_mean", "running_var"):
            if key in named:
                self[f"{name}.norm.{key}"] = named[key]

    def perceptron(self, deep: Any, columns: Tensor | None, op: str = ops.DEEP) -> None:
        """Layers of an `Mlp`, its head apart; `columns` orders what the first reads."""
        for i, layer in enumerate(deep.layers):
            name = self.block(op)
            self.linear(name, layer, columns if i == 0 else None)
            self.norm(name, None if deep.norms is None else deep.norms[i])

    def fields(self, fields: Any) -> None:
        if fields is not None:
            self[f"{self.block(ops.FIELDS)}.weight"] = fields.weight

    def head(self, bias: Tensor, *weights: Tensor | None, spare: Tensor | None = None) -> None:
        self["head.bias"] = bias
        found = [weight for weight in weights if weight is not None]
        if found:
            self["head.weight"] = torch.cat(found, 1)
        if spare is not None:
            self["head.spare_bias"] = spare


def lower(n: int, diagonal: bool) -> Tensor:
    """Places in the upper triangle's order, row by row, of the pairs in the order of the lower triangle."""
    offset = 0 if diagonal else 1
    first, second = torch.triu_indices(n, n, offset)
    place = torch.empty(n, n, dtype=torch.long)
    place[second, first] = torch.arange(len(first))
    return place[tuple(torch.tril_indices(n, n, -offset))]


Copier = Callable[[Copy], None]
COPIERS: dict[str, Copier] = {}


def copies(model: str) -> Callable[[Copier], Copier]:
    """The function that follows copies the weights of `model`."""

    def register(function: Copier) -> Copier:
        COPIERS[model] = function
        return function

    return register


@copies("lr")
def _lr(copy: Copy) -> None:
    copy.head(copy.source.first.bias, copy.source.first.weight)


@copies("fm")
def _fm(copy: Copy) -> None:
    copy.fields(copy.source.fields)
    _lr(copy)


@copies("dnn")
def _dnn(copy: Copy) -> None:
    copy.perceptron(copy.source.deep, copy.raw())
    copy.head(copy.source.deep.out.bias, copy.source.deep.out.weight)


@copies("wide-deep")
def _wide_deep(copy: Copy) -> None:
    first, deep = copy.source.wide, copy.source.deep
    copy.perceptron(deep, copy.raw())
    copy.head(first.bias, first.weight, deep.out.weight, spare=deep.out.bias)


@copies("deepfm")
def _deepfm(copy: Copy) -> None:
    first, deep = copy.source.first, copy.source.deep
    copy.fields(copy.source.fields)
    copy.perceptron(deep, copy.raw())
    copy.head(first.bias, first.weight, deep.out.weight, spare=deep.out.bias)


@copies("xdeepfm")
def _xdeepfm(copy: Copy) -> None:
    model = copy.source
    copy.fields(model.fields)
    n = model.shape.n_sparse + (0 if model.fields is None else model.shape.n_dense)
    order = lower(n, diagonal=True)
    for k, weight in enumerate(model.cin.direct):
        copy[f"{copy.block(ops.GRAM)}." + ("square" if k else "weight")] = weight if k else weight[:, order]
    for k, weight in enumerate(model.cin.hidden):
        copy[f"{copy.block(ops.CIN)}." + ("square" if k else "weight")] = weight if k else weight[:, order]
    copy.perceptron(model.deep, copy.raw())
    out = model.deep.out
    copy.head(model.first.bias, model.first.weight, model.pool.weight, out.weight, spare=out.bias)


def _beside_crosses(copy: Copy, head: Tensor | None) -> None:
    """Perceptron and head of a cross network; without a head the perceptron stands above the crosses."""
    deep = copy.source.deep
    copy.perceptron(deep, copy.raw())
    copy.head(deep.out.bias, None if head is None else head[:, copy.raw()], deep.out.weight)


@copies("dcn")
def _dcn(copy: Copy) -> None:
    model, order = copy.source, copy.raw()
    for weight, bias in zip(model.cross, model.bias):
        name = copy.block(ops.CROSS_VECTOR)
        copy[f"{name}.weight"], copy[f"{name}.bias"] = weight[order], bias[order]
    _beside_crosses(copy, model.head)


@copies("dcn-v2")
def _dcnv2(copy: Copy) -> None:
    order = copy.raw()
    for layer in copy.source.crosses:
        name = copy.block(ops.CROSS)
        if isinstance(layer, nn.Sequential):
            copy.linear(f"{name}.narrow", layer[0], order)  # type: ignore[arg-type]
            copy.linear(f"{name}.widen", layer[1], rows=order)  # type: ignore[arg-type]
        else:
            copy.linear(name, layer, order, order)
    _beside_crosses(copy, _weight(copy.source.head))


@copies("gdcn")
def _gdcn(copy: Copy) -> None:
    order = copy.raw()
    for layer in copy.source.crosses:
        name = copy.block(ops.CROSS_GATED)
        copy.linear(name, layer.cross, order, order)
        copy.linear(f"{name}.gate", layer.gate, order, order)
    _beside_crosses(copy, _weight(copy.source.head))


def _weight(layer: nn.Linear | None) -> Tensor | None:
    return None if layer is None else layer.weight


@copies("dcnv3")
def _dcnv3(copy: Copy) -> None:
    model, shape = copy.source, copy.shape
    copy.fields(model.fields)
    n, half = shape.n_sparse + shape.n_dense, model.first_half
    first = torch.arange(n * half).view(n, half)
    second = n * half + torch.arange(n * (shape.width - half)).view(n, shape.width - half)
    order = torch.cat((first, second), 1).flatten()  # there by views, here by fields
    for network in (model.exponential, model.linear):
        for layer in network.layers:
            name = copy.block(ops.CROSS_MASKED)
            copy.linear(name, layer.weight, order)
            copy[f"{name}.bias"] = layer.bias[order]
            copy.norm(name, layer.norm)
    copy.head(model.bias, *(network.head.weight[:, order] for network in (model.exponential, model.linear)))


@copies("masknet")
def _masknet(copy: Copy) -> None:
    model, order = copy.source, copy.raw()
    name = copy.block(ops.NORMAL)
    copy[f"{name}.norm.weight"], copy[f"{name}.norm.bias"] = model.gain, model.offset
    for i, block in enumerate(model.blocks):
        name = copy.block(ops.MASK)
        below = None if model.serial and i else order
        copy.linear(f"{name}.narrow", block.narrow, order)
        copy.linear(f"{name}.widen", block.widen, rows=below)
        copy.linear(f"{name}.hidden", block.hidden, below)
        copy.norm(name, block.norm)
    copy.perceptron(model.deep, None)
    copy.head(model.deep.out.bias, model.deep.out.weight)


@copies("dlrm")
def _dlrm(copy: Copy) -> None:
    model, width, n = copy.source, copy.shape.width, copy.shape.n_sparse
    number = 0 if model.bottom is None else width
    if model.bottom is not None:
        copy.perceptron(model.bottom, None)
    if model.cat:
        columns = torch.cat((torch.arange(n * width) + number, torch.arange(number)))
    else:
        columns = torch.cat((torch.arange(number), number + lower(n + bool(number), diagonal=False)))
    copy.perceptron(model.top, columns)
    copy.head(model.top.out.bias, model.top.out.weight)


@copies("fwfm")
def _fwfm(copy: Copy) -> None:
    model = copy.source
    copy.fields(model.fields)
    name = copy.block(field.WEIGHTED)
    copy[f"{name}.strength"], copy[f"{name}.linear"] = model.strength[lower(model.n, diagonal=False)], model.linear
    copy.head(model.bias)


@copies("autoint+")
def _autoint(copy: Copy) -> None:
    model = copy.source
    copy.fields(model.fields)
    for layer in model.attention:
        name = copy.block(field.ATTEND)
        copy[f"{name}.project"] = layer.project.weight
        if layer.residual is not None:
            copy[f"{name}.residual"] = layer.residual.weight
        copy.norm(name, layer.norm)
    copy.perceptron(model.deep, copy.raw())
    copy.head(model.head.bias, model.head.weight, model.deep.out.weight, spare=model.deep.out.bias)


@copies("fibinet")
def _fibinet(copy: Copy) -> None:
    model, deep = copy.source, copy.source.deep
    copy.fields(model.fields)
    name = copy.block(field.BILINEAR)
    copy.linear(f"{name}.squeeze", model.squeeze)
    copy.linear(f"{name}.excite", model.excite)
    copy[f"{name}.weight"] = model.weight.transpose(-1, -2)
    copy.linear(f"{name}.out", deep.layers[0])
    copy.norm(name, None if deep.norms is None else deep.norms[0])
    for i, layer in enumerate(deep.layers[1:], start=1):
        name = copy.block(ops.DEEP)
        copy.linear(name, layer)
        copy.norm(name, None if deep.norms is None else deep.norms[i])
    copy.head(model.first.bias, model.first.weight, deep.out.weight, spare=deep.out.bias)


@copies("finalmlp")
def _finalmlp(copy: Copy) -> None:
    model, order = copy.source, copy.raw()
    for gate in model.gates:
        name = copy.block(field.GATED)
        if gate.context is not None:
            copy[f"{name}.context"] = gate.context
        copy.linear(f"{name}.hidden", gate.hidden)
        copy.linear(f"{name}.out", gate.out, rows=order)
    for stream in model.streams:
        copy.perceptron(stream, order)
    copy[f"{copy.block(field.FUSION)}.weight"] = model.bilinear
    copy.head(model.linear.bias, model.linear.weight)


@copies("finalnet")
def _finalnet(copy: Copy) -> None:
    model, order = copy.source, copy.raw()
    if model.gate is not None:
        name = copy.block(field.FIELD_GATE)
        copy[f"{name}.weight"], copy[f"{name}.bias"] = model.gate.weight, model.gate.bias
        order = torch.cat((order, copy.shape.flat + torch.arange(copy.shape.n_sparse * copy.shape.width)))
    for block, columns in zip(model.blocks, (order, copy.raw())):
        copy.perceptron(block, columns, field.FACTORISED)
    copy.head(model.bias, *(head.weight for head in model.heads))


@copies("wukong")
def _wukong(copy: Copy) -> None:
    model = copy.source
    copy.fields(model.fields)
    for layer in model.layers:
        name, machine = copy.block(field.WUKONG), layer.machine
        copy[f"{name}.project"] = machine.project.t()
        copy.norm(f"{name}.products", machine.norm)
        copy.linear(f"{name}.hidden", machine.deep.layers[0])
        copy.norm(f"{name}.hidden", None if machine.deep.norms is None else machine.deep.norms[0])
        copy.linear(f"{name}.out", machine.out)
        copy[f"{name}.compress"] = layer.compress.weight
        if layer.residual is not None:
            copy[f"{name}.residual"] = layer.residual.weight
        copy.norm(name, layer.norm)
    copy.perceptron(model.deep, None)
    copy.head(model.deep.out.bias, model.deep.out.weight)

"""The networks of the vision spaces once more, as plain torch modules, to compare blueprints with.

Submodules carry the names of the blueprint's parameters, so `load_state_dict(strict=True)` both copies the
weights and shows that no parameter is missing or extra.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recnas.space.darts.arch import DartsArch, canonical
from recnas.space.darts.skeleton import DartsSkeleton
from recnas.space.nasbench101.arch import Nb101Arch
from recnas.space.resnet.arch import ResnetArch


def norm(width: int, affine: bool = True) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(width, affine=affine, track_running_stats=False)


class ReluConvNorm(nn.Module):
    def __init__(self, inputs: int, outputs: int, affine: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 1, bias=False)
        self.norm = norm(outputs, affine)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(F.relu(x)))


class Halved(nn.Module):
    def __init__(self, inputs: int, outputs: int, affine: bool) -> None:
        super().__init__()
        self.conv_a = nn.Conv2d(inputs, outputs // 2, 1, stride=2, bias=False)
        self.conv_b = nn.Conv2d(inputs, outputs // 2, 1, stride=2, bias=False)
        self.norm = norm(outputs, affine)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(x)
        return self.norm(torch.cat([self.conv_a(x), self.conv_b(x[:, :, 1:, 1:])], 1))


class Separable(nn.Module):
    def __init__(self, width: int, size: int, stride: int, dilation: int, affine: bool) -> None:
        super().__init__()
        padding = {(3, 1): 1, (5, 1): 2, (3, 2): 2, (5, 2): 4}[size, dilation]
        self.depth = nn.Conv2d(width, width, size, stride, padding, dilation, groups=width, bias=False)
        self.point = nn.Conv2d(width, width, 1, bias=False)
        self.norm = norm(width, affine)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.point(self.depth(F.relu(x))))


class NormedPool(nn.Module):
    def __init__(self, pool: nn.Module, width: int) -> None:
        super().__init__()
        self.pool, self.norm = pool, norm(width, affine=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.pool(x))


def darts_op(op: str, width: int, stride: int, body: DartsSkeleton) -> nn.Module:
    if op == "skip_connect":
        return nn.Identity() if stride == 1 else Halved(width, width, body.affine)
    if op == "max_pool_3x3":
        pool: nn.Module = nn.MaxPool2d(3, stride, 1)
        return NormedPool(pool, width) if body.pool_norm else pool
    if op == "avg_pool_3x3":
        pool = nn.AvgPool2d(3, stride, 1, count_include_pad=False)
        return NormedPool(pool, width) if body.pool_norm else pool
    size = int(op[-1])
    if op.startswith("dil"):
        return nn.Sequential(Separable(width, size, stride, 2, body.affine))
    return nn.Sequential(Separable(width, size, stride, 1, body.affine), Separable(width, size, 1, 1, body.affine))


class DartsCell(nn.Module):
    def __init__(self, cell, before: int, last: int, width: int, reduces: bool, reduced: bool, body) -> None:
        super().__init__()
        self.cell = cell
        self.pre0 = Halved(before, width, body.affine) if reduced else ReluConvNorm(before, width, body.affine)
        self.pre1 = ReluConvNorm(last, width, body.affine)
        for number, node in enumerate(cell, start=2):
            ops = [darts_op(op, width, 2 if reduces and source < 2 else 1, body) for op, source in node]
            self.add_module(f"node{number}", nn.ModuleList(ops))

    def forward(self, before: Tensor, last: Tensor) -> Tensor:
        values = [self.pre0(before), self.pre1(last)]
        for number, node in enumerate(self.cell, start=2):
            ops = getattr(self, f"node{number}")
            values.append(ops[0](values[node[0][1]]) + ops[1](values[node[1][1]]))
        return torch.cat(values[2:], 1)


class LiteralDarts(nn.Module):
    def __init__(self, arch: DartsArch, body: DartsSkeleton) -> None:
        super().__init__()
        arch = canonical(arch)
        c = body.channels
        self.imagenet = body.stem == "imagenet"
        if self.imagenet:
            self.stem0 = nn.ModuleDict(
                {
                    "conv_a": nn.Conv2d(3, c // 2, 3, 2, 1, bias=False),
                    "norm_a": norm(c // 2),
                    "conv_b": nn.Conv2d(c // 2, c, 3, 2, 1, bias=False),
                    "norm_b": norm(c),
                }
            )
            self.stem1 = nn.ModuleDict({"conv": nn.Conv2d(c, c, 3, 2, 1, bias=False), "norm": norm(c)})
            before, last = c, c
        else:
            self.stem = nn.ModuleDict({"conv": nn.Conv2d(3, 3 * c, 3, padding=1, bias=False), "norm": norm(3 * c)})
            before = last = 3 * c
        self.cells = nn.ModuleList()
        reduced = self.imagenet
        for number in range(body.cells):
            reduces = number in (body.cells // 3, 2 * body.cells // 3)
            c *= 2 if reduces else 1
            cell = arch.reduce if reduces else arch.normal
            self.cells.append(DartsCell(cell, before, last, c, reduces, reduced, body))
            before, last, reduced = last, 4 * c, reduces
        self.head = nn.ModuleDict({"linear": nn.Linear(last, body.classes)})

    def forward(self, x: Tensor) -> Tensor:
        if self.imagenet:
            x = self.stem0["norm_a"](self.stem0["conv_a"](x))
            before = self.stem0["norm_b"](self.stem0["conv_b"](F.relu(x)))
            last = self.stem1["norm"](self.stem1["conv"](F.relu(before)))
        else:
            before = last = self.stem["norm"](self.stem["conv"](x))
        for cell in self.cells:
            before, last = last, cell(before, last)
        return self.head["linear"](F.adaptive_avg_pool2d(last, 1).flatten(1))


class ConvNorm(nn.Module):
    def __init__(self, inputs: int, outputs: int, size: int, stride: int = 1, relu: bool = True) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
        self.norm, self.relu = norm(outputs), relu

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.conv(x))
        return F.relu(x) if self.relu else x


class LiteralNb101Cell(nn.Module):
    """Every vertex by name; channel counts worked out here once more, by the benchmark's own recipe."""

    def __init__(self, cell: Nb101Arch, inputs: int, outputs: int) -> None:
        super().__init__()
        self.cell = cell
        n, m = cell.vertices, cell.matrix
        into_output = sum(m[v][n - 1] for v in range(1, n))
        self.channels = [0] * n
        spare = outputs - into_output * (outputs // into_output) if into_output else 0
        for v in range(1, n - 1):
            if m[v][n - 1]:
                self.channels[v] = outputs // into_output + (1 if spare > 0 else 0)
                spare -= 1
        for v in range(n - 3, 0, -1):
            if not m[v][n - 1]:
                for w in range(v + 1, n - 1):
                    if m[v][w]:
                        self.channels[v] = max(self.channels[v], self.channels[w])
        for v in range(1, n - 1):
            if m[0][v]:
                self.add_module(f"project{v}", ConvNorm(inputs, self.channels[v], 1))
            if cell.ops[v - 1] != "maxpool3x3":
                size = int(cell.ops[v - 1][4])
                self.add_module(f"vertex{v}", ConvNorm(self.channels[v], self.channels[v], size))
        if m[0][n - 1]:
            self.add_module(f"project{n - 1}", ConvNorm(inputs, outputs, 1))

    def forward(self, x: Tensor) -> Tensor:
        n, m = self.cell.vertices, self.cell.matrix
        values: dict[int, Tensor] = {}
        for v in range(1, n - 1):
            total = torch.zeros(())
            for i in range(1, v):
                if m[i][v]:
                    total = total + values[i][:, : self.channels[v]]
            if m[0][v]:
                total = total + getattr(self, f"project{v}")(x)
            pool = self.cell.ops[v - 1] == "maxpool3x3"
            values[v] = F.max_pool2d(total, 3, 1, 1) if pool else getattr(self, f"vertex{v}")(total)
        joined = [values[v] for v in range(1, n - 1) if m[v][n - 1]]
        out = torch.cat(joined, 1) if joined else torch.zeros(())
        return out + getattr(self, f"project{n - 1}")(x) if m[0][n - 1] else out


class LiteralNb101(nn.Module):
    def __init__(self, cell: Nb101Arch, channels: int, stacks: int, cells: int, classes: int) -> None:
        super().__init__()
        self.stem = ConvNorm(3, channels, 3)
        self.stacks = nn.ModuleList()
        width = channels
        for stack in range(stacks):
            inputs, width = width, width * (2 if stack else 1)
            row = [LiteralNb101Cell(cell, inputs if number == 0 else width, width) for number in range(cells)]
            self.stacks.append(nn.ModuleList(row))
        self.head = nn.ModuleDict({"linear": nn.Linear(width, classes)})

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for number, stack in enumerate(self.stacks):
            x = F.max_pool2d(x, 2) if number else x
            for cell in stack:
                x = cell(x)
        return self.head["linear"](x.mean((2, 3)))


class LiteralBlock(nn.Module):
    def __init__(self, inputs: int, stage, stride: int, first: bool) -> None:
        super().__init__()
        k, mid, out = stage.kernel, stage.inner, stage.width
        if stage.kind == "residual":
            parts = [ConvNorm(inputs, mid, k, stride), ConvNorm(mid, out, k, relu=False)]
        else:
            parts = [
                ConvNorm(inputs, mid, 1),
                ConvNorm(mid, mid, k, stride),
                ConvNorm(mid, out, 1, relu=False),
            ]
        for place, part in enumerate(parts):
            self.add_module(str(place), part)
        self.count = len(parts)
        self.beside = ConvNorm(inputs, out, 1, stride, relu=False) if first else None

    def forward(self, x: Tensor) -> Tensor:
        out = x
        for place in range(self.count):
            out = getattr(self, str(place))(out)
        return F.relu(out + (x if self.beside is None else self.beside(x)))


class LiteralResnet(nn.Module):
    def __init__(self, arch: ResnetArch, classes: int) -> None:
        super().__init__()
        self.stem = ConvNorm(3, arch.stem, 3)
        self.stages = nn.ModuleList()
        width = arch.stem
        for stage in arch.stages:
            blocks = nn.ModuleList()
            for number in range(stage.depth * (1 if stage.kind == "residual" else 2)):
                blocks.append(LiteralBlock(width, stage, stage.stride if number == 0 else 1, number == 0))
                width = stage.width
            self.stages.append(blocks)
        self.last = ConvNorm(width, arch.last, 1)
        self.head = nn.ModuleDict({"linear": nn.Linear(arch.last, classes)})

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for blocks in self.stages:
            for block in blocks:
                x = block(x)
        return self.head["linear"](self.last(x).mean((2, 3)))

"""The network around a NAS-Bench-101 cell, as a blueprint.

    stem      3x3 convolution to 128 channels, normalisation, ReLU
    stacks    three of three cells; between them 2x2 max pooling, and twice the channels
    head      mean over positions, linear classifier

Inside a cell the channels of the output are shared out among the vertices it joins, as evenly as can be, the
first ones getting what is left over; any other vertex has as many as the widest vertex that reads it and cuts
what is too wide. What comes from the cell's input passes a 1x1 projection. Because of what is left over, two
writings of one isomorphic cell may differ by a channel here and there; `Nb101Blueprint` builds a cell as it is
written, which gives the benchmark's own parameter counts, and scoring builds the canonical writing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recnas.errors import ConfigError
from recnas.space.blueprint import Blueprint, Pass, Shape, check_at_least
from recnas.space.nasbench101.arch import CONV3, POOL, Matrix, Nb101Arch, prune

COLOURS = 3


@dataclass(frozen=True)
class Nb101Skeleton:
    """Sizes; the defaults are the benchmark's.

    Args:
        channels: of the first stack; doubled at each later one.
        stacks, cells: how many stacks, and cells in each.
        classes: outputs.
        image: height and width, a multiple of 2 to the power of `stacks - 1`.
    """

    channels: int = 128
    stacks: int = 3
    cells: int = 3
    classes: int = 10
    image: int = 32

    def __post_init__(self) -> None:
        check_at_least(
            "a NAS-Bench-101 network",
            channels=(self.channels, 5),  # up to five vertices share them
            stacks=(self.stacks, 1),
            cells=(self.cells, 1),
            classes=(self.classes, 1),
        )
        step = 1 << (self.stacks - 1)
        if self.image < step or self.image % step:
            raise ConfigError(
                f"images of {self.image} pixels cannot be halved {self.stacks - 1} times.",
                f"Use a multiple of {step}.",
            )


@dataclass(frozen=True)
class Nb101Blueprint(Blueprint):
    """The network of `cell` in `skeleton`."""

    cell: Nb101Arch
    skeleton: Nb101Skeleton

    def input_shape(self) -> Shape:
        return (COLOURS, self.skeleton.image, self.skeleton.image)

    def run(self, net: Pass[Any], x: Any) -> Any:
        cell = prune(self.cell)
        if cell is None:
            raise ConfigError("the cell has no path from its input to its output.", "Use another cell.")
        x = _conv(net, "stem", x, self.skeleton.channels, 3)
        width = self.skeleton.channels
        for stack in range(self.skeleton.stacks):
            if stack:
                x = net.pool(x, "max", 2, 2)
                width *= 2
            for number in range(self.skeleton.cells):
                x = _run_cell(net, f"stacks.{stack}.{number}", cell, x, width)
        return net.linear("head.linear", net.mean(net.features(x)), self.skeleton.classes)


def _conv(net: Pass[Any], name: str, x: Any, width: int, size: int) -> Any:
    return net.activate(net.norm(f"{name}.norm", net.conv(f"{name}.conv", x, width, size)))


def _run_cell(net: Pass[Any], name: str, cell: Nb101Arch, x: Any, width: int) -> Any:
    last = cell.vertices - 1
    channels = vertex_channels(net.channels(x), width, cell.matrix)
    values: list[Any] = [x]
    joined = []
    for v in range(1, last):
        parts = [net.leading(values[i], channels[v]) for i in range(1, v) if cell.matrix[i][v]]
        if cell.matrix[0][v]:
            parts.append(_conv(net, f"{name}.project{v}", x, channels[v], 1))
        total, op = net.add(parts), cell.ops[v - 1]
        if op == POOL:
            values.append(net.pool(total, "max", 3, 1, 1))
        else:
            values.append(_conv(net, f"{name}.vertex{v}", total, channels[v], 3 if op == CONV3 else 1))
        if cell.matrix[v][last]:
            joined.append(values[v])
    parts = [net.cat(joined)] if joined else []
    if cell.matrix[0][last]:
        parts.append(_conv(net, f"{name}.project{last}", x, width, 1))
    return net.add(parts)


def vertex_channels(inputs: int, outputs: int, matrix: Matrix) -> list[int]:
    """Channels of every vertex of a pruned cell."""
    last = len(matrix) - 1
    channels = [inputs, *[0] * (last - 1), outputs]
    joined = [v for v in range(1, last) if matrix[v][last]]
    for place, v in enumerate(joined):
        channels[v] = outputs // len(joined) + (place < outputs % len(joined))
    for v in reversed(range(1, last)):
        if not matrix[v][last]:
            channels[v] = max(channels[w] for w in range(v + 1, last) if matrix[v][w])
    return channels

"""One NAS-Bench-201 cell: six edges between four nodes, one of five operations on each.

Node 0 is the cell's input, node 3 its output, and every node is the sum of what its edges bring. The three
ways to write a cell all list the edges as 0>1, 0>2, 1>2, 0>3, 1>3, 2>3:

    text    |nor_conv_3x3~0|+|avg_pool_3x3~0|skip_connect~1|+|nor_conv_3x3~0|skip_connect~1|skip_connect~2|
    digits  341311      none 0, skip_connect 1, nor_conv_1x1 2, nor_conv_3x3 3, avg_pool_3x3 4
    number  12081       the digits read in base 5, so 0 is all `none` and 15,624 all `avg_pool_3x3`

`number` is recnas's own enumeration. The official table has an order of its own, a fixed shuffle that no
formula gives: its indices come from the table (`recnas.bench.nasbench201`) and from nowhere else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from recnas.errors import SpaceError
from recnas.space.base import nearest_name

NONE, SKIP, CONV1, CONV3, POOL = "none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3"
OPS = (NONE, SKIP, CONV1, CONV3, POOL)
EDGES = ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))  # from, to
OUTPUT = 3
SIZE = len(OPS) ** len(EDGES)

_EXAMPLE = "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|skip_connect~0|none~1|nor_conv_1x1~2|"
_PART = re.compile(r"([^|~]+)~(\d)")


@dataclass(frozen=True)
class Nb201Arch:
    """A cell, by the operation on every edge in the order of `EDGES`."""

    ops: tuple[str, ...]

    @property
    def text(self) -> str:
        """The official way to write it."""
        nodes = []
        for node in range(1, OUTPUT + 1):
            into = [f"{op}~{start}" for op, (start, end) in zip(self.ops, EDGES) if end == node]
            nodes.append(f"|{'|'.join(into)}|")
        return "+".join(nodes)

    @property
    def digits(self) -> str:
        return "".join(str(OPS.index(op)) for op in self.ops)

    @property
    def number(self) -> int:
        return int(self.digits, len(OPS))

    @classmethod
    def from_text(cls, text: str) -> Nb201Arch:
        """Read the official notation; raises `SpaceError` naming what is wrong."""
        ops: list[str] = []
        nodes = text.strip().split("+")
        for node, part in enumerate(nodes, start=1):
            found = _PART.findall(part)
            wrapped = "|" + "|".join(f"{op}~{start}" for op, start in found) + "|"
            if part != wrapped or [int(start) for _, start in found] != list(range(node)):
                raise _malformed(text)
            ops.extend(op for op, _ in found)
        if len(nodes) != OUTPUT:
            raise _malformed(text)
        return cls._checked(ops)

    @classmethod
    def from_digits(cls, digits: str) -> Nb201Arch:
        if len(digits) != len(EDGES) or not set(digits) <= set("01234"):
            raise SpaceError(f"{digits!r} is not a NAS-Bench-201 cell", "write six digits from 0 to 4, e.g. 341311")
        return cls(tuple(OPS[int(digit)] for digit in digits))

    @classmethod
    def from_number(cls, number: int) -> Nb201Arch:
        if not 0 <= number < SIZE:
            raise SpaceError(f"NAS-Bench-201 has no cell number {number}", f"cells are numbered 0 to {SIZE - 1}")
        ops = []
        for _ in EDGES:
            number, digit = divmod(number, len(OPS))
            ops.append(OPS[digit])
        return cls(tuple(reversed(ops)))

    @classmethod
    def _checked(cls, ops: list[str]) -> Nb201Arch:
        for op in ops:
            if op not in OPS:
                raise SpaceError(f"NAS-Bench-201 has no operation {op!r}", nearest_name(op, OPS))
        return cls(tuple(ops))


def live_edges(arch: Nb201Arch) -> tuple[bool, ...]:
    """Which edges lie on a path from input to output; the others change nothing and are not built."""
    reached = {0}
    for node in range(1, OUTPUT + 1):
        if any(op != NONE and end == node and start in reached for op, (start, end) in zip(arch.ops, EDGES)):
            reached.add(node)
    read = {OUTPUT}
    for node in reversed(range(OUTPUT)):
        if any(op != NONE and start == node and end in read for op, (start, end) in zip(arch.ops, EDGES)):
            read.add(node)
    return tuple(op != NONE and start in reached and end in read for op, (start, end) in zip(arch.ops, EDGES))


def live_graph(arch: Nb201Arch) -> Nb201Arch:
    """The same cell with `none` on every edge that is not live; 9,445 different ones exist."""
    return Nb201Arch(tuple(op if live else NONE for op, live in zip(arch.ops, live_edges(arch))))


def _malformed(text: str) -> SpaceError:
    return SpaceError(f"{text!r} is not a NAS-Bench-201 cell", f"write it like {_EXAMPLE}")

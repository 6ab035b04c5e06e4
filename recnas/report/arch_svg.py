"""A NASRec architecture as a picture.

Blocks from left to right, the dense path above and the sparse path below. The height of a box grows with the
logarithm of its width in channels. Bridges between the paths are the interactions: `dot` reads sparse rows
into the dense path, `fm` adds a factorization machine, `merge` appends dense rows to the sparse path. What
the logit does not depend on is grey and dashed; genes without effect (the inputs of an operator that does
not run) are not drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from recnas.report.svg import mark, px, text, wrap
from recnas.space.nasrec.arch import DENSE, DOT, SPARSE, STREAM_READ_BY, Block, LiveBlock, NasrecArch
from recnas.space.nasrec.liveness import live_parts
from recnas.space.nasrec.operators import OPERATORS, fields_read, genes_read

_PITCH, _BOX, _MARGIN = 118.0, 78.0, 16.0
_LANE, _GAP, _ARC = 84.0, 84.0, 13.0  # height of a path, room for bridges, height of a skip per block skipped
_TITLE = 26.0
_AS_DATA = 512  # drawn for a width that the data decide


@dataclass(frozen=True)
class Wire:
    """One connection: from the output of block `start` (0: the inputs) into block `end`."""

    kind: str  # dense, sparse, or dot: sparse rows read into the dense path
    start: int
    end: int


def wires(arch: NasrecArch) -> dict[Wire, bool]:
    """Every connection that an operator reads, and whether the logit depends on it."""
    found: dict[Wire, bool] = {}
    for end, (block, live) in enumerate(zip(arch.blocks, live_parts(arch)), start=1):
        for kind, ops, stream, used in (
            ("dense", block.dense_ops, DENSE, live.dense),
            ("dot", block.dense_ops, SPARSE, live.dense),
            ("sparse", block.sparse_ops, SPARSE, live.sparse),
        ):
            fields = [field for field in fields_read(ops) if STREAM_READ_BY[field] == stream]
            starts = {j for field in fields for j in getattr(block, field)}
            found |= {Wire(kind, start, end): used for start in sorted(starts)}
    last = len(arch.blocks) + 1
    return found | {Wire(kind, j, last): True for kind in (DENSE, SPARSE) for j in arch.head_reads[kind]}


def draw_nasrec(archs: Sequence[tuple[str, NasrecArch]]) -> str:
    """One architecture, or several below one another with what differs from the first marked."""
    body: list[str] = []
    y = 0.0
    width = 0.0
    first = archs[0][1]
    for place, (name, arch) in enumerate(archs):
        other = (archs[1][1] if len(archs) > 1 else arch) if place == 0 else first
        picture = _Picture(arch, other, y + _TITLE)
        live = sum(part.dense or part.sparse for part in live_parts(arch))
        body.append(text(_MARGIN, y + 17, f"{name}: {len(arch.blocks)} blocks, {live} in use", "bold"))
        body += picture.draw()
        y, width = picture.end, max(width, picture.width)
    return wrap([*body, *_legend(y, len(archs) > 1)], width, y + 26, " beside ".join(name for name, _ in archs))


def _legend(y: float, marked: bool) -> list[str]:
    found = []
    x = _MARGIN
    shown = [
        ("dense", "node dense"),
        ("sparse", "node sparse"),
        ("interaction", "fbridge"),
        ("not in use", "dead"),
    ]
    for name, classes in [*shown, *([("differs", "changed dead")] if marked else [])]:
        found.append(f'<rect class="{classes}" x="{px(x)}" y="{px(y)}" width="14" height="12" rx="3"/>')
        found.append(text(x + 19, y + 10.5, name, "small"))
        x += 36 + 7 * len(name)
    return found


class _Picture:
    def __init__(self, arch: NasrecArch, other: NasrecArch, top: float) -> None:
        self.arch, self.other = arch, other
        self.live = live_parts(arch)
        self.wires, self.others = wires(arch), wires(other)
        n = len(arch.blocks)
        span = max((wire.end - wire.start for wire in self.wires if wire.kind != "dot"), default=1)
        arcs = 10 + _ARC * max(0, span - 1)
        self.dense_y = top + arcs + _LANE / 2
        self.sparse_y = self.dense_y + _LANE + _GAP
        self.end = self.sparse_y + _LANE / 2 + arcs + 6
        self.width = 2 * _MARGIN + _PITCH * (n + 1) + _BOX

    def draw(self) -> list[str]:
        found = [self._wire(wire, live) for wire, live in sorted(self.wires.items(), key=lambda item: item[1])]
        found += self._inputs()
        for b in range(1, len(self.arch.blocks) + 1):
            found += self._block(b)
        return found

    def _x(self, block: int) -> float:
        return _MARGIN + _PITCH * block

    def _height(self, kind: str, block: int) -> float:
        if not 1 <= block <= len(self.arch.blocks):
            return 44.0
        dim = self.arch.blocks[block - 1].dense_dim if kind == "dense" else 16 * self.arch.blocks[block - 1].sparse_dim
        return 24.0 + 9.0 * (math.log2(max(16, dim or _AS_DATA)) - 4)

    def _inputs(self) -> list[str]:
        last = len(self.arch.blocks) + 1
        found = []
        for kind, y in (("dense", self.dense_y), ("sparse", self.sparse_y)):
            found.append(self._box(kind, 0, y, [kind, "inputs"], f"the data's {kind} inputs", True, False))
        top, low = self.dense_y - 22, self.sparse_y + 22
        shape = f'rect class="mark node" fill="none" x="{px(self._x(last))}" y="{px(top)}" width="{px(_BOX)}" height="{px(low - top)}" rx="8"'
        found.append(mark(shape, "the last layer: both paths of the last block, one logit"))
        found.append(text(self._x(last) + _BOX / 2, (top + low) / 2 + 4, "logit", "bold", "middle"))
        return found

    def _block(self, b: int) -> list[str]:
        block, live = self.arch.blocks[b - 1], self.live[b - 1]
        twin = self.other.blocks[b - 1] if b <= len(self.other.blocks) else None
        rows = _width(block.sparse_dim) + ("+8" if block.merge else "")
        dense_new = twin is None or (block.dense_ops, block.dense_dim) != (twin.dense_ops, twin.dense_dim)
        sparse_new = twin is None or (block.sparse_ops, block.sparse_dim) != (
            twin.sparse_ops,
            twin.sparse_dim,
        )
        found = [
            self._box("dense", b, self.dense_y, ["+".join(_short(op) for op in block.dense_ops), _width(block.dense_dim)],
                      f"block {b}, dense: {'+'.join(block.dense_ops)}, {_width(block.dense_dim)} wide{_genes(block)}",
                      live.dense, dense_new),
            self._box("sparse", b, self.sparse_y, ["+".join(_short(op) for op in block.sparse_ops), rows],
                      f"block {b}, sparse: {'+'.join(block.sparse_ops)}, {rows} rows", live.sparse, sparse_new),
        ]  # fmt: skip
        found += self._own_bridges(b, live, None if twin is None else (twin.fm, twin.merge))
        found.append(text(self._x(b) + _BOX / 2, self.dense_y + _LANE / 2 + 12, f"{b}", "small muted", "middle"))
        return found

    def _own_bridges(self, b: int, live: LiveBlock, twin: tuple[bool, bool] | None) -> list[str]:
        """`fm` upwards and `merge` downwards between the two boxes of one block."""
        block = self.arch.blocks[b - 1]
        low, high = self.sparse_y - self._height("sparse", b) / 2, self.dense_y + self._height("dense", b) / 2
        found = []
        for name, on, used, share, up in (
            ("fm", block.fm, live.fm, 0.26, True),
            ("merge", block.merge, live.merge, 0.74, False),
        ):
            if not on:
                continue
            x = self._x(b) + _BOX * share
            new = twin is None or not twin[0 if up else 1]
            style = ("bridge" if used else "wire offwire") + (" changed" if new else "")
            start, end = (low, high + 5) if up else (high, low - 5)
            tip = -6 if up else 6
            found.append(
                mark(
                    f'path class="mark {style}" d="M{px(x)} {px(start)}V{px(end)}"',
                    f"block {b}: {name}" + ("" if used else ", not in use"),
                )
            )
            colour = "fbridge" if used else "fgrey"
            found.append(f'<path class="{colour}" d="M{px(x - 5)} {px(end)}h10l-5 {px(tip)}z"/>')
            found.append(
                text(
                    x + (-5 if up else 5),
                    self.sparse_y - _LANE / 2 - 6,
                    name,
                    "small" + ("" if used else " off"),
                    "end" if up else "start",
                )
            )
        return found

    def _box(self, kind: str, b: int, y: float, lines: list[str], said: str, live: bool, new: bool) -> str:
        tall = self._height(kind, b)
        style = (f"node {kind}" if live else "dead") + (" changed" if new else "")
        shape = f'rect class="mark {style}" x="{px(self._x(b))}" y="{px(y - tall / 2)}" width="{px(_BOX)}" height="{px(tall)}" rx="5"'
        drawn = mark(shape, said + ("" if live else ", not in use"))
        middle, off = self._x(b) + _BOX / 2, "" if live else " off"
        if tall < 36:
            return drawn + text(middle, y + 4, " ".join(lines), "small" + off, "middle")
        return (
            drawn
            + text(middle, y - 2, lines[0], "small bold" + off, "middle")
            + text(middle, y + 13, lines[1], "small" + off, "middle")
        )

    def _wire(self, wire: Wire, live: bool) -> str:
        new = wire not in self.others and not (wire.end > len(self.arch.blocks))
        x1, x2 = self._x(wire.start) + _BOX, self._x(wire.end)
        said = (
            f"block {wire.end} reads "
            + (f"block {wire.start}" if wire.start else "the inputs")
            + f" ({wire.kind})"
            + ("" if live else ", not in use")
        )
        if wire.end > len(self.arch.blocks):
            said = f"the last layer reads the {wire.kind} path"
        if wire.kind == "dot":
            style = "bridge" if live else "wire offwire"
            y1, y2 = (
                self.sparse_y - self._height("sparse", wire.start) / 4,
                self.dense_y + self._height("dense", wire.end) / 4,
            )
            path = f"M{px(x1)} {px(y1)}C{px(x1 + 34)} {px(y1)} {px(x2 - 34)} {px(y2)} {px(x2)} {px(y2)}"
            return mark(
                f'path class="mark {style}{" changed" if new else ""}" stroke-opacity=".6" d="{path}"',
                said
                + (": products of sparse rows" if DOT in self.arch.blocks[wire.end - 1].dense_ops else ": sparse rows"),
            )
        y = self.dense_y if wire.kind == "dense" else self.sparse_y
        style = f"wire w{wire.kind}" if live else "wire offwire"
        if wire.end - wire.start == 1:
            path = f"M{px(x1)} {px(y)}H{px(x2)}"
        else:  # over the boxes between, the further the higher
            side = -1 if wire.kind == "dense" else 1
            a, b = x1 - _BOX * 0.3, x2 + _BOX * (0.12 + 0.06 * (wire.end - wire.start))
            ya = y + side * self._height(wire.kind, wire.start) / 2
            yb = y + side * self._height(wire.kind, wire.end) / 2
            peak = y + side * (_LANE / 2 + _ARC * (wire.end - wire.start - 1))
            path = f"M{px(a)} {px(ya)}C{px(a)} {px(peak)} {px(a + 8)} {px(peak)} {px(a + 24)} {px(peak)}H{px(b - 24)}C{px(b - 8)} {px(peak)} {px(b)} {px(peak)} {px(b)} {px(yb)}"
        return mark(f'path class="mark {style}{" changed" if new else ""}" d="{path}"', said)


def _width(n: int) -> str:
    return str(n) if n else "as the data"


def _genes(block: Block) -> str:
    """What else is set of the block, for the text that appears over its box."""
    read = genes_read((*block.dense_ops, *block.sparse_ops))
    return "".join(f", {name} {value}" for name, value in block.further_genes(read).items())


def _short(op: str) -> str:
    return OPERATORS[op].label or op

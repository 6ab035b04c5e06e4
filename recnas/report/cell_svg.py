"""A NAS-Bench-201 cell as a picture: four nodes, six edges, grey where nothing flows."""

from __future__ import annotations

from collections.abc import Sequence

from recnas.report.svg import mark, px, text, wrap
from recnas.space.nasbench201.arch import EDGES, NONE, OPS, Nb201Arch, live_edges

_NAMES = {
    "none": "none",
    "skip_connect": "skip",
    "nor_conv_1x1": "conv 1×1",
    "nor_conv_3x3": "conv 3×3",
    "avg_pool_3x3": "pool 3×3",
}
_COLOURS = {"skip_connect": 4, "nor_conv_1x1": 0, "nor_conv_3x3": 3, "avg_pool_3x3": 2}
_STEP, _LEFT, _WIDTH, _HEIGHT, _MIDDLE = 122.0, 36.0, 440.0, 250.0, 120.0
_BENDS = {
    (0, 2): -62.0,
    (1, 3): -62.0,
    (0, 3): 92.0,
}  # how far a skipping edge leaves the line; 1>3 and 0>2 cross
_NODES = ("in", "1", "2", "out")


def draw_cells(cells: Sequence[tuple[str, Nb201Arch]]) -> str:
    """One cell, or several side by side with edges that differ from the first (or second) marked."""
    body: list[str] = []
    for place, (name, cell) in enumerate(cells):
        other = cells[1][1] if place == 0 and len(cells) > 1 else cells[0][1]
        body.append(f'<g transform="translate({px(place * _WIDTH)} 0)">')
        body.append(text(14, 18, name, "bold"))
        body += _edges(cell, other) + _nodes()
        body.append("</g>")
    return wrap(body, _WIDTH * len(cells), _HEIGHT, " beside ".join(name for name, _ in cells))


def _nodes() -> list[str]:
    found = []
    for node, name in enumerate(_NODES):
        x = _LEFT + _STEP * node
        found.append(
            mark(
                f'circle class="mark node dense" cx="{px(x)}" cy="{px(_MIDDLE)}" r="17"',
                f"node {node}: the sum of what comes in" if node else "the cell's input",
            )
        )
        found.append(text(x, _MIDDLE + 4, name, "small bold", "middle"))
    return found


def _edges(cell: Nb201Arch, other: Nb201Arch) -> list[str]:
    found = []
    for (start, end), op, live, twin in zip(EDGES, cell.ops, live_edges(cell), other.ops):
        a, b = _LEFT + _STEP * start + 17, _LEFT + _STEP * end - 17
        bend = _BENDS.get((start, end), 0.0)
        middle = (a + b) / 2
        y = _MIDDLE
        if bend:
            side = 1 if bend > 0 else -1
            a, b, y = a - 8, b + 8, _MIDDLE + side * 14
            path = f"M{px(a)} {px(y)}C{px(a + 20)} {px(y + bend)} {px(b - 20)} {px(y + bend)} {px(b)} {px(y)}"
            height = y + 0.75 * bend
        else:
            path, height = f"M{px(a)} {px(y)}H{px(b)}", y
        style = f"line c{_COLOURS[op]}" if live else "wire offwire"
        changed = op != twin
        if changed:
            found.append(f'<path class="halo" d="{path}"/>')
        said = f"{start} to {end}: {op}" + ("" if live or op == NONE else ", not in use")
        found.append(mark(f'path class="mark {style}" d="{path}"', said))
        found.append(
            text(
                middle,
                height - 6,
                _NAMES[op],
                "small" + ("" if live else " off") + (" bold" if changed else ""),
                "middle",
            )
        )
    assert set(_NAMES) == set(OPS)
    return found

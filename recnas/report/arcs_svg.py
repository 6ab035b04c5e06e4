"""Cells and small networks of vision spaces as pictures: boxes in a row, arcs between them.

What is to be drawn is listed by the space (`VisionSpace.rows`). No two arcs share a line: each takes the lowest
free one, short arcs first.
"""

from __future__ import annotations

from collections.abc import Sequence

from recnas.report.svg import mark, px, text, wrap
from recnas.space.drawing import Box, Link, Row

_PITCH, _BOX, _TALL, _ARC, _LEFT, _TITLE = 112.0, 74.0, 30.0, 24.0, 16.0, 26.0
_WIDEST = 1500.0


def draw_rows(archs: Sequence[list[Row]]) -> str:
    """One architecture, or several with what differs marked: side by side, or below one another if they are long."""
    body: list[str] = []
    across = sum(max(map(_width, rows)) for rows in archs) <= _WIDEST
    left = top = width = height = 0.0
    for place, rows in enumerate(archs):
        others = archs[1] if place == 0 and len(archs) > 1 else archs[0]
        body.append(f'<g transform="translate({px(left)} {px(top)})">')
        bottom = 0.0
        for number, row in enumerate(rows):
            drawn, bottom = _draw(row, others[number], bottom)
            body += drawn
        body.append("</g>")
        own = max(map(_width, rows))
        width, height = max(width, left + own), max(height, top + bottom)
        left, top = (left + own, 0.0) if across else (0.0, top + bottom)
    return wrap(body, width, height, " beside ".join(rows[0].name for rows in archs))


def _width(row: Row) -> float:
    return max(2 * _LEFT + _PITCH * (len(row.boxes) - 1) + _BOX, 7.6 * len(row.name) + 2 * _LEFT)


def _draw(row: Row, other: Row, top: float) -> tuple[list[str], float]:
    rises = rises_of(row.links)
    above, below = (max((rise for link, rise in rises.items() if link.side == side), default=0.0) for side in (-1, 1))
    middle = top + _TITLE + above + _TALL / 2 + 14
    found = [text(_LEFT, top + 17, row.name, "bold")]
    for link, rise in rises.items():
        found += _arc(link, rise, middle, changed=link not in other.links, boxes=row.boxes)
    for number, box in enumerate(row.boxes):
        x = _LEFT + _PITCH * number
        changed = number >= len(other.boxes) or other.boxes[number] != box
        classes = f"mark node {box.classes}{' changed' if changed else ''}"
        shape = f'rect class="{classes}" x="{px(x)}" y="{px(middle - _TALL / 2)}" width="{px(_BOX)}" height="{px(_TALL)}" rx="6"'
        found.append(mark(shape, box.title))
        found.append(text(x + _BOX / 2, middle + 4, box.label, "small bold", "middle"))
    return found, middle + _TALL / 2 + below + 22


def rises_of(links: Sequence[Link]) -> dict[Link, float]:
    """How far each arc leaves the boxes; 0 for a nameless link to the next box."""
    taken: list[tuple[int, int, Link]] = []  # side, lane, link
    rises = {}
    for link in sorted(links, key=lambda link: (link.end - link.start, link.start)):
        if link.end - link.start == 1 and not link.label:
            rises[link] = 0.0
            continue
        busy = {
            lane
            for side, lane, other in taken
            if side == link.side and other.start < link.end and link.start < other.end
        }
        lane = next(n for n in range(len(links) + 1) if n not in busy)
        taken.append((link.side, lane, link))
        rises[link] = _ARC * (lane + 1)
    return rises


def _arc(link: Link, rise: float, middle: float, changed: bool, boxes: Sequence[Box]) -> list[str]:
    x1, x2 = _LEFT + _PITCH * link.start + _BOX, _LEFT + _PITCH * link.end
    if not rise:
        path, peak = f"M{px(x1)} {px(middle)}H{px(x2)}", middle
    else:
        x1, x2 = x1 - _BOX * 0.3, x2 + _BOX * 0.3
        edge = middle + link.side * _TALL / 2
        peak = edge + link.side * rise
        path = f"M{px(x1)} {px(edge)}C{px(x1 + 12)} {px(peak)} {px(x1 + 18)} {px(peak)} {px(x1 + 30)} {px(peak)}H{px(x2 - 30)}C{px(x2 - 18)} {px(peak)} {px(x2 - 12)} {px(peak)} {px(x2)} {px(edge)}"
    found = [f'<path class="halo" d="{path}"/>'] if changed else []
    said = f"{boxes[link.start].label} to {boxes[link.end].label}" + (f": {link.label}" if link.label else "")
    found.append(mark(f'path class="mark line c{link.colour}" d="{path}"', said))
    if link.label:
        y = peak - 5 if link.side < 0 else peak + 14
        found.append(text((x1 + x2) / 2, y, link.label, "small" + (" bold" if changed else ""), "middle"))
    return found

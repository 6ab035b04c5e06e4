"""Charts as SVG text: axes with round ticks, lines, bands and points that tell their figures.

    chart = Chart("Best score so far", x=Axis("candidates", 0, 96), y=Axis("sigeo", 300, 800))
    chart.line([(1, 350), (50, 700)], "c0")
    chart.points([(50, 700, "candidate 50: 700")], "f0")
    text = chart.render()

Colours are classes of `recnas.report.theme`, so that one drawing serves light and dark. `standalone` adds
them to a drawing that is saved as a file of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from recnas.report.table import short
from recnas.report.theme import DRAWING, VARIABLES

WIDTH, HEIGHT = 440, 300  # small enough to stay readable on a telephone
_LETTER = 6.4  # width of a small letter, on average
_LEAST = 1e-6  # of the values: a narrower axis shows rounding, and no tick could tell two places apart
Point = tuple[float, float]


def px(value: float) -> str:
    """A coordinate with one decimal at most."""
    text = f"{value:.1f}"
    return text.removesuffix(".0")


def text(x: float, y: float, content: str, classes: str = "", anchor: str = "start") -> str:
    kind = f' class="{classes}"' if classes else ""
    side = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{px(x)}" y="{px(y)}"{kind}{side}>{escape(content)}</text>'


def mark(shape: str, title: str | None) -> str:
    """A shape (written without its closing slash) that says what it stands for."""
    return f"<{shape}><title>{escape(title)}</title></{shape.split(' ', 1)[0]}>" if title else f"<{shape}/>"


def wrap(body: Iterable[str], width: float, height: float, title: str) -> str:
    inside = "\n".join(body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="rn" viewBox="0 0 {px(width)} {px(height)}" role="img" '
        f'aria-label="{escape(title)}">\n{inside}\n</svg>'
    )


def standalone(drawing: str) -> str:
    """The same drawing with its colours, a background and a size of its own."""
    head, rest = drawing.split(">", 1)
    box = head.split('viewBox="', 1)[1].split('"', 1)[0].split()
    size = f' width="{box[2]}" height="{box[3]}"'
    style = f"<style>\n{VARIABLES}{DRAWING}.rn .paper{{fill:var(--bg)}}\n</style>"
    paper = f'<rect class="paper" width="{box[2]}" height="{box[3]}"/>'
    return f"{head}{size}>\n{style}\n{paper}{rest}\n"


@dataclass(frozen=True)
class Axis:
    """From `low` to `high`; `log` needs both above zero."""

    title: str
    low: float
    high: float
    log: bool = False

    @classmethod
    def around(cls, title: str, values: Iterable[float], log: bool = False, zero: bool = False) -> Axis:
        """Wide enough for the values with a little air; never of width zero."""
        known = [v for v in values if math.isfinite(v) and (not log or v > 0)]
        if not known:
            return cls(title, 1.0 if log else 0.0, 10.0 if log else 1.0, log)
        low, high = min(known), max(known)
        if log:
            air = max((high / low) ** 0.06, 1 + _LEAST) if high > low else 1.5
            return cls(title, low / air, high * air, True)
        if zero:
            low, high = min(low, 0.0), max(high, 0.0)
            if low == high:  # nothing but zeros: from zero up
                return cls(title, 0.0, 1.0)
        air = max(0.05 * (high - low), _LEAST * max(abs(low), abs(high))) if high > low else 0.05 * abs(high) or 0.5
        return cls(title, low if zero and low == 0 else low - air, high if zero and high == 0 else high + air)

    def place(self, value: float) -> float:
        """0 at `low`, 1 at `high`."""
        if self.log:  # what has no logarithm stands at the low end
            return math.log(value / self.low) / math.log(self.high / self.low) if value > 0 else 0.0
        return (value - self.low) / (self.high - self.low)

    def ticks(self, wanted: int = 5) -> list[float]:
        return log_ticks(self.low, self.high) if self.log else round_ticks(self.low, self.high, wanted)


def round_ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten within the range."""
    rough = (high - low) / max(1, wanted)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    digits = max(0, -math.floor(math.log10(step)) + 1)
    return [round(i * step, digits) + 0.0 for i in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5 of every decade, or whole decades where there are many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if high / low <= 1000 else (1,)
    found = [f * 10.0**d for d in decades for f in factors if low <= f * 10.0**d <= high]
    return found if len(found) > 1 else round_ticks(low, high, 3)


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """Enough digits to tell neighbours apart, the same for all."""
    if len(ticks) < 2 or max(map(abs, ticks)) >= 10_000:
        return [short(value) for value in ticks]
    step = min(b - a for a, b in pairwise(ticks))
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    if any(abs(round(value, digits) - value) > step * 1e-6 for value in ticks):
        digits += 1
    return [f"{value:,.{digits}f}" for value in ticks]


def _overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


class Chart:
    """Two axes and what is drawn between them."""

    def __init__(
        self, title: str, x: Axis, y: Axis, width: float = WIDTH, height: float = HEIGHT, left: float = 58
    ) -> None:
        self.title, self.x, self.y, self.width, self.height = title, x, y, width, height
        self.left, self.right, self.top, self.bottom = left, 14.0, 12.0, 44.0
        self._body: list[str] = []
        self._legend: list[tuple[str, str]] = []
        self._names: list[tuple[float, float, str]] = []
        self._spots: list[tuple[float, float, float]] = []  # where points are, and how large

    def at(self, x: float, y: float) -> Point:
        inside = self.width - self.left - self.right
        tall = self.height - self.top - self.bottom
        return self.left + inside * self.x.place(x), self.top + tall * (1 - self.y.place(y))

    def line(self, points: Sequence[Point], classes: str, steps: bool = False) -> None:
        if not points:
            return
        parts = []
        for number, (x, y) in enumerate(self.at(*point) for point in points):
            if number == 0:
                parts.append(f"M{px(x)} {px(y)}")
            else:
                parts.append(f"H{px(x)}V{px(y)}" if steps else f"L{px(x)} {px(y)}")
        self._body.append(f'<path class="mark {classes}" d="{"".join(parts)}"/>')

    def band(self, points: Sequence[tuple[float, float, float]], classes: str) -> None:
        """Between the second and the third coordinate."""
        if len(points) < 2:
            return
        there = [self.at(x, low) for x, low, _ in points]
        back = [self.at(x, high) for x, _, high in reversed(points)]
        path = "L".join(f"{px(x)} {px(y)}" for x, y in [*there, *back])
        self._body.append(f'<path class="band {classes}" d="M{path}Z"/>')

    def points(
        self,
        points: Iterable[tuple[float, float, str]],
        classes: str,
        radius: float = 4,
        shape: str = "circle",
    ) -> None:
        for x, y, title in points:
            if not (math.isfinite(x) and math.isfinite(y)):
                continue
            a, b = self.at(x, y)
            self._spots.append((a, b, radius))
            if shape == "diamond":
                r = radius * 1.35
                drawn = f'path class="mark {classes}" d="M{px(a)} {px(b - r)}L{px(a + r)} {px(b)}L{px(a)} {px(b + r)}L{px(a - r)} {px(b)}Z"'
            else:
                drawn = f'circle class="mark {classes}" cx="{px(a)}" cy="{px(b)}" r="{px(radius)}"'
            self._body.append(mark(drawn, title))

    def label(self, x: float, y: float, content: str) -> None:
        """A name beside a point, where it covers neither a point nor another name; left out if there is no room."""
        self._names.append((*self.at(x, y), content))

    def _named(self) -> list[str]:
        found = []
        taken = [(x - r, y - r, x + r, y + r) for x, y, r in self._spots]
        for a, b, content in self._names:
            wide = _LETTER * len(content)
            right, left, middle = 8.0, -8 - wide, -wide / 2
            around = [(side, 4.0) for side in (right, left)]
            around += [(side, dy) for dy in (-9.0, 19.0, -22.0, 32.0, -35.0) for side in (middle, right, left)]
            for dx, dy in around:
                box = (a + dx, b + dy - 10, a + dx + wide, b + dy + 2)
                inside = (
                    box[0] >= self.left and box[2] <= self.width and box[1] >= 0 and box[3] <= self.height - self.bottom
                )
                if inside and not any(_overlap(box, other) for other in taken):
                    taken.append(box)
                    found.append(text(a + dx, b + dy, content, "small"))
                    break
        return found

    def level(self, y: float, classes: str = "zero") -> None:
        a, b = self.at(self.x.low, y)
        self._body.append(f'<path class="{classes}" d="M{px(a)} {px(b)}H{px(self.width - self.right)}"/>')

    def legend(self, name: str, classes: str) -> None:
        if (name, classes) not in self._legend:
            self._legend.append((name, classes))

    def render(self) -> str:
        body = [*self._grid(), *self._body, *self._named()]
        y = self.height + 4.0
        x = self.left
        for name, classes in self._legend:
            room = 22 + 7.0 * len(name)
            if x + room > self.width and x > self.left:
                x, y = self.left, y + 18
            body.append(f'<rect class="{classes}" x="{px(x)}" y="{px(y - 1)}" width="12" height="12" rx="3"/>')
            body.append(text(x + 17, y + 10, name, "small"))
            x += room + 8
        return wrap(body, self.width, y + 18 if self._legend else self.height, self.title)

    def _grid(self) -> list[str]:
        low, right = self.height - self.bottom, self.width - self.right
        found = []
        ticks = self.y.ticks()
        for value, label in zip(ticks, tick_labels(ticks)):
            _, y = self.at(self.x.low, value)
            found.append(f'<path class="grid" d="M{px(self.left)} {px(y)}H{px(right)}"/>')
            found.append(text(self.left - 6, y + 4, label, "small muted", "end"))
        free = 0.0  # where the next label may start
        ticks = self.x.ticks()
        for value, label in zip(ticks, tick_labels(ticks)):
            x, _ = self.at(value, self.y.low)
            found.append(f'<path class="axis" d="M{px(x)} {px(low)}v4"/>')
            half = _LETTER * len(label) / 2
            if x - half > free:
                found.append(text(x, low + 17, label, "small muted", "middle"))
                free = x + half + 6
        found.append(f'<path class="axis" d="M{px(self.left)} {px(self.top)}V{px(low)}H{px(right)}"/>')
        found.append(text((self.left + right) / 2, self.height - 8, self.x.title, "muted", "middle"))
        middle = (self.top + low) / 2
        found.append(
            f'<text class="muted" text-anchor="middle" transform="translate(13 {px(middle)}) rotate(-90)">{escape(self.y.title)}</text>'
        )
        return found

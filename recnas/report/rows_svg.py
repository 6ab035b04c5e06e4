"""Charts with one line per name: dots with intervals, and bars."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from recnas.report.svg import WIDTH, Axis, mark, px, text, tick_labels, wrap

_LINE, _TOP, _FOOT = 24.0, 8.0, 40.0
_LETTER = 6.6


@dataclass(frozen=True)
class Dot:
    """A name, its figure, the interval around it, and single repeats."""

    name: str
    value: float
    title: str
    interval: Sequence[float] | None = None
    repeats: Sequence[float] = field(default_factory=tuple)
    colour: int = 0


def dots(
    title: str, axis_title: str, rows: Sequence[Dot], noise: Sequence[float] | None = None, zero: bool = False
) -> str:
    """One line per row: mean as a dot, interval as a bar, repeats as small dots; `noise` is shaded."""
    values = [v for row in rows for v in (row.value, *(row.interval or ()), *row.repeats)]
    axis = Axis.around(axis_title, [*values, *(noise or ()), *((0.0,) if zero else ())])
    left, low = _left(row.name for row in rows), _TOP + _LINE * len(rows)

    def at(value: float) -> float:
        return left + (WIDTH - left - 14) * axis.place(value)

    body = _scale(axis, at, left, low)
    if noise:
        a, b = at(noise[0]), at(noise[1])
        body.append(
            mark(
                f'rect class="noise" x="{px(a)}" y="{px(_TOP)}" width="{px(b - a)}" height="{px(low - _TOP)}"',
                "one standard deviation over seeds around the reference",
            )
        )
    if zero:
        body.append(f'<path class="zero" d="M{px(at(0))} {px(_TOP)}V{px(low)}"/>')
    for number, row in enumerate(rows):
        y = _TOP + _LINE * (number + 0.5)
        body.append(text(left - 8, y + 4, _clip(row.name), "small", "end"))
        if row.interval:
            body.append(
                f'<path class="line c{row.colour}" d="M{px(at(row.interval[0]))} {px(y)}H{px(at(row.interval[1]))}"/>'
            )
        for value in row.repeats:
            body.append(f'<circle class="mark f{row.colour} faint" cx="{px(at(value))}" cy="{px(y)}" r="2.5"/>')
        body.append(
            mark(
                f'circle class="mark dot f{row.colour}" cx="{px(at(row.value))}" cy="{px(y)}" r="5"',
                row.title,
            )
        )
    return wrap(body, WIDTH, low + _FOOT, title)


def bars(title: str, axis_title: str, rows: Sequence[tuple[str, float, str]], colour: int = 0) -> str:
    """One bar per (name, value from 0 up, what to say about it)."""
    line = 17.0
    axis = Axis.around(axis_title, [value for _, value, _ in rows], zero=True)
    left, low = _left(name for name, _, _ in rows), _TOP + line * len(rows)

    def at(value: float) -> float:
        return left + (WIDTH - left - 14) * axis.place(value)

    body = _scale(axis, at, left, low)
    for number, (name, value, said) in enumerate(rows):
        y = _TOP + line * number
        body.append(text(left - 8, y + 12, _clip(name), "small", "end"))
        wide = max(0.8, at(value) - left)
        body.append(
            mark(
                f'rect class="mark f{colour}" x="{px(left)}" y="{px(y + 2)}" width="{px(wide)}" height="{px(line - 5)}" rx="1.5"',
                said,
            )
        )
    return wrap(body, WIDTH, low + _FOOT, title)


def _scale(axis: Axis, at: Callable[[float], float], left: float, low: float) -> list[str]:
    found = []
    last = -100.0
    ticks = axis.ticks(4)
    for value, label in zip(ticks, tick_labels(ticks)):
        x = at(value)
        found.append(f'<path class="grid" d="M{px(x)} {px(_TOP)}V{px(low)}"/>')
        if x - last > 48:
            found.append(text(x, low + 15, label, "small muted", "middle"))
            last = x
    found.append(text((left + WIDTH) / 2, low + 33, axis.title, "muted", "middle"))
    return found


def _left(names: Iterable[str]) -> float:
    return min(180.0, 16 + _LETTER * max((len(_clip(name)) for name in names), default=0))


def _clip(name: str) -> str:
    return name if len(name) <= 24 else "…" + name[-23:]

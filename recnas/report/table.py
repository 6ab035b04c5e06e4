"""A table with its meaning: the thing that is tested, written as CSV, shown as HTML or Markdown, and drawn."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from recnas.names import in_csv, in_markdown

Row = dict[str, Any]
METRIC_NAMES = {"logloss": "log loss", "auc": "AUC", "accuracy": "accuracy"}  # in sentences and titles


@dataclass(frozen=True)
class Column:
    """`kind` says how a value is written: text, int, num (5 digits), loss (5 decimals), ratio (3 decimals), time (2 digits), share,
    percent (100 times a share already), mb, seconds."""

    name: str
    title: str
    kind: str = "text"
    spread: str | None = None  # the column that holds its standard deviation; shown as `value ± spread`


@dataclass(frozen=True)
class Table:
    """Rows of plain values. `name` is the stem of its files, `note` says what the figures mean."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: list[Row]
    note: str = ""
    more: dict[str, Any] = field(default_factory=dict)  # figures about the whole table, e.g. a correlation

    def __bool__(self) -> bool:
        return bool(self.rows)

    def csv(self) -> str:
        """Every key of the rows, values unrounded; columns that are shown come first."""
        names = list(dict.fromkeys([c.name for c in self.columns] + [name for row in self.rows for name in row]))
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=names, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: in_csv(value) for name, value in row.items()} for row in self.rows)
        return text.getvalue()

    def cells(self, row: Row) -> list[str]:
        """What a reader sees in one row."""
        return [self._cell(column, row) for column in self.columns]

    def shown(self) -> list[Column]:
        """Columns that hold something in at least one row."""
        return [c for c in self.columns if any(row.get(c.name) is not None for row in self.rows)]

    def only_shown(self) -> Table:
        return Table(self.name, self.title, tuple(self.shown()), self.rows, self.note, self.more)

    def markdown(self) -> str:
        right = ["---" if c.kind == "text" else "---:" for c in self.columns]
        lines = [[c.title for c in self.columns], right, *(self.cells(row) for row in self.rows)]
        return "\n".join("| " + " | ".join(_escaped(cell) for cell in line) + " |" for line in lines)

    def _cell(self, column: Column, row: Row) -> str:
        text = show(row.get(column.name), column.kind)
        spread = row.get(column.spread) if column.spread else None
        return f"{text} ± {show(spread, column.kind)}" if spread is not None else text


def show(value: Any, kind: str) -> str:
    """One value as text; a dash for what is not known."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if kind == "text" or isinstance(value, str):
        return str(value)
    if isinstance(value, Sequence):
        return "[" + ", ".join(show(item, kind) for item in value) + "]"
    return number(float(value), kind)


def number(value: float, kind: str = "num") -> str:
    if not math.isfinite(value):
        return "–"
    if kind == "int":
        return f"{value:,.0f}"
    if kind == "loss":
        return f"{value:.5f}"
    if kind == "delta":
        return f"{value:+.5f}"
    if kind == "corr":
        return f"{value:+.2f}"
    if kind == "percent":
        return f"{value:.2f} %"
    if kind == "share":
        return f"{100 * value:.2f} %"
    if kind == "mb":
        return f"{value / 1e6:,.1f} MB" if value >= 1e6 else f"{value / 1e3:,.1f} kB"
    if kind == "ratio":
        return f"{value:,.3f}"
    if kind == "time":
        return two_digits(value)
    if kind == "seconds":
        return f"{value:,.1f} s"
    return short(value)


def short(value: float) -> str:
    """About four digits: 12,340; 1.234; 0.0123; 1.2e-07."""
    size = abs(value)
    if size >= 1e6:
        for unit, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
            if size >= unit:
                return f"{value / unit:.3g}{suffix}"
    if size >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.4g}"


def two_digits(value: float) -> str:
    """A ratio or a time as far as it means anything: 4.2; 0.031; 36,000."""
    return f"{float(f'{value:.2g}'):,.10g}"


def _escaped(cell: str) -> str:
    return in_markdown(cell).replace("|", "\\|")

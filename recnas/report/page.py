"""The report as one HTML file that needs nothing else: no network, no server, and no script to be read."""

from __future__ import annotations

import hashlib
import math
from base64 import b64encode
from html import escape
from importlib import resources
from typing import Any

from recnas.report.content import Code, Lines, Report, Section
from recnas.report.figures import Figure
from recnas.report.table import Column, Table
from recnas.report.theme import DRAWING, VARIABLES

MOST_ROWS = 60  # of one table; the CSV has all


def render(report: Report, files: str | None) -> str:
    """`files` is the folder with SVG and CSV as the page should name it; None if there is none."""
    names = ", ".join(run.label for run in report.runs) or "correlations"
    script = f"\n{_resource('page.js')}"
    style = VARIABLES + DRAWING + _resource("page.css")
    body = [
        f"<h1>{escape(report.verdict.sentence)}</h1>",
        *(f"<p>{escape(line)}</p>" for line in report.verdict.more),
        f'<p class="muted">recnas report of {escape(names)}</p>',
        "<nav>" + "".join(f'<a href="#{s.id}">{escape(s.title)}</a>' for s in report.sections) + "</nav>",
        *(_section(section, files) for section in report.sections),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>recnas: {escape(names)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + f"\n<script>{script}</script>\n</body>\n</html>\n"
    )


def _policy(script: str) -> str:
    """The page may run its own script and load nothing, whatever the names of runs and models made of it."""
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def _resource(name: str) -> str:
    return resources.files("recnas.report").joinpath(name).read_text(encoding="utf-8")


def _section(section: Section, files: str | None) -> str:
    parts = [f'<section id="{section.id}">', f"<h2>{escape(section.title)}</h2>"]
    if section.intro:
        parts.append(f'<p class="note">{escape(section.intro)}</p>')
    items = list(section.items)
    while items and isinstance(items[0], Lines):  # warnings come before anything they are about
        parts.append(_list(items[0]))
        items = items[1:]
    pictures = [item for item in items if isinstance(item, Figure)]
    if pictures:
        parts.append('<div class="figures">' + "\n".join(_figure(figure, files) for figure in pictures) + "</div>")
    for item in items:
        if isinstance(item, Table):
            parts.append(_table(item, files))
        elif isinstance(item, Code):
            parts.append(_code(item))
        elif isinstance(item, Lines):
            parts.append(_list(item))
    return "\n".join([*parts, "</section>"])


def _list(lines: Lines) -> str:
    return "<ul>" + "".join(f"<li>{escape(_capital(line))}</li>" for line in lines.items) + "</ul>"


def _figure(figure: Figure, files: str | None) -> str:
    wide = figure.stem.startswith("winner_")
    links = _links(files, [f"{figure.stem}.svg", *([f"{figure.stem}.csv"] if figure.table.rows else [])])
    drawing = _own_size(figure.svg) if wide else figure.svg
    return (
        f'<figure id="fig-{escape(figure.stem)}"{" class=wide" if wide else ""}>\n<figcaption><b>{escape(figure.title)}</b></figcaption>\n{drawing}\n'
        f'<figcaption>{escape(figure.note)}</figcaption>\n<p class="tools">{links}</p>\n</figure>'
    )


def _own_size(svg: str) -> str:
    """An architecture is as large as it was drawn, and scrolls on a small screen rather than shrink."""
    width = float(svg.split('viewBox="', 1)[1].split('"', 1)[0].split()[2])
    return (
        f'<div class="scroll"><div style="max-width:{width:.0f}px;min-width:{min(width, 820):.0f}px">{svg}</div></div>'
    )


def _links(files: str | None, names: list[str]) -> str:
    if files is None:
        return ""
    return "".join(
        f'<a href="{escape(files)}/{escape(name)}">{escape(name.rsplit(".", 1)[-1].upper())}</a>' for name in names
    )


def _table(table: Table, files: str | None) -> str:
    head = "".join(f'<th scope="col"{_side(column)}>{escape(column.title)}</th>' for column in table.columns)
    rows = []
    for row in table.rows[:MOST_ROWS]:
        cells = zip(table.columns, table.cells(row))
        rows.append("<tr>" + "".join(_cell(column, row.get(column.name), shown) for column, shown in cells) + "</tr>")
    note = table.note
    if len(table.rows) > MOST_ROWS:
        note += f" Shown: the first {MOST_ROWS} of {len(table.rows):,} rows."
    return (
        f'<div class="scroll"><table class="sortable" id="table-{escape(table.name)}"><caption>{escape(table.title)}</caption>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{''.join(rows)}</tbody></table></div>\n"
        f'<p class="note">{escape(note)} <span class="tools">{_links(files, [table.name + ".csv"])}</span></p>'
    )


def _side(column: Column) -> str:
    return "" if column.kind == "text" else ' class="n"'


def _cell(column: Column, value: Any, shown: str) -> str:
    if column.kind == "text":
        return f'<td class="t">{escape(shown)}</td>'
    first = value[0] if isinstance(value, (list, tuple)) and value else value
    known = isinstance(first, (int, float)) and math.isfinite(first)
    return f'<td class="n" data-v="{first if known else ""}">{escape(shown)}</td>'


def _code(code: Code) -> str:
    text = f"<pre><code>{escape(code.text.rstrip())}</code></pre>"
    if code.folded:
        return f"<details><summary>{escape(code.title)}</summary>{text}</details>"
    return f"<h3>{escape(code.title)}</h3>{text}"


def _capital(line: str) -> str:
    """Sentences start with a capital letter, names of runs stay as they are."""
    return line if ": " in line else line[:1].upper() + line[1:]

"""The report as Markdown, short enough for a pull request."""

from __future__ import annotations

import re

from recnas.names import in_markdown, shown
from recnas.report.content import Code, Lines, Report
from recnas.report.figures import Figure
from recnas.report.table import Table

MOST_ROWS = 20
_LEFT_OUT = {"data_columns"}  # long, and in the CSV


def render(report: Report, files: str | None) -> str:
    """`files` is the folder with the figures as the text should name it; None leaves the figures out."""
    parts = [f"**{in_markdown(report.verdict.sentence)}**", *map(in_markdown, report.verdict.more)]
    for section in report.sections:
        parts.append(f"## {in_markdown(section.title)}")
        if section.intro:
            parts.append(in_markdown(section.intro))
        pictures = [item for item in section.items if isinstance(item, Figure)]
        if files is not None and pictures:
            parts.append("\n".join(f"![{in_markdown(figure.title)}]({files}/{figure.stem}.svg)" for figure in pictures))
        for item in section.items:
            if isinstance(item, Table) and item.name not in _LEFT_OUT:
                parts.append(_table(item, files))
            elif isinstance(item, Code):
                parts.append(_code(item))
            elif isinstance(item, Lines):
                parts.append("\n".join(f"- {in_markdown(line)}" for line in item.items))
    return "\n\n".join(parts) + "\n"


def _table(table: Table, files: str | None) -> str:
    part = Table(table.name, table.title, table.columns, table.rows[:MOST_ROWS], table.note)
    left = len(table.rows) - len(part.rows)
    where = f" ({files}/{table.name}.csv)" if files is not None else ""
    more = f" {left:,} more rows are left out{where}." if left else ""
    return f"### {in_markdown(table.title)}\n\n{part.markdown()}\n\n{in_markdown((table.note + more).strip())}".rstrip()


def _code(code: Code) -> str:
    fence = "`" * (1 + max([2, *map(len, re.findall("`+", code.text))]))  # longer than any in the text
    text = f"{fence}\n{shown(code.text.rstrip())}\n{fence}"
    if code.folded:
        return f"<details><summary>{in_markdown(code.title)}</summary>\n\n{text}\n\n</details>"
    return f"### {in_markdown(code.title)}\n\n{text}"

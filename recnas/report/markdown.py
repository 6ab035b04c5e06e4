"""The report as Markdown, short enough for a pull request."""

from __future__ import annotations

from recnas.report.content import Code, Lines, Report
from recnas.report.figures import Figure
from recnas.report.table import Table

MOST_ROWS = 20
_LEFT_OUT = {"data_columns"}  # long, and in the CSV


def render(report: Report, files: str | None) -> str:
    """`files` is the folder with the figures as the text should name it; None leaves the figures out."""
    parts = [f"**{report.verdict.sentence}**", *report.verdict.more]
    for section in report.sections:
        parts.append(f"## {section.title}")
        if section.intro:
            parts.append(section.intro)
        pictures = [item for item in section.items if isinstance(item, Figure)]
        if files is not None and pictures:
            parts.append("\n".join(f"![{figure.title}]({files}/{figure.stem}.svg)" for figure in pictures))
        for item in section.items:
            if isinstance(item, Table) and item.name not in _LEFT_OUT:
                parts.append(_table(item, files))
            elif isinstance(item, Code):
                parts.append(_code(item))
            elif isinstance(item, Lines):
                parts.append("\n".join(f"- {line}" for line in item.items))
    return "\n\n".join(parts) + "\n"


def _table(table: Table, files: str | None) -> str:
    shown = Table(table.name, table.title, table.columns, table.rows[:MOST_ROWS], table.note)
    left = len(table.rows) - len(shown.rows)
    where = f" ({files}/{table.name}.csv)" if files is not None else ""
    more = f" {left:,} more rows are left out{where}." if left else ""
    return f"### {table.title}\n\n{shown.markdown()}\n\n{(table.note + more).strip()}".rstrip()


def _code(code: Code) -> str:
    text = f"```\n{code.text.rstrip()}\n```"
    if code.folded:
        return f"<details><summary>{code.title}</summary>\n\n{text}\n\n</details>"
    return f"### {code.title}\n\n{text}"

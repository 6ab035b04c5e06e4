"""Cut a block of text into lines and cells without a Python loop over rows."""

from __future__ import annotations

import csv
from dataclasses import dataclass

import numpy as np

from recnas.data.cells import PAD, Cells

_NEWLINE, _RETURN, _QUOTE = ord("\n"), ord("\r"), ord('"')


@dataclass(frozen=True)
class BadLine:
    """A line (or one of its cells) that cannot be used. `line` counts from 0 within its block."""

    line: int
    column: str
    reason: str
    text: str


@dataclass(frozen=True)
class LineTable:
    """The well-formed lines of a block, column by column."""

    text: np.ndarray
    start: np.ndarray  # [rows, columns] where each cell begins
    end: np.ndarray  # [rows, columns] and ends
    line: np.ndarray  # [rows] line number within the block, from 0
    lines: int  # all lines of the block, bad ones included
    bad: list[BadLine]

    def cells(self, columns: int | slice | list[int], rows: slice = slice(None)) -> Cells:
        return Cells(self.text, self.start[rows, columns], self.end[rows, columns])


def padded(block: bytes) -> np.ndarray:
    """The block as a byte array with PAD bytes around it; a last line without newline gets one."""
    tail = b"" if block.endswith(b"\n") else b"\n"
    return np.frombuffer(b"".join((b"\n" * PAD, block, tail, b"\n" * PAD)), dtype=np.uint8)


def split_lines(block: bytes, separator: str, columns: int, quoted: bool = False) -> LineTable:
    """Find every cell of a block of whole lines."""
    if quoted and b'"' in block:
        block, bad_quotes = _without_quotes(block, separator)
    else:
        bad_quotes = {}
    text = padded(block)
    inner = text[PAD : len(text) - PAD]
    is_end = inner == _NEWLINE
    marks = np.flatnonzero((inner == ord(separator)) | is_end)
    ends_line = is_end[marks]
    line_ends = np.flatnonzero(ends_line)
    lines = len(line_ends)
    marks += PAD
    bad: list[BadLine] = []
    if lines * columns == len(marks) and not bad_quotes and bool(ends_line[columns - 1 :: columns].all()):
        separators = marks.reshape(lines, columns)
        line = np.arange(lines, dtype=np.int64)
        first = np.empty(lines, dtype=np.int64)
        if lines:
            first[0] = PAD - 1
            first[1:] = separators[:-1, -1]
    else:
        fields = np.diff(line_ends, prepend=-1)
        good = fields == columns
        good[list(bad_quotes)] = False
        starts = np.concatenate(([PAD - 1], marks[line_ends[:-1]])) if lines else np.zeros(0, np.int64)
        for number in np.flatnonzero(~good):
            content = text[starts[number] + 1 : marks[line_ends[number]]].tobytes()
            shown = content[:200].decode("utf-8", "replace").rstrip("\r")
            reason = bad_quotes.get(int(number)) or _count_fault(int(fields[number]), columns, content)
            bad.append(BadLine(int(number), "", reason, shown))
        line = np.flatnonzero(good)
        separators = marks[np.repeat(good, fields)].reshape(len(line), columns)
        first = starts[good]
    start = np.empty_like(separators)
    start[:, 0] = first
    start[:, 1:] = separators[:, :-1]
    start += 1
    if (text[separators[:, -1] - 1] == _RETURN).any():
        separators = separators.copy()
        separators[:, -1] -= (text[separators[:, -1] - 1] == _RETURN) & (separators[:, -1] > start[:, -1])
    return LineTable(text, start, separators, line, lines, bad)


def _count_fault(fields: int, columns: int, content: bytes) -> str:
    if not content.strip():
        return "empty line"
    return f"{fields} fields instead of {columns}"


def _without_quotes(block: bytes, separator: str) -> tuple[bytes, dict[int, str]]:
    """Unquote the lines that use quotes. A separator or line break inside a cell cannot be kept as
    text between separators, so it becomes the control character U+001F; a quote that never closes is
    a bad line."""
    out: list[bytes] = []
    bad: dict[int, str] = {}
    for number, line in enumerate(block.removesuffix(b"\n").split(b"\n")):
        if b'"' in line:
            try:
                cells = next(
                    csv.reader([line.decode("utf-8", "surrogateescape")], delimiter=separator, strict=True)
                )
            except (csv.Error, StopIteration):
                bad[number] = "a quote that does not close on its line"
            else:
                joined = separator.join(cell.replace(separator, "\x1f") for cell in cells)
                line = joined.encode("utf-8", "surrogateescape")
        out.append(line)
    return b"\n".join(out) + b"\n", bad

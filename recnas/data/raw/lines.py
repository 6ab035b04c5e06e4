"""Cut a block of text into lines and cells without a Python loop over rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from recnas.data.raw.serving import RowError, split_line
from recnas.data.raw.text_columns import PAD, Cells

_NEWLINE, _RETURN = ord("\n"), ord("\r")


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


def split_lines(
    block: bytes,
    separator: str,
    columns: int,
    quoted: bool = False,
    most_bad: int | None = None,
    line_breaks: bool = False,
) -> LineTable:
    """Find every cell of a block of whole lines.

    Args:
        line_breaks: cells in quotes may hold them; a line is then a whole row.
        most_bad: how many bad lines are told; the others are only left out.
    """
    inside: list[int] = []  # places of separators that belong to a cell
    breaks: list[int] = []  # and of line breaks
    bad_quotes: dict[int, str] = {}
    if quoted and b'"' in block:
        block, bad_quotes, inside, breaks = _without_quotes(block, separator.encode(), line_breaks)
    text = padded(block)
    inner = text[PAD : len(text) - PAD]
    is_end = inner == _NEWLINE
    marks = np.flatnonzero((inner == ord(separator)) | is_end)
    ends_line = is_end[marks]
    line_ends = np.flatnonzero(ends_line)
    lines = len(line_ends)
    marks += PAD
    if inside or breaks:
        text = text.copy()
        text[np.array(inside, np.int64) + PAD] = ord(separator)
        text[np.array(breaks, np.int64) + PAD] = _NEWLINE
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
        for number in np.flatnonzero(~good)[:most_bad]:
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


def _without_quotes(
    block: bytes, separator: bytes, line_breaks: bool
) -> tuple[bytes, dict[int, str], list[int], list[int]]:
    """Unquote the lines that use quotes; a quote that never closes is a bad line.

    A separator inside a cell would be taken for the end of the cell, so another byte stands in its place
    until the cells have been found. The places are remembered, not the byte: a file may hold any byte.
    """
    stand_in = b"-" if separator == b"_" else b"_"
    out: list[bytes] = []
    bad: dict[int, str] = {}
    inside: list[int] = []
    breaks: list[int] = []
    begin = 0
    lines = block.removesuffix(b"\n").split(b"\n")
    for number, line in enumerate(_records(lines) if line_breaks else lines):
        if b'"' in line:
            try:
                cells = split_line(line.decode("utf-8", "surrogateescape"), separator.decode(), True)
            except RowError as error:
                bad[number] = str(error)
                line = line.replace(b"\n", stand_in)
            else:
                parts = [cell.encode("utf-8", "surrogateescape") for cell in cells]
                at = begin
                for part in parts:
                    inside += [at + place for place, byte in enumerate(part) if byte == separator[0]]
                    breaks += [at + place for place, byte in enumerate(part) if byte == _NEWLINE] if line_breaks else []
                    at += len(part) + 1
                line = separator.join(part.replace(separator, stand_in).replace(b"\n", stand_in) for part in parts)
                if line.endswith(b"\r"):
                    line += b"\r"  # this one belongs to the cell; one at the end of a line is cut off
        out.append(line)
        begin += len(line) + 1
    return b"\n".join(out) + b"\n", bad, inside, breaks


def _records(lines: list[bytes]) -> Iterator[bytes]:
    """Lines put together where a quote is still open."""
    held: list[bytes] = []
    quotes = 0
    for line in lines:
        held.append(line)
        quotes += line.count(b'"')
        if quotes % 2 == 0:
            yield b"\n".join(held)
            held = []
    if held:
        yield b"\n".join(held)

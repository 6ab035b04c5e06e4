"""What the first rows of a file look like: its separator, its header, and of every column what its cells could be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import pyarrow as pa

from recnas.data.raw.lines import split_lines
from recnas.data.raw.parquet import PARQUET_ROWS, cells_of_array, is_list, parquet_batches, parquet_columns
from recnas.data.raw.recipe import MISSING_NUMBERS
from recnas.data.raw.sections import Clock
from recnas.data.raw.serving import RowError, split_line
from recnas.data.raw.sources import Source, check_is_text, open_stream, read_some, text_blocks
from recnas.data.raw.text_columns import Cells, parse_hex, parse_integers, parse_numbers, parse_strings
from recnas.data.raw.times import parse_times
from recnas.data.raw.values import number_of
from recnas.errors import DataError

MOST_ROWS = 1_000_000
SEPARATORS = "\t,;|\x01 "
_BLOCK = 4 << 20
_START = 1 << 16  # bytes from which the form of a file is told
_TRIED = 500  # cells of a block that tell whether it is worth trying all
_KEPT = 12  # different cells that are remembered


@dataclass(frozen=True)
class FileForm:
    """How a text file is written; the names of its columns are the header's, or made up."""

    separator: str
    quote: bool
    line_breaks: bool
    header: bool
    columns: tuple[str, ...]


@dataclass
class ColumnFacts:
    """What was seen of one column. Counts are of cells that are not missing."""

    name: str
    rows: int = 0
    missing: int = 0
    integers: int = 0
    numbers: int = 0
    times: int = 0  # in ISO format
    hexadecimal: int = 0  # of 8 or 16 digits
    letters: bool = False  # in those
    padded: bool = False  # an integer with a zero before it, which is a name rather
    low: float = np.inf
    high: float = -np.inf
    several: dict[str, int] = field(default_factory=dict)  # separator inside the cell -> cells that have it
    words: list[str] = field(default_factory=list)  # some that are no numbers
    values: list[str] = field(default_factory=list)  # all that there are, if they are few
    keys: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint64))  # one per different cell
    lists: bool = False  # cells are lists; all else is of their values
    unreadable: str = ""  # its type, if it has cells of no kind that recipes know

    @property
    def known(self) -> int:
        return self.rows - self.missing

    @property
    def distinct(self) -> int:
        return len(self.keys)

    def look_at(self, cells: Cells) -> None:
        strings, _ = parse_strings(cells)
        texts = dict(zip(strings.unique_keys.tolist(), strings.unique_bytes))
        gone = np.array(
            [key for key, text in texts.items() if not text or text.decode("utf-8", "replace") in MISSING_NUMBERS]
        )
        here = ~np.isin(strings.keys, gone.astype(np.uint64)) if len(gone) else np.ones(len(strings.keys), bool)
        some = cells.at((np.flatnonzero(here),))
        self.rows += len(here)
        self.missing += int((~here).sum())
        if not len(some.start):
            return
        self.keys = np.union1d(self.keys, strings.keys[here])
        known = (text.decode("utf-8", "replace") for text in texts.values() if text)
        self.values += [
            text for text in islice(known, 4 * _KEPT) if text not in self.values and text not in MISSING_NUMBERS
        ][: _KEPT + 1 - len(self.values)]
        _, no_integer = parse_integers(some)
        self.integers += int((~no_integer).sum())
        starts_with_zero = (some.text[some.start] == ord("0")) & (some.length > 1)
        self.padded |= bool((starts_with_zero & ~no_integer).any())
        self._numbers(some)
        of_a_length = np.flatnonzero((some.length == 8) | (some.length == 16))
        if len(of_a_length) == len(some.start):
            _, bad = parse_hex(some)
            self.hexadecimal += int((~bad).sum())
            self.letters |= bool((no_integer & ~bad).any())
        if self._mostly(some, lambda part: parse_times(part, Clock(format="iso"))[1]):
            self.times += int((~parse_times(some, Clock(format="iso"))[1]).sum())
        for mark in "|;, ":
            having = sum(mark in text for text in self.values)
            self.several[mark] = max(self.several.get(mark, 0), having)

    def _numbers(self, cells: Cells) -> None:
        if not self._mostly(cells, lambda part: parse_numbers(part)[1]):
            return
        values, bad = parse_numbers(cells)
        self.numbers += int((~bad).sum())
        if not bad.all():
            self.low, self.high = min(self.low, float(values[~bad].min())), max(self.high, float(values[~bad].max()))
        for place in np.flatnonzero(bad)[:1000].tolist():
            word = cells.bytes_of(place).decode("utf-8", "replace")
            if word not in self.words and len(self.words) < _KEPT:
                self.words.append(word)

    @staticmethod
    def _mostly(cells: Cells, bad_of: Callable[[Cells], np.ndarray]) -> bool:
        """Whether it is worth reading all cells so: one by one, what is not of a kind costs most."""
        part = cells.at((np.arange(min(_TRIED, len(cells.start))),))
        return float(bad_of(part).mean()) < 0.5


def form_of(source: Source) -> FileForm:
    """The form of a text file, from its first lines."""
    check_is_text(source)
    with open_stream(source) as stream:
        start = read_some(source, stream, _START).removeprefix(b"\xef\xbb\xbf")
    text = start.decode("utf-8", "replace")
    lines = [line.rstrip("\r") for line in text.split("\n")]
    lines = [line for line in (lines[:-1] if len(start) == _START else lines) if line][:500]
    if not lines:
        raise DataError(f"{source.path} has no lines.", "Was the download or copy cut short? Fetch it again.")
    separator = max(SEPARATORS, key=lambda mark: (_agreement(lines, mark), -SEPARATORS.index(mark)))
    if _agreement(lines, separator) <= 0:
        raise DataError(
            f"{source.path} has no separator that cuts its lines into the same number of cells.",
            "Its first lines: head -3 FILE. Separators that are tried: tab , ; | \\x01 space",
        )
    quote = any(f'{separator}"' in line or line.startswith('"') for line in lines)
    breaks = quote and any(line.count('"') % 2 for line in lines)
    first = _cells(lines[0], separator, quote)
    later = [row for row in (_cells(line, separator, quote) for line in lines[1:]) if len(row) == len(first)]
    header = _is_header(first, later)
    return FileForm(
        separator, quote, breaks, header, tuple(first) if header else tuple(f"c{i + 1}" for i in range(len(first)))
    )


def _cells(line: str, separator: str, quote: bool) -> list[str]:
    try:
        return split_line(line, separator, quote)
    except RowError:
        return line.split(separator)


def _agreement(lines: list[str], separator: str) -> float:
    """How many cells lines have, if they agree; the usual number, times the share of lines that have it."""
    counts = [len(_cells(line, separator, True)) for line in lines]
    usual = max(set(counts), key=counts.count)
    share = counts.count(usual) / len(counts)
    return 0.0 if usual == 1 or share < 0.5 else share * (10 if separator != " " else 1) + min(usual, 100) / 1000


def _is_header(first: list[str], later: list[list[str]]) -> bool:
    """Names are there once, are no numbers, and do not come again below themselves."""
    if len(set(first)) < len(first) or any(not cell or number_of(cell) is not None for cell in first):
        return False
    if not later:
        return True
    numeric = [sum(number_of(row[i]) is not None for row in later) > len(later) / 2 for i in range(len(first))]
    again = sum(cell in {row[i] for row in later} for i, cell in enumerate(first))
    return any(numeric) or again == 0


def columns_of_text(source: Source, form: FileForm, most_rows: int) -> list[ColumnFacts]:
    found = [ColumnFacts(name) for name in form.columns]
    rows = 0
    for number, block in enumerate(text_blocks(source, _BLOCK, form.line_breaks)):
        if form.header and number == 0:
            block = block[block.find(b"\n") + 1 :] if b"\n" in block else b""
        if not block:
            continue
        table = split_lines(block, form.separator, len(found), form.quote, 1, form.line_breaks)
        chosen = slice(0, most_rows - rows)
        for i, column in enumerate(found):
            column.look_at(table.cells(i, chosen))
        rows += len(table.line[chosen])
        if rows >= most_rows:
            break
    return found


def columns_of_parquet(source: Source, most_rows: int) -> list[ColumnFacts]:
    found = [ColumnFacts(name) for name in parquet_columns(source)]
    batches: Iterator[pa.RecordBatch] = parquet_batches(source, [column.name for column in found], PARQUET_ROWS)
    for batch in islice(batches, -(-most_rows // PARQUET_ROWS)):
        for column, array in zip(found, batch.columns):
            if column.unreadable:
                continue
            if pa.types.is_dictionary(array.type):
                array = array.dictionary_decode()
            if is_list(array.type):
                column.lists, array = True, array.flatten()
            try:
                column.look_at(cells_of_array(array.cast(pa.string())))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                column.unreadable = str(array.type)
    return found

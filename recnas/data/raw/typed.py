"""Cells of a column as values of its kind, with masks of missing and bad cells.

Text files and Parquet columns of text both come through here, so that they follow the same rules.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np

from recnas.data.raw.input_column import InputColumn
from recnas.data.raw.labels import LABEL_WORDS
from recnas.data.raw.sections import Clock
from recnas.data.raw.text_columns import (
    Cells,
    StringKeys,
    parse_hex,
    parse_integers,
    parse_numbers,
    parse_strings,
    which_word,
)
from recnas.data.raw.times import parse_times
from recnas.data.raw.values import hexadecimal_of, integer_of, number_of, seconds_of

PARSERS = {"hex": parse_hex, "int": parse_integers, "number": parse_numbers}


class Typed(NamedTuple):
    """One parsed source column of n rows."""

    values: np.ndarray
    missing: np.ndarray  # bool
    bad: np.ndarray  # bool
    strings: StringKeys | None = None


def typed_cells(cells: Cells, kind: str, column: InputColumn | None) -> Typed:
    """Cells of one column as one of the kinds, or as "label"."""
    if column is not None and column.suffix:
        cells = cut_suffix(cells, column.suffix.encode())
    cut_wrong, missing = cells.end < cells.start, cells.start == cells.end
    whole = Cells(cells.text, cells.start, np.maximum(cells.start, cells.end))
    if kind == "time":
        assert column is not None
        assert column.clock is not None
        values, bad = parse_times(whole, column.clock)
        return with_words(whole, kind, column, values, (bad & ~missing) | cut_wrong, missing)
    if kind != "string":
        values, bad = PARSERS["number" if kind == "label" else kind](whole)
        return with_words(whole, kind, column, values, (bad & ~missing) | cut_wrong, missing)
    strings, bad = parse_strings(whole)
    for text in column.missing if column is not None else ():
        missing = missing | (strings.keys == string_key(text))
    return Typed(strings.keys, missing, bad | cut_wrong, strings)


def with_words(
    cells: Cells,
    kind: str,
    column: InputColumn | None,
    values: np.ndarray,
    bad: np.ndarray,
    missing: np.ndarray,
) -> Typed:
    """Parsed numbers, with the words that are allowed in their place: of a missing cell, or of a label."""
    if column is not None:
        for value in missing_values(kind, column.missing, column.clock):
            missing = missing | ((values == value) & ~bad)
    texts = (
        tuple(LABEL_WORDS)
        if kind == "label"
        else missing_texts(kind, column.missing if column else (), column.clock if column else None)
    )
    if not texts or not bad.any():
        return Typed(values, missing, bad)
    places = np.flatnonzero(bad)
    some = cells.at((places,))
    some = some._replace(end=np.maximum(some.start, some.end))  # a cell without its suffix is no word
    word = which_word(some, tuple(text.encode() for text in texts), ignore_case=kind == "label")
    places, word = places[word >= 0], word[word >= 0]
    bad, missing, values = bad.copy(), missing.copy(), values.copy()
    bad[places] = False
    if kind == "label":
        values[places] = np.array(list(LABEL_WORDS.values()))[word]
    else:
        missing[places] = True
    return Typed(values, missing, bad)


def cut_suffix(cells: Cells, suffix: bytes) -> Cells:
    """Shorten cells that end in the suffix; others get end < start, which marks them bad."""
    end = cells.end - len(suffix)
    matches = end >= cells.start
    for i, byte in enumerate(suffix):
        matches &= cells.text[np.maximum(end + i, 0)] == byte
    return Cells(
        cells.text,
        cells.start,
        np.where(matches, end, np.where(cells.start == cells.end, cells.end, cells.start - 1)),
    )


def missing_values(kind: str, texts: tuple[str, ...], clock: Clock | None = None) -> list[Any]:
    """Those of a column's `missing` texts that are values of its kind: compared as such, so -1.0 is -1."""
    found: list[Any] = []
    for text in texts:
        if kind == "number" and (number := number_of(text)) is not None:
            found.append(number)
        elif kind == "int" and (whole := integer_of(text)) is not None:
            found.append(np.int64(int(whole)))
        elif kind == "hex" and (digits := hexadecimal_of(text)) is not None:
            found.append(np.uint64(int(digits, 16)))
        elif kind == "time" and clock is not None:
            seconds = seconds_of(text, clock.format, clock.offset)
            found += [] if seconds is None else [seconds]
    return found


def missing_texts(kind: str, texts: tuple[str, ...], clock: Clock | None = None) -> tuple[str, ...]:
    """The others, which no cell that can be parsed is equal to."""
    return tuple(text for text in texts if not missing_values(kind, (text,), clock))


def string_key(text: str) -> np.uint64:
    return np.frombuffer(hashlib.blake2b(text.encode(), digest_size=8).digest(), "<u8")[0]

"""From a block of raw text (or a Parquet batch) to typed columns, with every bad row accounted for.

Rows in = rows out + rejects, always. A typed column is a `Typed`: values plus masks of missing and
bad cells; sparse values become 64-bit keys (32-bit where a hexadecimal column fits), dense ones transformed
numbers with NaN for a missing cell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from recnas.data.raw.dense import transformed
from recnas.data.raw.input_column import InputColumn
from recnas.data.raw.joins import Side, SideCells, SideTable
from recnas.data.raw.labels import clicks_of
from recnas.data.raw.lines import BadLine, LineTable, split_lines
from recnas.data.raw.pieces import BagColumn, Pieces, bag_column, split_cells
from recnas.data.raw.recipe import Recipe
from recnas.data.raw.sections import TimeOrder
from recnas.data.raw.text_columns import PAD, Cells, StringKeys
from recnas.data.raw.times import DAY, parts_of
from recnas.data.raw.typed import PARSERS, Typed, cut_suffix, typed_cells, with_words
from recnas.data.raw.weights import weights_of

# Gives a source column as one of the kinds, or as "label"; text and Parquet each have their own.
ReadColumn = Callable[[str, str, InputColumn | None], Typed]
ShowCell = Callable[[str, int], str]
ReadPieces = Callable[[str, InputColumn], Pieces]  # of a column whose cells hold several values

NOT_A_TIME, NOT_A_NUMBER, NOT_AN_INTEGER = "not a time YYMMDDHH", "not a number", "not an integer"
_NOT_OF_THE_KIND = {
    "number": NOT_A_NUMBER,
    "int": NOT_AN_INTEGER,
    "hex": "not hexadecimal",
    "string": "not valid UTF-8",
}


@dataclass
class Chunk:
    """The good rows of one block, ready to be spilled."""

    lines: int  # rows in, bad ones included
    line: np.ndarray  # [n] row number within the block of each good row
    label: np.ndarray  # [n] uint8
    labels: dict[str, np.ndarray] = field(default_factory=dict)  # the same of further labels, by name
    weight: np.ndarray | None = None  # float32 [n], where rows have weights
    dense: dict[str, np.ndarray] = field(default_factory=dict)  # [n], see `dense.transformed`
    keys: dict[str, np.ndarray] = field(default_factory=dict)  # uint32 or uint64 [n]; float64 of buckets
    missing: dict[str, np.ndarray] = field(default_factory=dict)  # bool [n], only where there are any
    bags: dict[str, BagColumn] = field(default_factory=dict)
    strings: dict[str, StringKeys] = field(default_factory=dict)
    time: np.ndarray | None = None  # int64 [n], seconds, where the recipe has a column of times
    group: np.ndarray | None = None  # uint64 [n], where rows that belong together stay in one split
    grouped: np.ndarray | None = None  # bool [n], False where a row belongs to none; None if all do
    bad: list[BadLine] = field(default_factory=list)
    not_clicks: tuple[tuple[str, int], ...] = ()  # by column of a label, which of 0 and -1 stand for "no click"


class RawRows(NamedTuple):
    """Rows of a block as they can be read: which of its `lines` they are, and those that have no cells."""

    line: np.ndarray
    lines: int
    read: ReadColumn
    show: ShowCell
    bad: list[BadLine]
    pieces: ReadPieces


def rows_of_text(
    text: bytes,
    first: bool,
    columns: tuple[str, ...],
    recipe: Recipe,
    inputs: list[InputColumn],
    numbers: tuple[str, ...] = (),
    most_bad: int | None = None,
) -> RawRows | None:
    """The rows of a block of text, the `first` one perhaps with a header; None if there are none.

    Args:
        most_bad: as in `parse_rows`.
        numbers: columns that are read as numbers besides those the recipe names.
    """
    if recipe.header and first:
        text = text[text.find(b"\n") + 1 :] if b"\n" in text else b""
    if not text:
        return None
    table = split_lines(text, recipe.separator, len(columns), recipe.quote, most_bad, recipe.line_breaks)
    read, show = _text_reader(table, columns, recipe, inputs, numbers)
    position = {name: i for i, name in enumerate(columns)}

    def pieces(name: str, column: InputColumn) -> Pieces:
        return pieces_of_cells(table.cells(position[name]), column)

    return RawRows(table.line, table.lines, read, show, table.bad, pieces)


def pieces_of_cells(cells: Cells, column: InputColumn) -> Pieces:
    assert column.several is not None
    values, counts, cut = split_cells(cells, column.several)
    return Pieces(typed_cells(values, column.kind, column), counts, cut)


def with_partitions(rows: RawRows, partitions: Mapping[str, str]) -> RawRows:
    """Rows that also have the columns in the names of their folder, each with the same cell in every row."""

    def read(name: str, kind: str, column: InputColumn | None) -> Typed:
        if name not in partitions:
            return rows.read(name, kind, column)
        cell = partitions[name].encode()
        text = np.frombuffer(bytes(PAD) + cell + bytes(PAD), np.uint8)
        one = typed_cells(Cells(text, np.array([PAD]), np.array([PAD + len(cell)])), kind, column)
        values, missing, bad = (np.repeat(array, len(rows.line)) for array in (one.values, one.missing, one.bad))
        return Typed(values, missing, bad, None if one.strings is None else one.strings._replace(keys=values))

    def show(name: str, row: int) -> str:
        return partitions[name] if name in partitions else rows.show(name, row)

    def pieces(name: str, column: InputColumn) -> Pieces:
        if name not in partitions:
            return rows.pieces(name, column)
        cell = partitions[name].encode()
        text = np.frombuffer(bytes(PAD) + cell + bytes(PAD), np.uint8)
        start = np.full(len(rows.line), PAD)
        return pieces_of_cells(Cells(text, start, start + len(cell)), column)

    return rows._replace(read=read, show=show, pieces=pieces)


def _with_joined(rows: RawRows, recipe: Recipe, sides: Mapping[str, Side]) -> RawRows:
    """Rows that also have the columns that joins add, read by the rules of the raw file's own."""
    added = {name: join for join in recipe.joins for name in join.add}
    if not added:
        return rows
    keys: dict[str, np.ndarray] = {}

    def cells_of(name: str) -> Cells:
        join = added[name]
        if join.key not in keys:
            key = InputColumn(name=join.key, source=join.key, kind="string")
            keys[join.key] = rows.read(join.key, "string", key).values
        side = sides[join.file]
        assert isinstance(side, SideCells)
        return side.at(keys[join.key], name)

    def read(name: str, kind: str, column: InputColumn | None) -> Typed:
        return typed_cells(cells_of(name), kind, column) if name in added else rows.read(name, kind, column)

    def show(name: str, row: int) -> str:
        if name not in added:
            return rows.show(name, row)
        return cells_of(name).bytes_of(row)[:100].decode("utf-8", "replace") + f" of {added[name].file}"

    def pieces(name: str, column: InputColumn) -> Pieces:
        return pieces_of_cells(cells_of(name), column) if name in added else rows.pieces(name, column)

    return rows._replace(read=read, show=show, pieces=pieces)


_TILE_CELLS = 24_576  # cells parsed at a time: their words stay in the second-level cache


def _text_reader(
    table: LineTable,
    names: tuple[str, ...],
    recipe: Recipe,
    inputs: list[InputColumn],
    numbers: tuple[str, ...],
) -> tuple[ReadColumn, ShowCell]:
    """Read columns of a block of text by name.

    All columns of a kind are parsed together, a tile of rows at a time, because cells of one line lie
    side by side in memory while cells of one column do not.
    """
    position = {name: i for i, name in enumerate(names)}
    groups: dict[tuple[str, str | None], list[int]] = {}
    labels = [label.column for label in recipe.every_label]
    weight = (recipe.weight.column,) if recipe.weight is not None else ()
    found = [position[name] for name in (*labels, *weight, *numbers) if name in position]
    if found:  # rows that are only to be predicted need no label
        groups["number", None] = list(dict.fromkeys(found))
    if recipe.time is not None and recipe.time.column in position and recipe.time.format == "yymmddhh":
        groups.setdefault(("int", None), []).append(position[recipe.time.column])
    for column in inputs:
        if column.kind not in ("string", "time") and column.several is None and column.source in position:
            group = groups.setdefault((column.read_kind, column.suffix), [])
            if position[column.source] not in group:
                group.append(position[column.source])
    times: dict[Any, Typed] = {}
    parsed = {key: _parse_group(table, key[0], key[1], sorted(columns)) for key, columns in groups.items()}

    def read(name: str, kind: str, column: InputColumn | None) -> Typed:
        cells = table.cells(position[name])
        if kind == "time" and column is not None:  # an hour, a weekday and the split come of one column
            key = (name, column.clock, column.missing, column.suffix)
            if key not in times:
                times[key] = typed_cells(cells, kind, column)
            return times[key]
        if kind == "string":
            return typed_cells(cells, kind, column)
        if column is not None and column.suffix:
            cells = cut_suffix(cells, column.suffix.encode())
        of_kind = parsed["number" if kind == "label" else kind, column.suffix if column else None]
        return with_words(cells, kind, column, *of_kind[position[name]])

    def show(name: str, row: int) -> str:
        return table.cells(position[name]).bytes_of(row)[:100].decode("utf-8", "replace")

    return read, show


def _parse_group(
    table: LineTable, kind: str, suffix: str | None, columns: list[int]
) -> dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(values, bad, missing) of several columns of one kind."""
    n, k = len(table.line), len(columns)
    values = np.empty((k, n), dtype={"hex": np.uint64, "int": np.int64, "number": np.float64}[kind])
    bad = np.empty((k, n), dtype=bool)
    missing = np.empty((k, n), dtype=bool)
    together: slice | list[int] = slice(columns[0], columns[-1] + 1) if columns[-1] - columns[0] == k - 1 else columns
    step = max(256, _TILE_CELLS // k)
    for first in range(0, n, step):
        rows = slice(first, first + step)
        cells = table.cells(together, rows)
        if suffix:
            cells = cut_suffix(cells, suffix.encode())
        tile_values, tile_bad = PARSERS[kind](Cells(cells.text, cells.start, np.maximum(cells.start, cells.end)))
        empty = cells.start == cells.end
        tile_bad &= ~empty
        if suffix:
            tile_bad |= cells.end < cells.start
        values[:, rows], bad[:, rows], missing[:, rows] = tile_values.T, tile_bad.T, empty.T
    return {column: (values[i], bad[i], missing[i]) for i, column in enumerate(columns)}


def parse_rows(
    recipe: Recipe,
    inputs: list[InputColumn],
    rows: RawRows,
    sides: Mapping[str, Side],
    most_bad: int | None = None,
) -> Chunk:
    """Parse the label and every input of `rows`.

    Args:
        most_bad: how many bad rows are listed, the first one among them; the others are only left out. None lists all.
    """
    rows = _with_joined(rows, recipe, sides)
    read = rows.read
    reasons: dict[int, tuple[str, str]] = {}  # row -> (column, reason), the first fault of each row
    left_out = np.zeros(len(rows.line), dtype=bool)

    def note(bad: np.ndarray, column: str, reason: str) -> None:
        if not bad.any():  # much cheaper than listing them
            return
        for row in np.flatnonzero(bad & ~left_out)[:most_bad]:
            reasons[int(row)] = (column, reason)
        np.logical_or(left_out, bad, out=left_out)

    chunk = Chunk(lines=rows.lines, line=rows.line, label=np.zeros(0, np.uint8))
    for number, rule in enumerate(recipe.every_label):
        label = read(rule.column, "label" if rule.at_least is None else "number", None)
        note(label.missing, rule.column, "the label is empty")
        clicks, no_label = clicks_of(rule, label.values, label.bad)
        note(no_label, rule.column, rule.fault)
        if number == 0:
            chunk.label = clicks
        else:
            chunk.labels[recipe.labels[number].name] = clicks
        read_well = ~(label.missing | no_label)
        if rule.at_least is None:
            seen = [v for v in (0, -1) if bool((read_well & (label.values == v)).any())]
            chunk.not_clicks = (*chunk.not_clicks, *((rule.column, v) for v in seen))
    if recipe.weight is not None:
        chunk.weight, faults = weights_of(read(recipe.weight.column, "number", None))
        for bad, reason in faults:
            note(bad, recipe.weight.column, reason)
    if recipe.time is not None and recipe.time.column is not None:
        chunk.time, no_time = _time_of_rows(read, recipe.time)
        note(no_time, recipe.time.column, not_a_time(recipe.time.format))
    if recipe.group is not None:
        of_rows = read(recipe.group, "string", None)
        note(of_rows.bad, recipe.group, _NOT_OF_THE_KIND["string"])
        chunk.group = of_rows.values.astype(np.uint64, copy=True)
        chunk.grouped = ~of_rows.missing if of_rows.missing.any() else None
    for column in inputs:
        if column.several is not None:
            pieces = rows.pieces(column.source, column)
            keys = _narrow(pieces.values.values.view(np.uint64), column.kind)
            chunk.bags[column.name], with_bad = bag_column(pieces, keys)
            note(with_bad, column.source, _fault_of(column))
            if pieces.values.strings is not None and column.hash is None:
                chunk.strings[column.name] = pieces.values.strings
            continue
        typed = read(column.source, column.read_kind, column)
        note(typed.bad, column.source, _fault_of(column))
        values, missing = typed.values, typed.missing
        if column.is_dense:
            chunk.dense[column.name], too_large = transformed(values, missing | typed.bad, column)
            note(too_large, column.source, "too large for a 32-bit number")
            continue
        if column.kind == "time":
            values = parts_of(np.where(missing | typed.bad, 0, values), str(column.derivation))
        elif column.derivation is not None:
            note(_bad_hour(values) & ~missing, column.source, NOT_A_TIME)
            values = _derived(np.where(missing | typed.bad | _bad_hour(values), 0, values), column.derivation)
        if column.join is not None:
            side = sides[column.join]
            assert isinstance(side, SideTable)
            values, absent = side.look_up(values, column.join_column)
            missing = missing | absent
        if column.kind == "bucket":
            chunk.keys[column.name] = np.where(missing | typed.bad, 0.0, values)
            if missing.any():
                chunk.missing[column.name] = missing
            continue
        if typed.strings is not None and column.has_vocabulary:
            chunk.strings[column.name] = typed.strings
        chunk.keys[column.name] = _narrow(values.view(np.uint64), column.kind)
        if missing.any():
            chunk.missing[column.name] = missing
    if reasons:
        for row, (name, reason) in sorted(reasons.items())[:most_bad]:
            chunk.bad.append(BadLine(int(rows.line[row]), name, reason, rows.show(name, row)))
        _keep_rows(chunk, ~left_out)
    chunk.bad = sorted(chunk.bad + rows.bad, key=lambda fault: fault.line)[:most_bad]
    return chunk


def not_a_time(form: str) -> str:
    return NOT_A_TIME if form == "yymmddhh" else f"not a time ({form})"


def _fault_of(column: InputColumn) -> str:
    return _NOT_OF_THE_KIND[column.read_kind] if column.clock is None else not_a_time(column.clock.format)


def _time_of_rows(read: ReadColumn, time: TimeOrder) -> tuple[np.ndarray, np.ndarray]:
    """Seconds since 1970 on the clock of the recipe, and which rows have no time."""
    assert time.column is not None
    if time.format == "yymmddhh":
        hour = read(time.column, "int", None)
        bad = hour.bad | hour.missing | _bad_hour(hour.values)
        values = np.where(hour.bad, 0, hour.values)
        return _day_number(values) * DAY + values % 100 * 3600, bad
    column = InputColumn(name=time.column, source=time.column, kind="time", clock=time.clock)
    found = read(time.column, "time", column)
    return found.values, found.bad | found.missing


def _keep_rows(chunk: Chunk, keep: np.ndarray) -> None:
    chunk.line, chunk.label = chunk.line[keep], chunk.label[keep]
    if chunk.weight is not None:
        chunk.weight = chunk.weight[keep]
    for name in ("time", "group", "grouped"):
        if getattr(chunk, name) is not None:
            setattr(chunk, name, getattr(chunk, name)[keep])
    for columns in (chunk.labels, chunk.dense, chunk.keys, chunk.missing):
        for name in columns:
            columns[name] = columns[name][keep]
    chunk.bags = {name: bag.of_rows(keep) for name, bag in chunk.bags.items()}


def _narrow(keys: np.ndarray, kind: str) -> np.ndarray:
    """Half the spill for the 32-bit hashes of Criteo and Avazu, and for small integers."""
    if kind != "string" and (not len(keys) or int(keys.max()) < 1 << 32):
        return keys.astype(np.uint32)
    return keys


def _day_number(hour: np.ndarray) -> np.ndarray:
    """Days since 1970-01-01 of integers YYMMDDHH."""
    day, month, year = hour // 100 % 100, hour // 10_000 % 100, hour // 1_000_000
    months = ((2000 + year) * 12 + np.clip(month, 1, 12) - 1 - 1970 * 12).astype("datetime64[M]")
    return months.astype("datetime64[D]").astype(np.int64) + day - 1


def _bad_hour(hour: np.ndarray) -> np.ndarray:
    day, month, hh = hour // 100 % 100, hour // 10_000 % 100, hour % 100
    return (hour < 0) | (hour > 99_123_123) | (month < 1) | (month > 12) | (day < 1) | (day > 31) | (hh > 23)


def _derived(hour: np.ndarray, how: str) -> np.ndarray:
    if how == "yymmddhh-hour":
        return hour % 100
    return parts_of(_day_number(hour) * DAY, "weekday")

"""How a raw row becomes the inputs of a model: numbers for the dense columns, ids for the sparse ones.

Python's standard library only, values.py and transforms.py. `recnas export` copies all three beside the model it writes, so that what
is served and what was trained follow one set of rules. `model` is the content of model.json.

    reader = RowReader(model, Vocabularies(folder, model))
    for dense, ids in reader.rows(b"0,3.50,\"London, UK\"\n"): ...

A row is a line of the raw file or a JSON object {column: cell}:

    a line         with or without its label (and weight); a header line before it tells the order of the columns
    an object      every column the model reads; null or "" is a missing cell; several values are a list, or text

A column of `several` values is cut at its separator, at most `length` are kept, the missing ones are left out, and the id of
missing fills the places that stay free: its ids stand behind each other where other columns have one.

A cell is missing if it is empty, or equal to one of its column's `missing` texts, as text or as a number.
Numbers are transformed, then replaced by what their column's `edges` say, or standardised if `statistics.applied`; a missing one becomes `fill` after that.
A category with `hash` has the row that its hash falls into, another one is looked up in its vocabulary as text, written in one way whatever way the cell is:

    hex      lower case, at least 8 digits: `1F` is `0000001f`
    int      decimal without leading zeros, as a signed 64-bit number: 2^64 - 1 is `-1`
    string   the cell itself
    time     read as its column's `time` says, then as the derived hour, weekday (Monday 0) or day of the month
"""

from __future__ import annotations

import bisect
import csv
import difflib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from recnas.data.raw.transforms import TRANSFORMS
from recnas.data.raw.values import DERIVATIONS, key_of, kind_of, number_of, row_of_hash

LARGEST = 3.4028234663852886e38  # of a 32-bit float
Inputs = tuple[list[float], list[int]]  # dense, ids
LookUp = Callable[[str, str], "int | None"]  # (column, value as text) -> id, None if the vocabulary has it not


class RowError(ValueError):
    """A row that cannot be read; the text says why, `columns` which cells it is about."""

    def __init__(self, text: str, columns: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.columns = tuple(columns)


def _bad_cell(column: dict[str, Any], what: str, cell: str) -> RowError:
    source = column["source"]
    return RowError(f"column {source}: {what} ({cell[:80]!r})", [source])


def split_line(line: str, separator: str, quote: bool) -> list[str]:
    """The cells of a line without its line break. Quotes count only on lines that have any."""
    if not (quote and '"' in line):
        return line.split(separator)
    try:
        return next(csv.reader([line], delimiter=separator, strict=True))
    except (csv.Error, StopIteration):
        raise RowError("a quote that does not close on its line") from None


def whole_records(lines: list[str]) -> list[str]:
    """Lines of a file whose cells in quotes may hold line breaks, put together where a quote is still open."""
    found: list[str] = []
    is_open = False
    for line in lines:
        if is_open:
            found[-1] += "\n" + line
        else:
            found.append(line)
        if line.count('"') % 2 and (is_open or not line.lstrip().startswith("{")):
            is_open = not is_open
    return found


class Vocabularies:
    """Ids by value, from the files beside model.json; each file is read once, when it is first needed."""

    def __init__(self, folder: Path, model: dict[str, Any]) -> None:
        self.first = model["ids"]["first_value"]
        self.files = {
            column["name"]: folder / column["vocabulary"] for column in model["sparse"] if column["vocabulary"]
        }
        self.read: dict[Path, dict[str, int]] = {}

    def __call__(self, column: str, value: str) -> int | None:
        file = self.files[column]
        if file not in self.read:
            values = json.loads(file.read_text(encoding="utf-8"))
            self.read[file] = {text: number for number, text in enumerate(values, self.first)}
        return self.read[file].get(value)


class RowReader:
    """Reads raw rows for one model."""

    def __init__(self, model: dict[str, Any], look_up: LookUp) -> None:
        self.model, self.look_up = model, look_up
        self.raw = model["raw"]
        self.inputs = [*model["dense"], *model["sparse"]]
        # What texts for a missing cell say as values: a cell may say the same in another way.
        self.missing = {column["name"]: {_reads(column)(text) for text in column["missing"]} for column in self.inputs}
        self.sources = list(dict.fromkeys(column["source"] for column in self.inputs))
        beside = self.raw.get("beside", [])
        # What a line of the raw file does not hold.
        self.joined = [c["name"] for c in self.inputs if c.get("join") or c["source"] in beside]

    def rows(self, data: bytes) -> list[Inputs]:
        """All rows of `data`, in order; the first one that cannot be read raises a RowError that names it."""
        text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
        whole = _json_of(text)
        if isinstance(whole, dict):
            return [self.from_object(whole)]
        if isinstance(whole, list) and whole and all(isinstance(row, dict) for row in whole):
            return [self.from_object(row) for row in whole]
        parts = text.removesuffix("\n").split("\n") if text else []
        if self.raw.get("line_breaks"):
            parts = whole_records(parts)
        lines = [line.removesuffix("\r") for line in parts]
        if not lines:
            raise RowError("there is no row on standard input")
        columns: list[str] = self.raw["columns"]
        header = self._header(lines[0])
        found = []
        for number, line in enumerate(lines, 1):
            if header and number == 1:
                columns = header
                continue
            try:
                found.append(self._row(line, columns))
            except RowError as error:
                raise RowError(f"line {number}: {error}" if len(lines) > 1 else str(error)) from None
        if not found:
            raise RowError("a header line, and no row after it")
        return found

    def _row(self, line: str, columns: list[str]) -> Inputs:
        row = _json_of(line)
        if isinstance(row, dict):
            return self.from_object(row)
        try:
            return self.from_line(line, columns)
        except RowError as error:
            if line.lstrip().startswith("{"):
                raise RowError(f"not a valid JSON object ({line[:80]!r})") from error
            raise

    def from_line(self, line: str, columns: list[str]) -> Inputs:
        """A line of the raw file; `columns` are those of the file, in order."""
        example = json.dumps(dict.fromkeys(self.sources, "..."), ensure_ascii=False)
        if self.raw["format"] != "text":
            raise RowError(f"the model was trained on Parquet files, so a row must be a JSON object: {example}")
        if self.joined:
            raise RowError(
                f"{', '.join(self.joined)} were looked up in another file or name its folder, so a line of the raw file is not enough; "
                f"give a JSON object: {example}"
            )
        cells = split_line(line, self.raw["separator"], self.raw["quote"])
        unread = [*self._labels(), *([self.raw["weight"]] if "weight" in self.raw else [])]
        without = [name for name in columns if name not in unread or name in self.sources]
        only_inputs = [name for name in columns if name in self.sources]
        for names in (columns, without, only_inputs):
            if len(cells) == len(names):
                return self._encode(dict(zip(names, cells)))
        raise RowError(
            f"{len(cells)} cells separated by {self.raw['separator']!r}, but a row has {len(columns)} "
            f"({', '.join(columns)}), or {len(without)} without {' and '.join(unread)}"
        )

    def from_object(self, row: dict[str, Any]) -> Inputs:
        """A JSON object {column: cell}."""
        known = list(dict.fromkeys([*self.sources, *self.raw["columns"], *self._labels()]))  # and so the weight
        for name in row:
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
                hint = f"did you mean {close[0]!r}? " if close else ""
                raise RowError(f"unknown column {name!r}; {hint}known: {', '.join(known)}", [name])
        absent = [name for name in self.sources if name not in row]
        if absent:
            raise RowError(
                f"the row has no {', '.join(map(repr, absent))} (a missing cell is null); "
                f"the model reads: {', '.join(self.sources)}",
                absent,
            )
        return self._encode(row)

    def _labels(self) -> list[str]:
        labels: list[str] = self.raw.get("labels", [self.raw["label"]])
        return labels

    def _header(self, line: str) -> list[str] | None:
        """The names on the first line, if it is a header: every column the model reads, each name once."""
        if self.raw["format"] != "text" or _json_of(line) is not None:
            return None
        try:
            names = split_line(line, self.raw["separator"], self.raw["quote"])
        except RowError:
            return None
        # A row of texts could hold the names of columns by chance, one or two of many, but no number is called like its column.
        certain = any(column["source"] in names for column in self.model["dense"])
        absent = [name for name in self.sources if name not in names]
        if certain and 0 < len(absent) < len(self.sources) / 2 and not self.joined:
            raise RowError(f"the header line has no column {', '.join(absent)}; it has {', '.join(names)}")
        certain = certain or set(names) <= {*self.raw["columns"], *self._labels()}
        return names if certain and not absent and len(set(names)) == len(names) else None

    def _encode(self, row: dict[str, Any]) -> Inputs:
        dense = [self._number(column, self._text(column, row)) for column in self.model["dense"]]
        ids: list[int] = []
        for column in self.model["sparse"]:
            if "several" in column:
                ids += self._bag(column, row[column["source"]])
            else:
                ids.append(self._id(column, self._text(column, row)))
        return dense, ids

    def _bag(self, column: dict[str, Any], cell: Any) -> list[int]:
        """The ids of a cell of several values, as many as there are places."""
        rule, missing = column["several"], self.model["ids"]["missing"]
        if isinstance(cell, list):
            values = [self._as_text(column, value) for value in cell]
        else:
            text = self._as_text(column, cell)
            values = text.split(rule["separator"]) if text else []
        values = values[-rule["length"] :] if rule["keep"] == "last" else values[: rule["length"]]
        ids = [i for i in (self._id(column, value) for value in values) if i != missing]
        return ids + [missing] * (rule["length"] - len(ids))

    def _text(self, column: dict[str, Any], row: dict[str, Any]) -> str:
        return self._as_text(column, row[column["source"]])

    def _as_text(self, column: dict[str, Any], cell: Any) -> str:
        """A cell as the raw file would write it. JSON has types of its own."""
        kind = column.get("kind", "number").replace("bucket", "number")
        if cell is None or isinstance(cell, str):
            return cell or ""
        from_parquet = self.raw["format"] == "parquet"
        if isinstance(cell, bool) and kind in ("number", "int"):
            return str(int(cell))
        if isinstance(cell, bool) and kind == "string" and from_parquet:
            return str(cell).lower()
        if isinstance(cell, int) and not isinstance(cell, bool):
            if kind != "hex":
                return str(cell)
            if from_parquet and -(2**63) <= cell < 2**64:
                return f"{cell % 2**64:x}"
        if isinstance(cell, float) and kind in ("number", "int"):
            return str(int(cell)) if kind == "int" and cell.is_integer() else repr(cell)
        raise RowError(
            f"column {column['source']}: {repr(cell)[:80]} must be written as text, in quotes", [column["source"]]
        )

    def _number(self, column: dict[str, Any], cell: str) -> float:
        value = number_of(cell)
        if cell == "" or (value is None and cell in column["missing"]):
            return column["fill"]
        if value is None:
            raise _bad_cell(column, "not a number", cell)
        if value in self.missing[column["name"]]:
            return column["fill"]
        value = TRANSFORMS[column["transform"]].number(value)
        if abs(value) > LARGEST:
            raise _bad_cell(column, "too large for a 32-bit number", cell)
        if fitted := TRANSFORMS[column["transform"]].fitted:
            return fitted.number(value, column["edges"])
        statistics = column["statistics"]
        return (value - statistics["mean"]) / (statistics["std"] or 1.0) if statistics["applied"] else value

    def _bucket(self, column: dict[str, Any], cell: str) -> int:
        """Of a number that is embedded by its bucket."""
        ids, value = self.model["ids"], number_of(cell)
        if cell == "" or (value is None and cell in column["missing"]):
            return ids["missing"]
        if value is None:
            raise _bad_cell(column, "not a number", cell)
        if value in self.missing[column["name"]]:
            return ids["missing"]
        return ids["first_value"] + bisect.bisect_right(column["edges"], value)

    def _id(self, column: dict[str, Any], cell: str) -> int:
        if column["kind"] == "bucket":
            return self._bucket(column, cell)
        ids, (read, what), text = self.model["ids"], kind_of(column), cell
        if column["suffix"] and cell:
            if not cell.endswith(column["suffix"]):
                raise _bad_cell(column, f"does not end in {column['suffix']!r}", cell)
            text = cell.removesuffix(column["suffix"])
        value = read(text)
        if text == "" or (value is None and text in column["missing"]):
            return ids["missing"]
        if value is None:
            raise _bad_cell(column, f"not {what}", cell)
        if value in self.missing[column["name"]]:
            return ids["missing"]
        if column["derive"]:
            value = DERIVATIONS[column["derive"]](value)
            if value is None:
                raise _bad_cell(column, "not a time YYMMDDHH", cell)
        if "hash" in column:
            rule = column["hash"]
            row = row_of_hash(key_of(value, column["kind"]), rule["rows"], rule["seed"], rule["number"])
            return ids["first_value"] + row
        found = self.look_up(column["name"], value)
        return ids["unknown"] if found is None else found


def _reads(column: dict[str, Any]) -> Callable[[str], Any]:
    return number_of if column.get("kind", "bucket") == "bucket" else kind_of(column)[0]


def _json_of(text: str) -> Any:
    """The JSON object or list that `text` is, or None."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None

"""A recipe in words, with comments to edit, from what the first rows of a file look like."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path

from recnas.config import check_settings
from recnas.data.guess.look import MOST_ROWS, ColumnFacts, FileForm, columns_of_parquet, columns_of_text, form_of
from recnas.data.raw.labels import LABEL_WORDS
from recnas.data.raw.recipe import MISSING_NUMBERS, Recipe
from recnas.data.raw.remote import open_path
from recnas.data.raw.sources import Source, find_sources
from recnas.data.raw.values import number_of
from recnas.errors import DataError
from recnas.names import name_fault
from recnas.yaml_text import parse_yaml

_LABELS = ("label", "click", "clicked", "is_click", "clk", "y", "target", "conversion", "converted", "is_buy", "rating")
_TIME_NAME = re.compile(r"(^|_)(time|timestamp|ts|date|datetime|at|day|hour|created|when)($|_)", re.IGNORECASE)
ID_NAME = re.compile(
    r"(^|_)(id|ids|user|uid|item|iid|ad|site|app|film|movie|product|code|zip|category|cat)($|_|\d)|id$", re.IGNORECASE
)
_FEW = 20  # different whole numbers that are categories rather
_EPOCH, _EPOCH_MS = (1.1e9, 2.1e9), (1.1e12, 2.1e12)  # 2004 to 2036
_UNIQUE = 0.95  # share of different cells from which a column numbers the rows
_MANY = 0.2  # share of different cells from which a table would hold values that are seen once


def guess_recipe(path: Path | str, label: str | None = None, most_rows: int = MOST_ROWS) -> str:
    """The text of a recipe that loads and prepares `path`.

    Args:
        label: the column of clicks, where it cannot be told.

    Raises:
        DataError: no column could be the label, or the file is no table.
    """
    source = find_sources([path], "FILE")[0]
    with open_path(source.path, scattered=True) as file:
        form = None if file.read(4) == b"PAR1" else form_of(source)
    columns = columns_of_parquet(source, most_rows) if form is None else columns_of_text(source, form, most_rows)
    if not columns or not columns[0].rows:
        raise DataError(f"{source.path} has no rows to look at.", "Was the download or copy cut short? Fetch it again.")
    text = _Writer(source, form, columns, label).text()
    check_settings(Recipe, parse_yaml(text), "the proposed recipe")
    return text


class _Writer:
    def __init__(self, source: Source, form: FileForm | None, columns: list[ColumnFacts], label: str | None) -> None:
        self.source, self.form, self.columns = source, form, columns
        self.label = _label(columns, label, source)
        self.left_out: list[str] = []
        self.dense: dict[str, list[str]] = defaultdict(list)  # keys of a group -> its columns
        self.sparse: dict[str, list[str]] = defaultdict(list)
        self.bags: dict[str, list[str]] = defaultdict(list)
        self.derived: list[str] = []
        self.time = ""
        self.users: list[str] = []
        for column in columns:
            if column is not self.label:
                self._place(column)

    def _place(self, column: ColumnFacts) -> None:
        if (keys := _several(column)) is not None and not name_fault(column.name):
            self.bags[keys].append(column.name)
            return
        why = self._useless(column)
        if why:
            self.left_out.append(f"#   {column.name}: {why}")
            return
        if form := _time_format(column):
            self._place_time(column, form)
            return
        if re.fullmatch(r"(?i)(user|uid|user_?id|member_?id|customer_?id|visitor_?id)", column.name):
            self.users.append(column.name)
        number = column.numbers >= column.known / 2 and not column.padded and len(column.words) <= 5
        listed = [word for word in column.words if number and word not in MISSING_NUMBERS]
        missing = f", missing: {json.dumps(listed, ensure_ascii=False)}" if listed else ""
        whole = column.integers == column.numbers
        if number and not (whole and (ID_NAME.search(column.name) or column.distinct <= _FEW)):
            transform = "" if column.low >= 0 else "transform: standardise"
            self.dense[(transform + missing).removeprefix(", ")].append(column.name)
            return
        kind = ""
        if number and column.low >= -(2.0**63) and column.high < 2.0**64:
            kind = "kind: int"
        elif column.hexadecimal == column.known and column.letters:
            kind = "kind: hex"
        many = column.distinct > 1000 and column.distinct > _MANY * column.known
        keys = ", ".join(filter(None, [kind, missing.removeprefix(", "), "hash: 100000" if many else ""]))
        if column.distinct > 50 or number:
            self.sparse[keys].append(column.name)
            return
        several = [mark for mark, count in column.several.items() if count >= max(2, len(column.values) / 2)]
        if several and not number:
            self.left_out.append(
                f"# {column.name} may hold several values separated by {several[0]!r}; it is read as one category."
            )
        self.sparse[keys].append(column.name)

    def _useless(self, column: ColumnFacts) -> str | None:
        if fault := name_fault(column.name):
            return f"its name {fault}"
        if sum(other.name == column.name for other in self.columns) > 1:
            return "its name is there more than once"
        if column.unreadable:
            return f"cells of type {column.unreadable} cannot be read"
        if not column.known:
            return "all cells are missing"
        if column.distinct == 1 and not column.missing:
            return f"one value in all rows ({column.values[0][:40]})"
        if _time_format(column) is None and column.distinct >= max(50, _UNIQUE * column.known):
            fraction = column.numbers > column.integers
            if not fraction and (column.integers < column.known or ID_NAME.search(column.name)):
                return "nearly every row has another value"
        return None

    def _place_time(self, column: ColumnFacts, form: str) -> None:
        name = json.dumps(column.name, ensure_ascii=False)
        zone = "" if form == "yymmddhh" else ', zone: "+00:00"'
        first = not self.time and not column.missing
        if first:
            stated = "" if form == "yymmddhh" else f", format: {form}"
            said = "  # zone: the clock on which days begin" if zone else ""
            self.time = f"time: {{column: {name}{stated}{zone}}}{said}"
        kind = "int" if form == "yymmddhh" else f"time, format: {form}{zone}"
        before = "yymmddhh-" if form == "yymmddhh" else ""
        parts = {part: json.dumps(f"{column.name}_{part}", ensure_ascii=False) for part in ("hour", "weekday")}
        made = ", ".join(f"{new}: {before}{part}" for part, new in parts.items())
        self.derived.append(f"  - {{columns: [{name}], kind: {kind}, derive: {{{made}}}}}")

    def text(self) -> str:
        rows = self.columns[0].rows
        form, path = self.form, self.source.path
        lines = [
            f"# Proposed from the first {rows:,} rows of {self.source.path.name}. Read it, edit it, then:",
            f"#   recnas prepare THIS_FILE --raw {path.name if isinstance(path, Path) else path} --out data/mine",
            f"name: {json.dumps(_name(self.source), ensure_ascii=False)}",
        ]
        if form is None:
            lines.append("format: parquet")
        else:
            lines.append(f"separator: {json.dumps(form.separator)}")
            lines += ["quote: true"] if form.quote else []
            lines += ["line_breaks: true"] if form.line_breaks else []
            if form.header:
                lines.append("header: true")
            else:
                lines += [
                    "# There is no header: give the columns names that mean something.",
                    f"columns: {_list(form.columns)}",
                ]
        if folders := list(self.source.partitions):
            lines += [
                "# Columns in the names of the folders; give --raw the folder above them.",
                f"partitions: {_list(folders)}",
            ]
        lines.append(_label_line(self.label))
        if self.dense:
            lines += ["", "# Numbers. log1p is for counts and prices; see docs/recipes.md for others.", "dense:"]
            lines += [_group(names, keys) for keys, names in self.dense.items()]
        if self.sparse or self.derived:
            lines += [
                "",
                "# Categories. Whole numbers of which few are different, or that are called like ids, are among them.",
                "sparse:",
            ]
            lines += [_group(names, keys) for keys, names in self.sparse.items()] + self.derived
        if self.bags:
            lines += [
                "",
                "# Several categories in a cell. sequences instead of bags: if their order matters, the newest at the end.",
                "bags:",
                *(_group(names, keys) for keys, names in self.bags.items()),
            ]
        if self.left_out:
            lines += ["", "# Left out, or to be looked at:", *self.left_out]
        lines += ["", "# Values seen less often in training share one id.", f"min_count: {2 if rows >= 10_000 else 1}"]
        lines += self._split()
        return "\n".join(lines) + "\n"

    def _split(self) -> list[str]:
        lines = ["", "# The split. With times the last rows are test, as in use; without them rows are drawn."]
        lines += (
            [self.time, "protocol: time-ratio", "shares: [0.8, 0.1, 0.1]"] if self.time else ["protocol: random-8-1-1"]
        )
        for user in self.users[:1]:
            lines.append(f"# So that no user is in two splits: protocol: group, and group: {json.dumps(user)}")
        return lines


def _label(columns: list[ColumnFacts], wanted: str | None, source: Source) -> ColumnFacts:
    by_name = {column.name: column for column in columns}
    if wanted is not None:
        if wanted not in by_name:
            raise DataError(f"{source.path} has no column {wanted!r}; it has {', '.join(by_name)}.", "Correct --label.")
        if not _binary(by_name[wanted]) and not _graded(by_name[wanted]):
            raise DataError(
                f"The cells of {wanted} are neither two values nor numbers, so they say not what a click is.",
                "Give another --label, or a file with a column of 0 and 1.",
            )
        return by_name[wanted]
    of_name = sorted(
        (column for column in columns if column.name.lower() in _LABELS), key=lambda c: _LABELS.index(c.name.lower())
    )
    for fits in (_binary, _graded):
        for column in of_name:
            if fits(column):
                return column
    for column in columns:
        if _binary(column):
            return column
    raise DataError(
        f"No column of {source.path} holds two values such as 0 and 1, so it cannot be told what a click is.",
        f"Say it: recnas datasets guess {source.path} --label COLUMN. Of a column of numbers the upper half counts as clicks.",
    )


def _several(column: ColumnFacts) -> str | None:
    """The keys of a group of bags, if cells seem to hold several values. Commas, spaces, and semicolons beside spaces are
    in ordinary text too."""
    if column.lists:
        whole = column.known and column.integers == column.known
        return ("kind: int" if whole else "") if column.known and not column.unreadable else None
    if not column.known or column.numbers == column.known:
        return None
    for mark in "|;":
        having = [text for text in column.values if mark in text]
        if len(having) >= max(2, len(column.values) / 2) and (mark == "|" or not any(" " in text for text in having)):
            return f'separator: "{mark}"'
    return None


def _binary(column: ColumnFacts) -> bool:
    if column.missing or not 1 <= column.distinct <= 2:
        return False
    clicks = {_click(text) for text in column.values}
    return None not in clicks and len(clicks) == column.distinct


def _click(text: str) -> int | None:
    number = number_of(text)
    if number is None:
        return LABEL_WORDS.get(text.lower())
    return {1.0: 1, 0.0: 0, -1.0: 0}.get(number)


def _graded(column: ColumnFacts) -> bool:
    return not column.missing and column.numbers == column.known and column.high > column.low


def _label_line(column: ColumnFacts) -> str:
    name = json.dumps(column.name, ensure_ascii=False)
    if _binary(column):
        return f"label: {{column: {name}}}"
    values = sorted(float(text) for text in column.values) if column.distinct <= 12 else []
    limit = values[(len(values) + 1) // 2] if len(values) > 1 else (column.low + column.high) / 2
    return f"label: {{column: {name}, at_least: {limit:g}}}  # a click is a number from here on"


def _time_format(column: ColumnFacts) -> str | None:
    named = bool(_TIME_NAME.search(column.name))
    if column.distinct < 3 or column.padded:
        return None
    if column.times == column.known:
        return "iso"
    if column.numbers < column.known:
        return None
    for form, (low, high) in (("epoch-seconds", _EPOCH), ("epoch-milliseconds", _EPOCH_MS)):
        if low <= column.low and column.high <= high and (named or column.high - column.low < (high - low) / 3):
            return form
    whole = named and column.integers == column.known and column.low >= 10_000_000 and column.high <= 49_123_123
    return "yymmddhh" if whole and _hours(column) else None


def _hours(column: ColumnFacts) -> bool:
    numbers = [int(text) for text in column.values if text.isdigit()]
    return bool(numbers) and all(
        n % 100 < 24 and 1 <= n // 100 % 100 <= 31 and 1 <= n // 10_000 % 100 <= 12 for n in numbers
    )


def _name(source: Source) -> str:
    name = source.path.name.split(".")[0]
    return "mine" if name_fault(name) else name


def _list(names: tuple[str, ...] | list[str]) -> str:
    return json.dumps(list(names), ensure_ascii=False)


def _group(names: list[str], keys: str) -> str:
    return f"  - {{columns: {_list(names)}{', ' + keys if keys else ''}}}"

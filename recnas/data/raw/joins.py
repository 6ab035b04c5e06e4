"""Side files looked up by a key: small integers as sorted arrays (10 bytes a row for KDD's 23.7 M users), or cells of any kind
as the text of the file and the places of its cells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recnas.data.raw.lines import split_lines
from recnas.data.raw.recipe import Recipe
from recnas.data.raw.remote import AnyPath, as_path
from recnas.data.raw.sections import Join
from recnas.data.raw.serving import split_line
from recnas.data.raw.sources import check_is_text, find_sources, stream_blocks
from recnas.data.raw.text_columns import PAD, Cells, parse_integers, parse_strings
from recnas.errors import DataError


class SideTable:
    """Keys in increasing order and small integer columns beside them."""

    def __init__(self, keys: np.ndarray, columns: list[np.ndarray]) -> None:
        self.keys = keys
        self.columns = columns

    def look_up(self, keys: np.ndarray, column: int) -> tuple[np.ndarray, np.ndarray]:
        """Values for `keys` and a mask of those that the table does not have."""
        if not len(self.keys):
            return np.zeros(len(keys), np.int64), np.ones(len(keys), bool)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        absent = self.keys[place] != keys
        return np.where(absent, 0, self.columns[column][place]).astype(np.int64), absent


def load_side_table(join: Join, path: AnyPath, separator: str, block_bytes: int = 8 << 20) -> SideTable:
    """Read a side file: key, then the columns of the join, one row per key."""
    keys: list[np.ndarray] = []
    columns: list[list[np.ndarray]] = [[] for _ in join.columns]
    seen = 0
    for block in stream_blocks(find_sources([path])[0], block_bytes):
        if not block:
            continue
        table = split_lines(block, separator, len(join.columns) + 1)
        parsed = [parse_integers(table.cells(i)) for i in range(len(join.columns) + 1)]
        for fault in table.bad[:1]:
            raise DataError(
                f"{path} line {seen + fault.line + 1}: {fault.reason}.",
                "Check that --side names the right file.",
            )
        for name, (_, bad) in zip((join.key, *join.columns), parsed):
            if bad.any():
                row = int(np.flatnonzero(bad)[0])
                raise DataError(
                    f"{path} line {seen + row + 1}: {name} is not an integer.",
                    "Check that --side names the right file.",
                )
        keys.append(parsed[0][0])
        for store, (values, _) in zip(columns, parsed[1:]):
            if len(values) and (values.min() < -128 or values.max() > 32767):
                raise DataError(f"{path}: a joined column must hold small integers (-128 to 32767).")
            store.append(values.astype(np.int16))
        seen += table.lines
    all_keys = np.concatenate(keys) if keys else np.zeros(0, np.int64)
    order = np.argsort(all_keys, kind="stable")
    all_keys = all_keys[order]
    if len(all_keys) > 1 and bool((all_keys[1:] == all_keys[:-1]).any()):
        twice = int(all_keys[:-1][all_keys[1:] == all_keys[:-1]][0])
        raise DataError(f"{path} has the key {twice} more than once.", "Each key must stand on one line.")
    return SideTable(all_keys, [np.concatenate(store)[order] if store else np.zeros(0, np.int16) for store in columns])


class SideCells:
    """Cells of a side file by key. Keys are compared as text, by 64-bit hashes in increasing order."""

    def __init__(self, file: str, keys: np.ndarray, cells: dict[str, Cells]) -> None:
        self.file, self.keys, self._cells = file, keys, cells

    def at(self, keys: np.ndarray, column: str) -> Cells:
        """The cell of a column for every key; an empty one for a key that the file has not."""
        cells = self._cells[column]
        if not len(self.keys):
            return Cells(cells.text, np.full(len(keys), PAD), np.full(len(keys), PAD))
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        known = self.keys[place] == keys
        return Cells(cells.text, np.where(known, cells.start[place], PAD), np.where(known, cells.end[place], PAD))


def load_side_cells(join: Join, path: AnyPath, recipe: Recipe) -> SideCells:
    """Read a text file with `add` columns, all of it at once."""
    source = find_sources([path], "--side")[0]
    check_is_text(source)
    header = recipe.header if join.header is None else join.header
    separator = join.separator or recipe.separator
    text = b"".join(stream_blocks(source, 8 << 20))
    names = [join.key, *join.add]
    if header:
        first, _, text = text.partition(b"\n")
        names = split_line(first.decode("utf-8", "replace").rstrip("\r"), separator, recipe.quote)
        absent = [name for name in (join.key, *join.add) if name not in names]
        if absent:
            raise DataError(
                f"{path} line 1: the header has no column {', '.join(absent)}; it has {', '.join(names)}.",
                "Correct the names under `joins` in the recipe, or its separator.",
            )
    table = split_lines(text, separator, len(names), recipe.quote, most_bad=1)
    for fault in table.bad[:1]:
        raise DataError(f"{path} line {fault.line + 1 + header}: {fault.reason}.", "Correct the file.")
    keys, _ = parse_strings(table.cells(names.index(join.key)))
    order = np.argsort(keys.keys, kind="stable")
    ordered = keys.keys[order]
    if (twice := np.flatnonzero(ordered[1:] == ordered[:-1])).size:
        line = int(table.line[order[twice[0] + 1]]) + 1 + header
        raise DataError(
            f"{path} line {line}: its {join.key} stands on an earlier line too.", "Each key must stand on one line."
        )
    cells = {name: table.cells(names.index(name)) for name in join.add}
    return SideCells(
        join.file, ordered, {name: Cells(some.text, some.start[order], some.end[order]) for name, some in cells.items()}
    )


Side = SideTable | SideCells


def side_tables(recipe: Recipe, beside: AnyPath, given: Sequence[str]) -> dict[str, Side]:
    """By file name: those `given` by path, else those in the folder `beside`."""
    tables: dict[str, Side] = {}
    for join in recipe.joins:
        named = [path for path in map(as_path, given) if path.name.startswith(join.file.split(".")[0])]
        path = named[0] if named else beside / join.file
        if not path.exists():
            raise DataError(
                f"{recipe.name} looks up {', '.join(join.columns + join.add)} in {join.file}, which is not at {path}.",
                f"Put it beside the raw file, or name it: --side path/to/{join.file}",
            )
        if join.add:
            tables[join.file] = load_side_cells(join, path, recipe)
        else:
            tables[join.file] = load_side_table(join, path, recipe.separator)
    return tables

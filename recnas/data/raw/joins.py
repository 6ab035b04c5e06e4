"""Side files looked up by an integer key, held as sorted arrays (10 bytes a row for KDD's 23.7 M users)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from recnas.data.raw.lines import split_lines
from recnas.data.raw.recipe import Recipe
from recnas.data.raw.sections import Join
from recnas.data.raw.sources import find_sources, stream_blocks
from recnas.data.raw.text_columns import parse_integers
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


def load_side_table(join: Join, path: Path, separator: str, block_bytes: int = 8 << 20) -> SideTable:
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


def side_tables(recipe: Recipe, beside: Path, given: Sequence[str]) -> dict[str, SideTable]:
    """By file name: those `given` by path, else those in the folder `beside`."""
    tables = {}
    for join in recipe.joins:
        named = [Path(path) for path in given if Path(path).name.startswith(join.file.split(".")[0])]
        path = named[0] if named else beside / join.file
        if not path.exists():
            raise DataError(
                f"{recipe.name} looks up {', '.join(join.columns)} in {join.file}, which is not at {path}.",
                f"Put it beside the raw file, or name it: --side path/to/{join.file}",
            )
        tables[join.file] = load_side_table(join, path, recipe.separator)
    return tables

"""Raw rows as model inputs, encoded with a vocabulary that is already fitted.

The parsing is `prepare`'s own, block by block, so a row gets the same numbers here as there. What differs:
labels, weights, groups and times of rows are not needed. Their columns may be absent, and a row with a bad label or weight is
still a row that can be predicted; it only counts in no metric.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recnas.config import check_settings
from recnas.data.bags import pad_into, rows_at_a_time
from recnas.data.prepared import PreparedData
from recnas.data.raw.columns import cells_of, resolve_columns
from recnas.data.raw.id_table import computed_table, read_id_table
from recnas.data.raw.input_column import InputColumn
from recnas.data.raw.inputs import dense_inputs, id_inputs
from recnas.data.raw.joins import side_tables
from recnas.data.raw.labels import clicks_of
from recnas.data.raw.lines import BadLine
from recnas.data.raw.parquet import PARQUET_ROWS, parquet_batches, parquet_columns, rows_of_batch
from recnas.data.raw.parse import Chunk, RawRows, parse_rows, rows_of_text, with_partitions
from recnas.data.raw.recipe import Recipe
from recnas.data.raw.remote import open_path
from recnas.data.raw.sections import Label
from recnas.data.raw.sources import Source, check_is_text, check_partitions, find_sources, stream_blocks, text_blocks
from recnas.data.raw.typed import Typed
from recnas.data.raw.weights import weights_or_nan
from recnas.errors import DataError

BLOCK_BYTES = 4 << 20  # of text held at a time
_LOOKED_AT = 1 << 16  # bytes at the start of a file that tell which columns it has


@dataclass(frozen=True)
class EncodedRows:
    """Consecutive raw rows, bad ones included: `line` says which of them the arrays hold."""

    lines: int
    line: np.ndarray  # [n] int64, rising
    dense: np.ndarray  # [n, I] float32
    ids: np.ndarray  # [n, F] int64, with bags as in a batch
    label: np.ndarray | None  # [n] float32, NaN where it cannot be read, of several [n, L]; None without label columns
    weight: np.ndarray | None  # the same; None unless every file has the column of weights
    bad: list[BadLine]
    bytes: int


def fitted_recipe(data: PreparedData) -> tuple[Recipe, list[InputColumn]]:
    """The recipe that data were prepared with, and the inputs it gave."""
    options = data.manifest["options"]
    recipe = check_settings(Recipe, options["recipe"], f"the recipe in {data.path / 'manifest.json'}")
    return recipe, recipe.input_columns(tuple(options["with_columns"]))


def vocabulary_file(data: PreparedData, column: str) -> Path:
    """The file behind a column's ids, as it was written: another one would give other ids."""
    name = f"vocab/{column}.parquet"
    path = data.path / name
    data.check_file(name)
    return path


class RawEncoder:
    """Reads raw files of the kind that `data` were prepared from.

    Args:
        side: side files of the recipe, where they are not beside the raw file.
    """

    def __init__(self, data: PreparedData, raw: list[Path | str], side: tuple[str, ...] = ()) -> None:
        recipe = self._fitted(data)
        self.sources = find_sources(raw)
        used = [column.source for column in self.inputs]
        check_partitions([name for name in recipe.partitions if name in used], self.sources)
        self.columns = [self._columns(source) for source in self.sources]
        self.sides = side_tables(recipe, self.sources[0].path.parent, side)

    def _fitted(self, data: PreparedData) -> Recipe:
        """Take over what was fitted on the data: rules and vocabularies."""
        recipe, self.inputs = fitted_recipe(data)
        self.recipe = recipe.model_copy(update={"time": None, "weight": None, "group": None})
        self._weight = None if recipe.weight is None else recipe.weight.column
        self.dense = data.schema.dense
        own = {
            field.name: computed_table(column, field.edges) or read_id_table(vocabulary_file(data, column.name))
            for column, field in zip((c for c in self.inputs if not c.is_dense), data.schema.sparse)
            if field.own_rows
        }
        self.tables = {field.name: own[field.table] for field in data.schema.sparse}
        self.bags = data.schema.bags
        self._rows = rows_at_a_time(PARQUET_ROWS, data.schema)  # a line has eight bytes, or there are few
        self._bytes = min(BLOCK_BYTES, max(_LOOKED_AT, 8 * rows_at_a_time(BLOCK_BYTES, data.schema)))
        for field in data.schema.sparse:
            if self.tables[field.name].rows != field.rows:
                raise DataError(f"The vocabulary of {field.name} in {data.path} does not fit its schema.")
        return recipe

    @property
    def labelled(self) -> bool:
        """Whether any file has the label columns."""
        return any(self._has_labels(columns) for columns in self.columns)

    def _has_labels(self, columns: tuple[str, ...]) -> bool:
        return all(label.column in columns for label in self.recipe.every_label)

    @property
    def weighted(self) -> bool:
        """Whether all files have weights, which figures about them then count."""
        return self._weight is not None and all(self._weight in columns for columns in self.columns)

    def blocks(self) -> Iterator[EncodedRows]:
        """All rows in order, one block after the other."""
        for source, columns in zip(self.sources, self.columns):
            if self.recipe.format == "parquet":
                yield from self._parquet(source, columns)
            else:
                yield from self._text(source, columns)

    def _text(self, source: Source, columns: tuple[str, ...]) -> Iterator[EncodedRows]:
        for number, text in enumerate(text_blocks(source, self._bytes, self.recipe.line_breaks)):
            rows = rows_of_text(text, number == 0, columns, self.recipe, self.inputs, self._read_weight)
            if rows is not None:
                yield self._encode(columns, self._in_folder(source, rows), len(text))

    def _parquet(self, source: Source, columns: tuple[str, ...]) -> Iterator[EncodedRows]:
        needed = [name for name in (*self._needed(), *self._read_weight) if name in columns]
        needed = list(dict.fromkeys(needed))
        for batch in parquet_batches(source, needed, self._rows):
            yield self._encode(columns, self._in_folder(source, rows_of_batch(batch)), batch.nbytes)

    def _in_folder(self, source: Source, rows: RawRows) -> RawRows:
        mine = {name: value for name, value in source.partitions.items() if name in self.recipe.partitions}
        return with_partitions(rows, mine) if mine else rows

    def _encode(self, columns: tuple[str, ...], rows: RawRows, size: int) -> EncodedRows:
        n = len(rows.line)
        absent = Typed(np.zeros(n), np.zeros(n, bool), np.zeros(n, bool))

        def read_input(name: str, kind: str, column: InputColumn | None) -> Typed:
            return absent if column is None else rows.read(name, kind, column)  # None: the label

        chunk = parse_rows(self.recipe, self.inputs, rows._replace(read=read_input), self.sides)
        label = None
        if self._has_labels(columns):
            rules = self.recipe.every_label
            read = [rows.read(rule.column, "label" if rule.at_least is None else "number", None) for rule in rules]
            found = [_label(rule, typed) for rule, typed in zip(rules, read)]
            label = (np.stack(found, 1) if len(rules) > 1 else found[0])[np.searchsorted(rows.line, chunk.line)]
        weight = None
        for name in self._read_weight:
            weight = weights_or_nan(rows.read(name, "number", None))[np.searchsorted(rows.line, chunk.line)]
        kept = len(chunk.line)
        return EncodedRows(
            lines=rows.lines,
            line=chunk.line,
            dense=dense_inputs(kept, self.dense, chunk.dense.__getitem__),
            ids=self._ids(chunk),
            label=label,
            weight=weight,
            bad=chunk.bad,
            bytes=size,
        )

    def _ids(self, chunk: Chunk) -> np.ndarray:
        several = {field.name for field in self.bags}
        single = {name: table for name, table in self.tables.items() if name not in several}
        ids = id_inputs(len(chunk.line), single, chunk.keys.__getitem__, chunk.missing.get).astype(np.int64)
        if not self.bags:
            return ids
        places = [ids]
        for field in self.bags:
            assert field.bag is not None
            bag = chunk.bags[field.name]
            padded = np.empty((len(ids), field.bag.length), dtype=np.int64)
            pad_into(
                padded, 0, field.bag.length, self.tables[field.name].look_up(bag.keys), bag.counts.astype(np.int64)
            )
            places.append(padded)
        return np.concatenate(places, axis=1)

    @property
    def _read_weight(self) -> tuple[str, ...]:
        return (self._weight,) if self._weight is not None and self.weighted else ()

    def _needed(self) -> list[str]:
        """Raw columns that are read, the label included."""
        labels = [label.column for label in self.recipe.every_label]
        return list(dict.fromkeys([*labels, *self.recipe.in_files(self.inputs)]))

    def _columns(self, source: Source) -> tuple[str, ...]:
        """Raw columns of a file in order. Those that are only needed for training may be absent."""
        _check_format(self.recipe, source)
        if self.recipe.format == "parquet":
            return _parquet_columns(source, self.recipe.in_files(self.inputs))
        check_is_text(source)
        inputs = set(self.recipe.in_files(self.inputs))
        lines = _first_lines(self.recipe, source)
        if self.recipe.header:
            cells = lines[0] if lines else []
            if inputs <= set(cells) and len(set(cells)) == len(cells):
                return tuple(cells)
        else:
            # As the training file, or without its label (and weight), or only with what the model reads; the usual
            # number of cells decides, as any single line may be a bad one.
            usual = Counter(map(len, lines)).most_common(1)[0][0] if lines else 0
            every, labels = self.recipe.columns, [label.column for label in self.recipe.every_label]
            for kept in (
                tuple(name for name in every if name not in (*labels, self._weight) or name in inputs),
                tuple(name for name in every if name in inputs),
            ):
                if usual == len(kept) != len(every):
                    return kept
        return resolve_columns(self.recipe, source)


def _check_format(recipe: Recipe, source: Source) -> None:
    """The recipe of a trained model cannot be changed any more, so the file must be."""
    with open_path(source.path, scattered=True) as file:
        found = "parquet" if file.read(4) == b"PAR1" else "text"
    if found != recipe.format:
        names = {"parquet": "a Parquet file", "text": "a text file"}
        raise DataError(
            f"{source.path} is {names[found]}, but the model was trained on {recipe.name} as {names[recipe.format]}.",
            f"Write the rows as {names[recipe.format]} with the same columns. Or, if the training rows were also prepared "
            "from such files (with the same fingerprint), name that folder: --data DIR",
        )


def _first_lines(recipe: Recipe, source: Source) -> list[list[str]]:
    """Cells of the lines a file begins with."""
    first = next((block for block in stream_blocks(source, _LOOKED_AT) if block), b"")
    text = first.decode("utf-8", "replace").removesuffix("\n")
    lines = [line.rstrip("\r") for line in text.split("\n")]
    return [cells_of(line, recipe) for line in lines]


def _parquet_columns(source: Source, inputs: list[str]) -> tuple[str, ...]:
    found = parquet_columns(source)
    absent = [name for name in inputs if name not in found]
    if absent:
        raise DataError(
            f"{source.path} has no column {', '.join(absent)}, which the model reads; it has {', '.join(found)}.",
            "Check that --raw names the right file.",
        )
    return found


def _label(rule: Label, typed: Typed) -> np.ndarray:
    """Clicks as 0 and 1, by the rule that `prepare` applies; NaN for what it would reject."""
    clicks, bad = clicks_of(rule, typed.values, typed.bad)
    return np.where(bad | typed.missing, np.nan, clicks).astype(np.float32)

"""What cells that were made up become in the columns whose ids or numbers are computed, so that a check knows what to expect."""

from __future__ import annotations

from typing import Any

import numpy as np

from recnas.data.raw.dense import model_values, transformed
from recnas.data.raw.id_table import computed_table
from recnas.data.raw.input_column import InputColumn
from recnas.data.raw.typed import missing_values
from recnas.data.raw.values import KINDS, key_of, number_of
from recnas.data.schema import MISSING_ID, Schema

Row = dict[str, Any]  # text or None; of several values a list, where the raw files are Parquet


def recompute(schema: Schema, inputs: list[InputColumn], rows: list[Row], dense: np.ndarray, ids: np.ndarray) -> None:
    """Write into `dense` and `ids` what `rows` give for hashes, buckets, quantiles and indicators."""
    for place, (column, field) in enumerate(zip((c for c in inputs if c.is_dense), schema.dense)):
        if column.has_edges or column.transform == "indicator":
            values, missing = _numbers(column, rows)
            dense[:, place] = model_values(transformed(values, missing, column)[0], field)
    columns = {column.name: column for column in inputs if not column.is_dense}
    for number, (column, sparse) in enumerate(zip(columns.values(), schema.sparse)):
        table, places = computed_table(columns[column.table], sparse.edges), schema.id_columns(number)
        if table is None:
            continue
        if column.several is not None:
            for row, into in zip(rows, ids):
                found = table.look_up(_values(column, row[column.source]))
                into[places] = MISSING_ID
                into[places.start : places.start + len(found)] = found
            continue
        place = places.start
        keys, missing = _numbers(column, rows) if column.kind == "bucket" else _keys(column, rows)
        ids[:, place] = np.where(missing, MISSING_ID, table.look_up(keys))


def _values(column: InputColumn, cell: Any) -> np.ndarray:
    """Keys of the values of a cell that was made up: none is missing, and none too many."""
    read, _ = KINDS[column.kind]
    assert column.several is not None
    texts = cell if isinstance(cell, list) else cell.split(column.several.separator) if cell else []
    return np.array([key_of(read(text) or "", column.kind) for text in texts], dtype=np.uint64)


def _numbers(column: InputColumn, rows: list[Row]) -> tuple[np.ndarray, np.ndarray]:
    numbers = [number_of(row[column.source] or "") for row in rows]
    listed = missing_values("number", column.missing)
    missing = np.array([number is None or number in listed for number in numbers], dtype=bool)
    return np.array([number or 0.0 for number in numbers]), missing


def _keys(column: InputColumn, rows: list[Row]) -> tuple[np.ndarray, np.ndarray]:
    read, _ = KINDS[column.kind]
    texts = [(row[column.source] or "").removesuffix(column.suffix or "") for row in rows]
    listed = {read(text) for text in column.missing} - {None}
    missing = np.array([text == "" or text in column.missing or read(text) in listed for text in texts], dtype=bool)
    keys = [0 if gone else key_of(read(text) or "", column.kind) for text, gone in zip(texts, missing)]
    return np.array(keys, dtype=np.uint64), missing

"""Read Parquet files made elsewhere (Spark, pandas, DuckDB) as typed columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from recnas.data.cells import string_keys
from recnas.data.parse import ReadColumn, ShowCell, Typed, _equals
from recnas.data.recipes import InputColumn, Recipe
from recnas.data.sources import Source
from recnas.errors import DataError


def parquet_batches(
    source: Source, recipe: Recipe, columns: list[str], rows: int
) -> Iterator[pa.RecordBatch]:
    """The needed columns, `rows` at a time."""
    try:
        file = pq.ParquetFile(source.path)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(
            f"{source.path} is not a Parquet file: {error}.",
            "Set `format: text` in the recipe for text files.",
        ) from None
    absent = sorted(set(columns) - set(file.schema_arrow.names))
    if absent:
        raise DataError(
            f"{source.path} has no column {', '.join(absent)}; it has {', '.join(file.schema_arrow.names)}.",
            "Correct the column names in the recipe.",
        )
    try:
        yield from file.iter_batches(batch_size=rows, columns=columns)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{source.path} is damaged: {error}.", "Write it again.") from None


def parquet_rows(source: Source) -> int:
    try:
        return int(pq.ParquetFile(source.path).metadata.num_rows)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{source.path} is not a Parquet file: {error}.") from None


def parquet_reader(batch: pa.RecordBatch) -> tuple[ReadColumn, ShowCell]:
    """Read columns of one batch by name, with the masks that text columns have."""

    def read(name: str, kind: str, column: InputColumn | None) -> Typed:
        array = batch.column(name)
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        missing = np.asarray(array.is_null())
        if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
            missing = missing | np.asarray(pc.equal(pc.fill_null(array, ""), ""))
        typed = _STRING(array, missing) if kind == "string" else _NUMERIC[kind](array, missing)
        if column is not None:
            for text in column.missing:
                typed = typed._replace(missing=typed.missing | _equals(typed.values, text, kind))
        return typed

    def show(name: str, row: int) -> str:
        return str(batch.column(name)[row].as_py())[:100]

    return read, show


def _STRING(array: pa.Array, missing: np.ndarray) -> Typed:
    text = (
        array
        if pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
        else array.cast(pa.string())
    )
    encoded = pc.fill_null(text, "").dictionary_encode()
    distinct = [value.encode() for value in encoded.dictionary.to_pylist()]
    strings, bad = string_keys(distinct, encoded.indices.to_numpy(zero_copy_only=False))
    return Typed(strings.keys, missing, bad, strings)


def _integers(array: pa.Array, missing: np.ndarray) -> Typed:
    if pa.types.is_uint64(array.type):
        values = pc.fill_null(array, 0).to_numpy(zero_copy_only=False).view(np.int64)
        return Typed(values, missing, np.zeros(len(values), bool))
    if pa.types.is_integer(array.type) or pa.types.is_boolean(array.type):
        # Not by way of float64, which holds no odd number beyond 2^53.
        values = pc.fill_null(array.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
        return Typed(values, missing, np.zeros(len(values), bool))
    numbers = _numbers(array, missing)
    whole = numbers.values == np.floor(numbers.values)
    return numbers._replace(
        values=np.where(whole, numbers.values, 0).astype(np.int64), bad=numbers.bad | ~whole
    )


def _numbers(array: pa.Array, missing: np.ndarray) -> Typed:
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        values = np.zeros(len(array))
        bad = np.zeros(len(array), bool)
        for row, text in enumerate(array.to_pylist()):
            if text:
                try:
                    values[row] = float(text)
                except ValueError:
                    bad[row] = True
    else:
        values = pc.fill_null(array.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
        bad = np.zeros(len(values), bool)
    # NaN is how pandas writes a missing number.
    nan = np.isnan(values)
    return Typed(np.where(nan, 0.0, values), missing | nan, bad | np.isinf(values))


def _hexadecimal(array: pa.Array, missing: np.ndarray) -> Typed:
    if pa.types.is_integer(array.type):
        whole = _integers(array, missing)
        return whole._replace(values=whole.values.view(np.uint64))
    values = np.zeros(len(array), np.uint64)
    bad = np.zeros(len(array), bool)
    for row, text in enumerate(array.cast(pa.string()).to_pylist()):
        if text:
            try:
                values[row] = int(text, 16)
            except (ValueError, OverflowError):
                bad[row] = True
    return Typed(values, missing, bad)


_NUMERIC = {"int": _integers, "number": _numbers, "hex": _hexadecimal}

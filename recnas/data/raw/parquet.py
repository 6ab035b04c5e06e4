"""Read Parquet files made elsewhere (Spark, pandas, DuckDB) as typed columns.

Columns of text are read by the rules of text files, so that the same rows give the same data set either way.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from recnas.data.raw.input_column import InputColumn
from recnas.data.raw.parse import RawRows, pieces_of_cells
from recnas.data.raw.pieces import Pieces, split_lists
from recnas.data.raw.remote import RemotePath, open_path
from recnas.data.raw.sources import Source
from recnas.data.raw.text_columns import PAD, Cells, string_keys
from recnas.data.raw.times import seconds_of_arrow, seconds_of_numbers
from recnas.data.raw.typed import Typed, missing_values, string_key, typed_cells
from recnas.errors import DataError

PARQUET_ROWS = 65_536  # read at a time
_VALUES = 4 << 20  # of lists read at a time, if rows have many


def parquet_columns(source: Source) -> tuple[str, ...]:
    """The columns of a file, in order."""
    return tuple(_open(source).schema_arrow.names)


def parquet_batches(source: Source, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
    """The needed columns, `rows` at a time."""
    file = _open(source)
    absent = sorted(set(columns) - set(file.schema_arrow.names))
    if absent:
        raise DataError(
            f"{source.path} has no column {', '.join(absent)}; it has {', '.join(file.schema_arrow.names)}.",
            "Correct the column names in the recipe.",
        )
    try:
        yield from file.iter_batches(batch_size=_fewer(file, columns, rows), columns=columns)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{source.path} is damaged: {error}.", "Write it again.") from None


def _fewer(file: pq.ParquetFile, columns: list[str], rows: int) -> int:
    """How many rows are read at a time: fewer where lists hold many values on average."""
    about, held = file.metadata, 0
    if not any(is_list(file.schema_arrow.field(name).type) for name in columns):
        return rows
    for group in range(about.num_row_groups):
        for number in range(about.num_columns):
            column = about.row_group(group).column(number)
            held += column.num_values if column.path_in_schema.split(".")[0] in columns else 0
    return max(1, min(rows, _VALUES * about.num_rows // max(1, held)))


def parquet_rows(source: Source) -> int:
    return int(_open(source).metadata.num_rows)


def _open(source: Source) -> pq.ParquetFile:
    with open_path(source.path, scattered=True) as file:
        is_parquet = file.read(4) == b"PAR1"
    if not is_parquet:
        raise DataError(
            f"{source.path} is not a Parquet file.",
            "Set `format: text` in the recipe for text files, or begin with: recnas datasets cp csv my.yaml",
        )
    try:
        return pq.ParquetFile(source.path.open() if isinstance(source.path, RemotePath) else source.path)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{source.path} is damaged: {error}.", "Write it again.") from None


def rows_of_batch(batch: pa.RecordBatch) -> RawRows:
    """The rows of one batch; columns are read by name, with the masks that text columns have."""

    def read(name: str, kind: str, column: InputColumn | None) -> Typed:
        return typed(name, batch.column(name), kind, column)

    def typed(name: str, array: pa.Array, kind: str, column: InputColumn | None) -> Typed:
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if pa.types.is_decimal(array.type):  # whose digits a float64 may not hold
            array = array.cast(pa.string())
        if _is_text(array.type):
            return typed_cells(cells_of_array(array), kind, column)
        missing = np.asarray(array.is_null())
        try:
            if kind == "time":
                found = _times(array, missing, column)
            else:
                found = _STRING(array, missing) if kind == "string" else _NUMERIC[kind](array, missing)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise DataError(
                f"Column {name} is of type {array.type}, which cannot be read as {_WANTED[kind]}.",
                "Write it to the Parquet file as a number or as text.",
            ) from None
        for value in missing_values(kind, column.missing, column.clock) if column is not None else ():
            found = found._replace(missing=found.missing | (found.values == value))
        if kind == "string" and column is not None:
            for text in column.missing:
                found = found._replace(missing=found.missing | (found.values == string_key(text)))
        return found

    def pieces(name: str, column: InputColumn) -> Pieces:
        array = batch.column(name)
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if array.null_count == len(array) or pa.types.is_integer(array.type):  # no values, or one in every cell
            array = array.cast(pa.string())
        if _is_text(array.type):
            return pieces_of_cells(cells_of_array(array), column)
        if not is_list(array.type):
            raise DataError(
                f"Column {name} is of type {array.type}, and the recipe says that its cells hold several values.",
                "Write lists or text to the Parquet file, or name the column under sparse in the recipe.",
            )
        assert column.several is not None
        values, counts, cut = split_lists(array, column.several)
        return Pieces(typed(name, values, column.kind, column), counts, cut)

    def show(name: str, row: int) -> str:
        return str(batch.column(name)[row].as_py())[:100]

    return RawRows(np.arange(batch.num_rows), batch.num_rows, read, show, [], pieces)


def is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return (
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
    )


def cells_of_array(array: pa.Array) -> Cells:
    """A column of text as cells of one buffer; null is an empty cell."""
    array = pc.fill_null(array.cast(pa.large_binary()), b"")
    array = pa.concat_arrays([array])  # without an offset into a larger one
    _, places, data = array.buffers()
    ends = np.frombuffer(places, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    whole = b"" if data is None else data.to_pybytes()
    text = np.frombuffer(b"".join((bytes(PAD), whole, bytes(PAD))), dtype=np.uint8)
    return Cells(text, ends[:-1] + PAD, ends[1:] + PAD)


def _STRING(array: pa.Array, missing: np.ndarray) -> Typed:
    encoded = pc.fill_null(array.cast(pa.string()), "").dictionary_encode()
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
    # Beyond 2^53 a float64 stands for several whole numbers, so which one was meant cannot be told.
    whole = (numbers.values == np.floor(numbers.values)) & (np.abs(numbers.values) <= 2.0**53)
    return numbers._replace(values=np.where(whole, numbers.values, 0).astype(np.int64), bad=numbers.bad | ~whole)


def _numbers(array: pa.Array, missing: np.ndarray) -> Typed:
    values = pc.fill_null(array.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
    # NaN is how pandas writes a missing number.
    nan = np.isnan(values)
    return Typed(np.where(nan, 0.0, values), missing | nan, np.isinf(values))


def _hexadecimal(array: pa.Array, missing: np.ndarray) -> Typed:
    whole = _integers(array, missing)
    return whole._replace(values=whole.values.view(np.uint64))


def _times(array: pa.Array, missing: np.ndarray, column: InputColumn | None) -> Typed:
    assert column is not None
    assert column.clock is not None
    if pa.types.is_timestamp(array.type) or pa.types.is_date(array.type):
        return Typed(*_in_order(seconds_of_arrow(array, column.clock), missing))
    if column.clock.format == "iso":
        raise pa.ArrowInvalid("numbers are no ISO times")
    numbers = _numbers(array, missing)
    return Typed(*_in_order(seconds_of_numbers(numbers.values, numbers.bad, column.clock), numbers.missing))


def _in_order(times: tuple[np.ndarray, np.ndarray], missing: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    values, bad = times
    return values, missing, bad & ~missing


_WANTED = {
    "time": "times of this format",
    "int": "integers",
    "number": "numbers",
    "hex": "hexadecimal",
    "label": "a label",
    "string": "text",
}
_NUMERIC = {"int": _integers, "number": _numbers, "hex": _hexadecimal, "label": _numbers}

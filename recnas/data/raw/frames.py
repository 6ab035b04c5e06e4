"""Rows of a pandas frame as model inputs, by the rules that files follow.

A frame has the raw columns under the recipe's names. Cells of text are read as in a file. Numbers are taken where a
number says the same as the text did: not for hexadecimal columns of a text recipe, where pandas has read "10" as ten.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from recnas.data.prepared import PreparedData
from recnas.data.raw.encoder import EncodedRows, RawEncoder
from recnas.data.raw.joins import side_tables
from recnas.data.raw.parquet import rows_of_batch
from recnas.errors import DataError

ROWS = 65_536  # encoded at a time


class FrameEncoder(RawEncoder):
    """Encodes frames of the kind of rows that `data` were prepared from; vocabularies are read once.

    Args:
        side: side files of the recipe, where they are not beside the raw file that was prepared.
    """

    def __init__(self, data: PreparedData, side: Sequence[str] = ()) -> None:
        recipe = self._fitted(data)
        self._weight = None
        self.sources = []
        self.columns = []
        self.sides = side_tables(recipe, data.path, side)

    def encode(self, frame: pd.DataFrame) -> EncodedRows:
        """All rows of a frame.

        Raises:
            DataError: a column is missing, or a cell cannot be read: which, and why.
        """
        step = min(ROWS, self._rows)
        parts = [self._part(frame.iloc[start : start + step]) for start in range(0, max(1, len(frame)), step)]
        if len(parts) == 1:
            return parts[0]
        dense, ids = (np.concatenate([getattr(part, name) for part in parts]) for name in ("dense", "ids"))
        size = sum(part.bytes for part in parts)
        return EncodedRows(len(frame), np.arange(len(frame)), dense, ids, None, None, [], size)

    def _part(self, frame: pd.DataFrame) -> EncodedRows:
        batch = self._as_arrow(frame)
        rows = self._encode(tuple(batch.schema.names), rows_of_batch(batch), batch.nbytes)
        if rows.bad:
            fault = rows.bad[0]
            where = f", column {fault.column}" if fault.column else ""
            more = f" ({len(rows.bad):,} rows have such faults)" if len(rows.bad) > 1 else ""
            raise DataError(
                f"Row {frame.index[fault.line]!r} of the frame{where}: {fault.reason} ({fault.text[:80]!r}){more}.",
                "Correct those rows or leave them out; a missing value is None, NaN or an empty text.",
            )
        return rows

    def _as_arrow(self, frame: pd.DataFrame) -> pa.RecordBatch:
        """The columns that are read."""
        read = {column.source for column in self.inputs}
        folders = [name for name in self.recipe.partitions if name in read]
        needed = [*self.recipe.in_files(self.inputs), *folders]
        if absent := [name for name in needed if name not in frame.columns]:
            has = ", ".join(map(str, frame.columns[:20]))
            raise DataError(
                f"The frame has no column {', '.join(absent)}, which the model reads; it has {has}.",
                f"Name the columns as the recipe {self.recipe.name} does.",
            )
        twice = [name for name in needed if list(frame.columns).count(name) > 1]
        if twice:
            raise DataError(f"The frame has more than one column {twice[0]}.", "Leave the others out.")
        return pa.RecordBatch.from_arrays([self._column(frame[name], name) for name in needed], names=needed)

    def _column(self, values: Any, name: str) -> pa.Array:
        try:
            array = pa.Array.from_pandas(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise DataError(
                f"Column {name} of the frame holds values of several kinds: {error}.",
                f"Make it one kind, such as text: frame[{name!r}] = frame[{name!r}].astype(str)",
            ) from None
        kinds = {column.kind for column in self.inputs if column.source == name}
        nested = pa.types.is_dictionary(array.type) or pa.types.is_list(
            array.type
        )  # lists: of columns of several values
        plain = array.type.value_type if nested else array.type
        number = pa.types.is_integer(plain) or pa.types.is_floating(plain)
        unclear = ("hex" in kinds and number) or ("string" in kinds and pa.types.is_floating(plain))
        if self.recipe.format == "text" and unclear and array.null_count < len(array):
            raise DataError(
                f"Column {name} of the frame holds numbers, and the model was trained on its text.",
                f'Read it as text: pd.read_csv(..., dtype={{"{name}": str}})',
            )
        return array

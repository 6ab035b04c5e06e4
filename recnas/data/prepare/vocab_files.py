"""Vocabulary files: `vocab/<column>.parquet` with id, key, value and count, in id order.

`value` is the cell as text, for people and for serving; `key` is what `IdTable` looks up.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from recnas.data.prepare.arrayfile import ArrayFile
from recnas.data.schema import FIRST_VALUE_ID

_AT_A_TIME = 1 << 16  # values whose bytes are moved at once


def write_vocabulary(
    path: Path,
    kind: str,
    keys: np.ndarray,
    counts: np.ndarray,
    chunks: list[ArrayFile],
    columns: list[str],
    before: pa.Table | None = None,
) -> None:
    """`columns`: those whose values have these ids. `before`: the vocabulary that this one extends."""
    first = FIRST_VALUE_ID + (0 if before is None else len(before))
    wide = keys.astype(np.uint64)
    if kind == "hex":
        values: Any = pa.array([f"{key:08x}" for key in wide.tolist()], pa.string())
    elif kind == "int":
        values = pc.cast(pa.array(wide.view(np.int64)), pa.string())
    else:
        values = _strings(wide, chunks, columns)
    table = pa.table(
        {
            "id": pa.array(np.arange(first, first + len(keys), dtype=np.int32)),
            "key": pa.array(wide),
            "value": values,
            "count": pa.array(counts.astype(np.int64)),
        }
    )
    if before is not None:
        table = pa.concat_tables([before, table.cast(before.schema)])
    # Every value occurs once: dictionaries of them would only be in the way.
    pq.write_table(table, path, compression="zstd", use_dictionary=False, row_group_size=_AT_A_TIME)


def vocabulary_digest(path: Path) -> str:
    """A checksum of the values in id order; the bytes of a Parquet file depend on the version of its writer."""
    lengths, text = hashlib.sha256(), hashlib.sha256()
    for batch in pq.ParquetFile(path).iter_batches(1 << 16, columns=["value"]):
        values = batch.column("value").cast(pa.large_binary())
        lengths.update(pc.binary_length(values).to_numpy(zero_copy_only=False).astype("<i8").tobytes())
        text.update(b"".join(values.to_pylist()))
    return hashlib.sha256(lengths.digest() + text.digest()).hexdigest()


def _strings(keys: np.ndarray, chunks: list[ArrayFile], columns: list[str]) -> pa.Array:
    """The text behind hashed keys, from the dictionaries that the chunks carry; never as objects of Python, of which a
    million would need more memory than all their text."""
    order = np.argsort(keys)
    ordered = keys[order]
    begin, length = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int32)
    found = np.zeros(len(keys), bool)
    pieces: list[np.ndarray] = []
    kept = 0  # bytes
    for chunk, column in ((chunk, column) for chunk in chunks for column in columns):
        if found.all():
            break
        unique = chunk.read(f"unique:{column}")
        place = np.minimum(np.searchsorted(ordered, unique), max(len(ordered) - 1, 0))
        target = order[place]
        hits = np.flatnonzero((ordered[place] == unique) & ~found[target])
        lengths = chunk.read(f"lengths:{column}")
        starts = np.cumsum(lengths, dtype=np.int64) - lengths
        piece = _gathered(chunk.read(f"bytes:{column}"), starts[hits], lengths[hits])
        found[target[hits]] = True
        length[target[hits]] = lengths[hits]
        begin[target[hits]] = kept + np.cumsum(lengths[hits], dtype=np.int64) - lengths[hits]
        pieces.append(piece)
        kept += len(piece)
    text = np.concatenate(pieces) if pieces else np.zeros(0, np.uint8)
    parts = []
    for first in range(0, len(keys), _AT_A_TIME):
        rows = slice(first, first + _AT_A_TIME)
        ends = np.concatenate(([0], np.cumsum(length[rows], dtype=np.int32))).astype(np.int32)
        data = _gathered(text, begin[rows], length[rows])
        parts.append(pa.Array.from_buffers(pa.string(), len(ends) - 1, [None, pa.py_buffer(ends), pa.py_buffer(data)]))
    return pa.chunked_array(parts, pa.string())


def _gathered(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Pieces of a byte array, one after the other."""
    ends = np.cumsum(lengths, dtype=np.int64)
    index = np.repeat(starts - (ends - lengths), lengths)
    index += np.arange(len(index))
    return data[index]

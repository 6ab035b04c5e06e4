"""Vocabulary files: `vocab/<column>.parquet` with id, key, value and count, in id order.

`value` is the cell as text, for people and for serving; `key` is what `IdTable` looks up.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from recnas.data.prepare.arrayfile import ArrayFile
from recnas.data.schema import FIRST_VALUE_ID


def write_vocabulary(
    path: Path, kind: str, keys: np.ndarray, counts: np.ndarray, chunks: list[ArrayFile], column: str
) -> None:
    wide = keys.astype(np.uint64)
    if kind == "hex":
        values: list[str] = [f"{key:08x}" for key in wide.tolist()]
    elif kind == "int":
        values = [str(key) for key in wide.view(np.int64).tolist()]
    else:
        values = _strings(wide, chunks, column)
    table = pa.table(
        {
            "id": pa.array(np.arange(FIRST_VALUE_ID, FIRST_VALUE_ID + len(keys), dtype=np.int32)),
            "key": pa.array(wide),
            "value": pa.array(values, pa.string()),
            "count": pa.array(counts.astype(np.int64)),
        }
    )
    pq.write_table(table, path, compression="zstd")


def vocabulary_digest(path: Path) -> str:
    """A checksum of the values in id order; the bytes of a Parquet file depend on the version of its writer."""
    lengths, text = hashlib.sha256(), hashlib.sha256()
    for batch in pq.ParquetFile(path).iter_batches(1 << 16, columns=["value"]):
        values = batch.column("value").cast(pa.large_binary())
        lengths.update(pc.binary_length(values).to_numpy(zero_copy_only=False).astype("<i8").tobytes())
        text.update(b"".join(values.to_pylist()))
    return hashlib.sha256(lengths.digest() + text.digest()).hexdigest()


def _strings(keys: np.ndarray, chunks: list[ArrayFile], column: str) -> list[str]:
    """The text behind hashed keys, from the dictionaries that the chunks carry."""
    order = np.argsort(keys)
    ordered = keys[order]
    found: list[bytes | None] = [None] * len(keys)
    open_places = len(keys)
    for chunk in chunks:
        if not open_places:
            break
        unique = chunk.read(f"unique:{column}")
        place = np.minimum(np.searchsorted(ordered, unique), max(len(ordered) - 1, 0))
        hits = np.flatnonzero(ordered[place] == unique) if len(ordered) else np.zeros(0, np.int64)
        ends = np.cumsum(chunk.read(f"lengths:{column}"))
        data = chunk.read(f"bytes:{column}").tobytes()
        for hit in hits.tolist():
            target = int(order[place[hit]])
            if found[target] is None:
                start = int(ends[hit - 1]) if hit else 0
                found[target] = data[start : int(ends[hit])]
                open_places -= 1
    return [(cell or b"").decode("utf-8", "replace") for cell in found]

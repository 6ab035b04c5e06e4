"""What Spark's workers do for `prepare`: parse a block, count a chunk's keys, encode a chunk.

Plain functions over files of the shared work folder, with the same parser, the same split rules and the same
encoder as the local engine; nothing here imports pyspark. Each leaves whole files behind under their final
names, so a task that is run twice, or at the same time as a twin that was thought dead, does no harm.
"""

from __future__ import annotations

import copy
import errno
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from recnas.data.prepare.arrayfile import ArrayFile
from recnas.data.prepare.bag_files import ValuePlaces, values_of_chunk
from recnas.data.prepare.chunks import ChunkWriter, block_jobs
from recnas.data.prepare.encode import Encoder, SplitFiles, keys_to_count
from recnas.data.prepare.spark.split import ChunkRef, SplitRule
from recnas.data.prepare.split import SPLITS, rows_per_split
from recnas.data.prepare.vocabulary import count_keys
from recnas.data.raw.id_table import BucketTable, HashTable, Ids, read_id_table
from recnas.data.raw.sources import Source, block_at
from recnas.data.schema import Schema
from recnas.errors import RecnasError

ENTRY = "entry.json"
COUNT_SCHEMA = "field int, key long, n long"


def answered(task: Callable[[Any], Any], item: Any) -> tuple[bool, Any]:
    """(True, result), or (False, error) for faults of the user's: Spark would repeat and then bury them."""
    try:
        return True, task(item)
    except RecnasError as error:
        return False, error
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return False, error


@dataclass(frozen=True)
class Look:
    """Whether a worker sees what the driver wrote."""

    path: Path

    def __call__(self, _: int) -> bool:
        return self.path.exists()


@dataclass(frozen=True)
class Unit:
    """A piece of parsing: one block of a plain text file, or a whole file that cannot be entered anywhere."""

    file: int
    source: Source
    block: int | None


@dataclass(frozen=True)
class Parse:
    """Writes the chunks of a unit; returns (block, bytes of text) of each."""

    writer: ChunkWriter  # without side tables
    sides: Any  # broadcast
    block_bytes: int
    limit: int | None

    def __call__(self, unit: Unit) -> list[tuple[int, int]]:
        writer = copy.copy(self.writer)
        writer.sides = self.sides.value
        if unit.block is not None:
            if writer.finished(unit.file, unit.block) is None:
                text = block_at(unit.source, unit.block, self.block_bytes)
                writer.text_block(unit.file, unit.block, text)
            begin = unit.block * self.block_bytes
            return [(unit.block, min(self.block_bytes, unit.source.size - begin))]
        found, lines = [], 0
        for block, (make, size) in enumerate(block_jobs(writer, unit.file, unit.source, self.block_bytes)):
            lines += make().facts["lines"]
            found.append((block, size))
            if self.limit is not None and lines >= self.limit:
                break
        return found


@dataclass(frozen=True)
class Count:
    """Keys of a chunk with how often each occurs, a batch per column; Spark adds them up."""

    rule: SplitRule
    columns: tuple[tuple[str, ...], ...]  # of every vocabulary those that share it
    every_split: bool

    def __call__(self, ref: ChunkRef) -> Iterator[pa.RecordBatch]:
        chunk = ArrayFile(ref.path)
        split = self.rule.split(chunk, ref.first_row)
        for number, column in ((i, column) for i, columns in enumerate(self.columns) for column in columns):
            wanted = keys_to_count(chunk, column, split, self.every_split)
            keys, counts = count_keys(lambda wanted=wanted: [wanted], 1, 1 << 40)  # type: ignore[misc]
            # Spark has no unsigned integers: the same 64 bits, read as signed.
            signed = keys.astype(np.uint64).view(np.int64)
            yield pa.RecordBatch.from_arrays(
                [pa.array(np.full(len(keys), number, np.int32)), pa.array(signed), pa.array(counts.astype(np.int64))],
                names=["field", "key", "n"],
            )


_opened: dict[str, dict[str, Ids]] = {}  # tables of the one job this worker last encoded for


@dataclass(frozen=True)
class Encode:
    """Encodes a chunk into a folder of its own, `parts/NAME/train|valid|test/...`; returns its journal entry."""

    rule: SplitRule
    parts: Path
    vocab: Path
    schema: Schema
    sparse: dict[str, HashTable | BucketTable | None]  # by column with ids of its own; None: in its vocabulary
    weighted: bool
    job: str  # unique: tables of another job must not be taken for ours

    def __call__(self, ref: ChunkRef) -> dict[str, Any]:
        final = self.parts / ref.path.stem
        if (kept := self._finished(final)) is not None:
            return kept
        chunk = ArrayFile(ref.path)
        split = self.rule.split(chunk, ref.first_row)
        rows = rows_per_split(split).tolist()
        own = self.parts / f".{ref.path.stem}-{uuid.uuid4().hex[:8]}"
        files = self._files(own, rows, values_of_chunk(chunk, self.schema.bag_names, split))
        try:
            entry = Encoder(files, self.schema, self._tables(), self.rule.negatives).encode(
                chunk, split, [0] * len(SPLITS)
            )
        finally:
            files.close()
        (own / ENTRY).write_text(json.dumps(entry))
        try:
            os.rename(own, final)
        except OSError:
            if not (final / ENTRY).exists():
                raise
            shutil.rmtree(own, ignore_errors=True)  # a twin was faster, with the same bytes
        return entry

    def _finished(self, final: Path) -> dict[str, Any] | None:
        """The entry of an earlier attempt, if its bytes are all there."""
        try:
            entry = json.loads((final / ENTRY).read_text())
        except (OSError, ValueError):
            entry = None
        if entry is not None:
            held = [{name: f["bags"][name]["values"] for name in self.schema.bag_names} for f in entry["splits"]]
            files = self._files(final, entry["rows"], held)
            try:
                if Encoder(files, self.schema, {}).is_written(entry, [0] * len(SPLITS)):
                    return entry
            finally:
                files.close()
        shutil.rmtree(final, ignore_errors=True)
        return None

    def _files(self, folder: Path, rows: list[int], values: ValuePlaces) -> SplitFiles:
        return SplitFiles.allocate(folder, rows, self.schema, self.weighted, values)

    def _tables(self) -> dict[str, Ids]:
        if self.job not in _opened:
            _opened.clear()
            _opened[self.job] = {
                name: table or read_id_table(self.vocab / f"{name}.parquet") for name, table in self.sparse.items()
            }
        return _opened[self.job]

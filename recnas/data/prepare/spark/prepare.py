"""`recnas prepare --engine spark`: the same preparation with its heavy stages on Spark's workers.

    parse   one task per block of text (or per compressed or Parquet file) writes chunk files
    count   a shuffle group-by over (column, key) adds up what every chunk counted
    encode  one task per chunk writes the rows of that chunk
    finish  the driver strings the parts together, in order, and computes moments, checksums and the manifest

Workers call the functions of the local engine, so the result is the same to the byte. All machines see the
raw files and the output folder under the same paths; Spark itself moves only counts and small facts. What a
stage has finished is kept, so the same command after a crash continues.
"""

from __future__ import annotations

import copy
import shutil
import uuid
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recnas.data.bags import bag_files
from recnas.data.prepare.arrayfile import ArrayFile
from recnas.data.prepare.chunks import ChunkWriter
from recnas.data.prepare.edges import Edges
from recnas.data.prepare.encode import array_files, check_weights
from recnas.data.prepare.spark.session import first_task, spark_session
from recnas.data.prepare.spark.split import ChunkRef, SplitRule
from recnas.data.prepare.spark.tasks import COUNT_SCHEMA, Count, Encode, Look, Parse, Unit, answered
from recnas.data.prepare.split import SPLITS, TRAIN
from recnas.data.prepare.stages import Preparation, State, check_train_rows
from recnas.data.prepared import PreparedData
from recnas.data.raw.id_table import computed_table
from recnas.data.raw.input_column import InputColumn
from recnas.data.schema import FIRST_VALUE_ID, Schema, SparseField
from recnas.errors import DataError

_PIECE = 1 << 22  # bytes copied at a time


class SparkPreparation(Preparation):
    disk_share = 2.7  # encoded parts are kept until they have been strung together

    def __init__(self, *given: Any, master: str | None = None) -> None:
        super().__init__(*given)
        self.master = master
        # Workers run in other folders.
        self.out, self.work = self.out.resolve(), self.work.resolve()
        self.session: Any = None

    def run(self) -> PreparedData:
        columns = self._check_sources()
        self._open_work()
        size = sum(source.size for source in self.sources)
        with spark_session(self.master, self.threads, self.memory, size) as self.session:
            self._check_workers()
            with self._nothing_kept_if_refused():
                state = self._parse(columns)
                refs = [
                    ChunkRef(chunk.path, first)
                    for chunk, first in zip(state.chunks, state.first_row)
                    if chunk.facts["rows"]
                ]
                rule = self._rule(state).settled(self._context, refs)
                if self.recipe.weight is not None:
                    check_weights(self.recipe, _with_split(rule, refs))
            edges = self._edges(_with_split(rule, refs), self._train_rows(rule, refs))
            sparse = self._count_ids(rule, refs, edges)
            summaries = self._summarise(_with_split(rule, refs))
            schema = Schema(self._dense_fields(summaries, edges), sparse, self.recipe.label_fields())
            entries = self._encode_parts(rule, refs, schema)
        sizes = np.sum([entry["rows"] for entry in entries], axis=0).tolist()
        check_train_rows(sizes[TRAIN])
        self._string_together(refs, entries, schema)
        return self._finish(state, schema, summaries, entries)

    @property
    def _context(self) -> Any:
        return self.session.sparkContext

    def _check_workers(self) -> None:
        """Find out now, not after hours, that workers have no recnas or do not see the folder."""
        if not first_task(self.session, Look(self.work / "plan.json")):
            raise DataError(
                f"Spark's workers do not see {self.out}.",
                "Give --raw and --out paths on a filesystem that every machine mounts in the same place.",
            )

    def _rule(self, state: State) -> SplitRule:
        options, days = self.options, self.recipe.time.days if self.recipe.time else None
        index = Path(options.split_index).resolve() if options.split_index else None
        return SplitRule(
            self.protocol,
            options.seed,
            state.rows_in,
            options.limit,
            days,
            index,
            state.starts,
            shares=self.shares,
            negatives=self.recipe.negatives,
            ends=self.ends,
        )

    def _make_chunks(self, writer: ChunkWriter, on_chunk: Callable[[int, ArrayFile, int], bool]) -> None:
        bare = copy.copy(writer)
        bare.folder, bare.sides = writer.folder.resolve(), {}
        task = Parse(bare, self._context.broadcast(writer.sides), self.block_bytes, self.options.limit)
        units = list(self._units())
        for unit, blocks in zip(units, self._in_waves(task, units)):
            for block, size in blocks:
                if not on_chunk(unit.file, ArrayFile(bare.path(unit.file, block)), size):
                    return

    def _units(self) -> Iterator[Unit]:
        for file, source in enumerate(self.sources):
            source = replace(source, path=source.path.resolve())
            if source.compression or self.recipe.format == "parquet" or self.recipe.line_breaks:
                yield Unit(file, source, None)
            else:
                for block in range(-(-source.size // self.block_bytes)):
                    yield Unit(file, source, block)

    def _in_waves(self, task: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        """Results in order, a growing number of tasks at a time: a bad first line is told early, progress is
        seen, and --limit does not read it all."""
        cores = max(1, self._context.defaultParallelism)
        wave, start = 2 * cores, 0
        while start < len(items):
            some = items[start : start + wave]
            for good, value in self._context.parallelize(some, len(some)).map(partial(answered, task)).collect():
                if not good:
                    raise value
                yield value
            start, wave = start + len(some), min(2 * wave, 32 * cores)

    def _train_rows(self, rule: SplitRule, refs: list[ChunkRef]) -> int:
        """Only counted where a sample of them is fitted to."""
        if self.base is not None or not any(column.has_edges for column in self.inputs):
            return 0
        return sum(int((split == TRAIN).sum()) for _, split in _with_split(rule, refs))

    def _count_ids(self, rule: SplitRule, refs: list[ChunkRef], edges: Edges) -> tuple[SparseField, ...]:
        """Vocabularies from one group-by over all columns; keys too rare to be kept stay with Spark."""
        sparse = [column for column in self.inputs if column.has_vocabulary]
        self.progress.phase("count", len(sparse), "columns")
        counts = self.work / "counts"
        if sparse and self._counts and not (counts / "_SUCCESS").exists():
            self._group(rule, refs, sparse, counts)
        chunks = [ArrayFile(ref.path) for ref in refs]
        (self.work / "done" / "vocab").mkdir(parents=True, exist_ok=True)
        rows = {}
        for number, column in enumerate(sparse):
            if self._counts:
                kept = self._keep(column, *_read_counts(counts / f"field={number}"), chunks)
                rows[column.name] = FIRST_VALUE_ID + len(kept)
            else:
                rows[column.name] = self._as_before(column).rows
            self.progress.advance(1)
        for column in self.inputs:
            if not column.is_dense and (table := computed_table(column, edges.get(column.name, ()))):
                rows[column.name] = table.rows
        rows |= {column.name: rows[column.table] for column in self.inputs if not column.is_dense}
        return self._sparse_fields(rows, edges)

    def _group(self, rule: SplitRule, refs: list[ChunkRef], sparse: list[InputColumn], target: Path) -> None:
        from pyspark.sql import functions as F

        columns = tuple(tuple(self._with_table(column)) for column in sparse)
        task = Count(rule, columns, self.options.vocab_scope == "all")

        def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from task(refs[number])

        minimum = F.array(*[F.lit(self._min_count(column)) for column in sparse])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pandas 3 is newer than this pyspark knows; none is used here
            counted = self.session.range(0, len(refs), 1, len(refs)).mapInArrow(count, COUNT_SCHEMA)
        (
            counted.groupBy("field", "key")
            .agg(F.sum("n").alias("n"))
            .where(F.col("n") >= F.element_at(minimum, F.col("field") + 1))
            .write.mode("overwrite")
            .partitionBy("field")
            .parquet(target.as_uri())
        )

    def _encode_parts(self, rule: SplitRule, refs: list[ChunkRef], schema: Schema) -> list[dict[str, Any]]:
        columns = [column for column in self.inputs if not column.is_dense]
        sparse = {
            field.name: computed_table(column, field.edges)
            for column, field in zip(columns, schema.sparse)
            if column.table == column.name
        }
        parts, vocab = self.work / "parts", self.work / "done" / "vocab"
        parts.mkdir(exist_ok=True)
        task = Encode(rule, parts, vocab, schema, sparse, self.recipe.weighs_rows, uuid.uuid4().hex)
        self.progress.phase("encode", None, "rows")
        entries = []
        for entry in self._in_waves(task, refs):
            entries.append(entry)
            self.progress.advance(sum(entry["rows"]))
        return entries

    def _string_together(self, refs: list[ChunkRef], entries: list[dict[str, Any]], schema: Schema) -> None:
        """The parts of all chunks, in order, as one file per split and array; every byte is checked."""
        files = array_files(schema, self.recipe.weighs_rows)
        ends = {bag_files(bag.name)[1]: bag.name for bag in schema.bags}
        self.progress.phase("string together", len(SPLITS) * len(files), "files")
        for s, split in enumerate(SPLITS):
            (self.work / "done" / split).mkdir(parents=True, exist_ok=True)
            for a, name in enumerate(files.values()):
                before = 0  # values of the parts that were appended
                with open(self.work / "done" / split / name, "wb") as out:
                    for ref, entry in zip(refs, entries):
                        part = self.work / "parts" / ref.path.stem / split / name
                        checksum = _append(part, out, before)
                        if name in ends:
                            before += entry["splits"][s]["bags"][ends[name]]["values"]
                        if checksum != entry["splits"][s]["crc"][a]:
                            shutil.rmtree(part.parent.parent)
                            raise DataError(
                                f"{part} is not what was written there.",
                                "It was removed: run the same command again to make it anew. Is the disk well?",
                            )
                self.progress.advance(1)


def _with_split(rule: SplitRule, refs: list[ChunkRef]) -> Iterator[tuple[ArrayFile, np.ndarray]]:
    for ref in refs:
        chunk = ArrayFile(ref.path)
        yield chunk, rule.split(chunk, ref.first_row)


def _read_counts(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Keys in increasing (unsigned) order and their counts; Spark writes no folder for a column without any."""
    if not folder.exists():
        return np.zeros(0, np.uint64), np.zeros(0, np.int64)
    tables = [pq.read_table(file, columns=["key", "n"], partitioning=None) for file in sorted(folder.glob("*.parquet"))]
    table = pa.concat_tables(tables)
    keys = table.column("key").to_numpy().view(np.uint64)
    order = np.argsort(keys)
    return keys[order], table.column("n").to_numpy()[order]


def _append(part: Path, out: Any, before: int = 0) -> int:
    """Its checksum. `before`: what is added to every number of it, ends of bags within the part."""
    checksum = 0
    with open(part, "rb") as file:
        while piece := file.read(_PIECE):
            checksum = zlib.crc32(piece, checksum)
            out.write((np.frombuffer(piece, np.int64) + before).tobytes() if before else piece)
    return checksum

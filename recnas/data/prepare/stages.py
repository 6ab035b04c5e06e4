"""The stages of a preparation on this machine: parse, split, count, encode, publish."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from recnas.data.prepare.arrayfile import ArrayFile
from recnas.data.prepare.bag_files import value_places
from recnas.data.prepare.chunks import ChunkWriter, bad_lines, count_rejects, write_chunks
from recnas.data.prepare.edges import Edges, fit_edges
from recnas.data.prepare.encode import (
    Encoder,
    SplitFiles,
    check_weights,
    encode_chunks,
    keys_to_count,
    training_numbers,
)
from recnas.data.prepare.first_day import FirstDay
from recnas.data.prepare.folder import check_disk, open_work
from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.publish import Finisher, write_rejects
from recnas.data.prepare.split import SPLITS, TRAIN, Ends, RowsOfChunk, Shares, assign_split, rows_per_split, thinned
from recnas.data.prepare.vectors import Vectors, write_vectors
from recnas.data.prepare.vocab_files import write_vocabulary
from recnas.data.prepare.vocabulary import count_keys, keep_frequent
from recnas.data.prepared import PreparedData, vector_lines
from recnas.data.raw.columns import resolve_columns
from recnas.data.raw.dense import DenseSummary, fields_of, summarise
from recnas.data.raw.id_table import Ids, IdTable, computed_table
from recnas.data.raw.input_column import InputColumn
from recnas.data.raw.joins import side_tables
from recnas.data.raw.parquet import parquet_columns
from recnas.data.raw.recipe import Recipe
from recnas.data.raw.refusals import all_rejected, bad_line, no_rows, two_kinds_of_no
from recnas.data.raw.sources import Source, check_partitions
from recnas.data.schema import DenseField, Schema, SparseField
from recnas.data.synthetic.files import truth_path
from recnas.errors import ConfigError, DataError
from recnas.progress import Progress


@dataclass
class State:
    """What the stages hand to each other."""

    chunks: list[ArrayFile] = field(default_factory=list)
    first_row: list[int] = field(default_factory=list)
    rows_in: int = 0
    rejects: int = 0
    columns: tuple[str, ...] = ()  # that every raw file has
    starts: tuple[int, int] | None = None  # of a ready split: the row numbers where valid and test begin


@dataclass
class Preparation:
    """One preparation, stage by stage; `spark.prepare` has the stages that run elsewhere."""

    recipe: Recipe
    options: PrepareOptions
    protocol: str
    sources: list[Source]
    out: Path
    plan: dict[str, Any]  # what decides the result, as the manifest tells it
    memory: int
    threads: int
    progress: Progress
    base: FirstDay | None = None  # whose ids and statistics are kept
    vectors: Sequence[Vectors] = ()

    disk_share: ClassVar[float] = 2.0  # of the text: chunks, arrays and Parquet are each at most about 0.7 of it

    def __post_init__(self) -> None:
        self.inputs = self.recipe.input_columns(self.options.with_columns)
        self.work = self.out / ".work"
        # A block of nothing but line ends needs some 130 bytes for each of its bytes, in every thread.
        share = 128 if self.memory >= 2 << 30 else 200
        self.block_bytes = min(16 << 20, max(1 << 20, self.memory // share))

    @property
    def shares(self) -> Shares:
        return self.options.shares_of(self.recipe)

    @property
    def ends(self) -> Ends | None:
        """Of the origin of a rolling split."""
        if self.protocol != "rolling" or self.options.origin is None:
            return None
        return self.options.rolling(self.recipe).ends(self.options.origin)

    def run(self) -> PreparedData:
        columns = self._check_sources()
        self._open_work()
        with self._nothing_kept_if_refused():
            state = self._parse(columns)
            splits = self._split(state)
        chunks = [chunk for chunk in state.chunks if chunk.facts["rows"]]
        splits = [split for split in splits if len(split)]
        edges = self._edges(zip(chunks, splits), _rows_per_split(splits)[TRAIN])
        tables, sparse = self._count(chunks, splits, edges)
        summaries = self._summarise(zip(chunks, splits))
        schema = Schema(self._dense_fields(summaries, edges), sparse, self.recipe.label_fields())
        entries = self._encode(chunks, splits, tables, schema)
        return self._finish(state, schema, summaries, entries)

    def _edges(self, chunks: Iterable[tuple[ArrayFile, np.ndarray]], train_rows: int) -> Edges:
        return self.base.edges() if self.base else fit_edges(self.inputs, chunks, train_rows)

    def _dense_fields(self, summaries: list[DenseSummary], edges: Edges) -> tuple[DenseField, ...]:
        return self.base.data.schema.dense if self.base else fields_of(self._dense, summaries, edges)

    @property
    def _counts(self) -> bool:
        """Whether training rows decide which values have ids."""
        return self.base is None or self.base.grows

    @contextmanager
    def _nothing_kept_if_refused(self) -> Iterator[None]:
        """Data that are refused need another file, recipe or option, and so another preparation."""
        try:
            yield
        except (DataError, ConfigError):
            shutil.rmtree(self.work)
            raise

    def _finish(
        self, state: State, schema: Schema, summaries: list[DenseSummary], entries: list[dict[str, Any]]
    ) -> PreparedData:
        if state.rejects:
            write_rejects(self.work / "done", self.sources, state.chunks, self.recipe.header, state.rows_in)
        facts = {"rows_in": state.rows_in, "rejects": state.rejects, "columns": list(state.columns)}
        if self.base is not None:
            facts["lineage"] = self.base.data.lineage
        later = sum(entry.get("later", 0) for entry in entries)
        if self.protocol == "rolling":
            facts["later"] = later
        if self.recipe.negatives is not None:
            facts["left_out"] = state.rows_in - state.rejects - sum(sum(entry["rows"]) for entry in entries) - later
        if self.vectors:
            with self._nothing_kept_if_refused():
                found = write_vectors(self.work / "done", self.vectors, self.work / "done" / "vocab")
            facts["vectors"] = found
            for line in vector_lines(found):
                self.progress.say(line)
        finisher = Finisher(
            self.out, self.work, schema, summaries, self.recipe.weighs_rows, self.threads, self.progress
        )
        finisher.run(self.plan, facts, entries, self.sources, self.options.parquet, self._expected_rows())
        return PreparedData.open(self.out)

    def _expected_rows(self) -> int | None:
        """What the recipe says of its data set, unless only a part or generated rows are meant."""
        generated = all(isinstance(s.path, Path) and truth_path(s.path).exists() for s in self.sources)
        return None if self.options.limit or generated else self.recipe.expected_rows

    def _check_sources(self) -> list[tuple[str, ...]]:
        """The raw columns of every file, in order. Headers may differ in columns that the recipe does not name."""
        check_partitions(self.recipe.partitions, self.sources)
        if self.recipe.format == "parquet":
            return [parquet_columns(self.sources[0])] * len(self.sources)
        return [resolve_columns(self.recipe, source) for source in self.sources]

    def _open_work(self) -> None:
        self.block_bytes = open_work(self.out, self.plan, self.block_bytes)
        size = sum(
            source.size * (5 if source.compression or self.recipe.format == "parquet" else 1) for source in self.sources
        )
        if self.options.limit:
            size = min(size, self.options.limit * 300)
        check_disk(self.out, int(size * self.disk_share))

    def _parse(self, columns: list[tuple[str, ...]]) -> State:
        sides = side_tables(self.recipe, self.sources[0].path.parent, self.options.side)
        # Only those the recipe names: others say nothing.
        names = self.recipe.partitions
        folders = [{n: v for n, v in source.partitions.items() if n in names} for source in self.sources]
        writer = ChunkWriter(self.work / "chunks", self.recipe, self.inputs, columns, sides, self.protocol, folders)
        self.progress.phase(
            "parse",
            sum(source.size for source in self.sources) / 1e6 if not self.sources[0].compression else None,
            "MB",
        )
        state = State(columns=tuple(name for name in columns[0] if all(name in others for others in columns)))
        limit = self.options.limit
        lines_of_file: dict[int, int] = {}

        def on_chunk(file: int, chunk: ArrayFile, size: int) -> bool:
            lines = chunk.facts["lines"] if limit is None else min(chunk.facts["lines"], limit - state.rows_in)
            rejects = count_rejects(chunk, lines)
            before = lines_of_file.get(file, 0)
            if rejects and self.options.on_error == "stop":
                faults = [fault for fault in bad_lines(chunk) if fault.line < lines]
                raise bad_line(self.recipe, self.sources[file], before, faults)
            state.first_row.append(state.rows_in)
            state.chunks.append(chunk)
            state.rows_in += chunk.facts["lines"]
            state.rejects += rejects
            lines_of_file[file] = before + chunk.facts["lines"]
            self.progress.advance(size / 1e6)
            return limit is None or state.rows_in < limit

        self._make_chunks(writer, on_chunk)
        if limit is not None:
            state.rows_in = min(state.rows_in, limit)
        if state.rows_in == 0:
            raise no_rows(self.sources[0])
        if state.rejects == state.rows_in:
            raise all_rejected(self.recipe, state.rows_in, bad_lines(state.chunks[0]))
        kinds = {(column, value) for chunk in state.chunks for column, value in chunk.facts["not_clicks"]}
        for label in self.recipe.every_label:
            if {(label.column, 0), (label.column, -1)} <= kinds:
                raise two_kinds_of_no(label.column)
        if self.protocol == "files":
            state.starts = _starts(self.sources, lines_of_file)
        return state

    def _make_chunks(self, writer: ChunkWriter, on_chunk: Callable[[int, ArrayFile, int], bool]) -> None:
        write_chunks(writer, self.sources, self.block_bytes, self.threads, on_chunk)

    def _split(self, state: State) -> list[np.ndarray]:
        rows = [
            RowsOfChunk.read(chunk, first, self.options.limit) for chunk, first in zip(state.chunks, state.first_row)
        ]
        days = self.recipe.time.days if self.recipe.time else None
        index = Path(self.options.split_index) if self.options.split_index else None
        splits = assign_split(self.protocol, self.options.seed, rows, days, index, state.starts, self.shares, self.ends)
        splits = [thinned(split, some, self.options.seed, self.recipe.negatives) for split, some in zip(splits, rows)]
        check_train_rows(_rows_per_split(splits)[TRAIN])
        if self.recipe.weight is not None:
            check_weights(self.recipe, zip(state.chunks, splits))
        return splits

    def _count(
        self, chunks: list[ArrayFile], splits: list[np.ndarray], edges: Edges
    ) -> tuple[dict[str, Ids], tuple[SparseField, ...]]:
        """Vocabulary of every sparse column that has one, counted on the training rows, a column per thread."""
        sparse = [column for column in self.inputs if column.has_vocabulary]
        self.progress.phase("count", len(sparse), "columns")
        everything = self.options.vocab_scope == "all"
        total = sum(len(split) if everything else int((split == TRAIN).sum()) for split in splits)
        budget = self.memory // 4 // self.threads
        counting = {column.name: total for column in sparse}
        for bag in (column for column in self.inputs if column.several and column.table in counting):
            assert bag.several is not None
            values = value_places(chunks, splits, [bag.name])[-1]
            counting[bag.table] += sum(places[bag.name] for places in values)
        (self.work / "done" / "vocab").mkdir(parents=True, exist_ok=True)

        def one(column: InputColumn) -> IdTable:
            def pieces() -> Iterator[np.ndarray]:
                for chunk, split in zip(chunks, splits):
                    for name in self._with_table(column):
                        yield keys_to_count(chunk, name, split, everything)

            if not self._counts:
                return self._as_before(column)
            return IdTable(self._keep(column, *count_keys(pieces, counting[column.name], budget), chunks))

        counted = {}
        with ThreadPoolExecutor(self.threads, thread_name_prefix="count") as pool:
            for column, table in zip(sparse, pool.map(one, sparse)):
                counted[column.name] = table
                self.progress.advance(1)
        tables: dict[str, Ids] = {
            column.name: computed_table(column, edges.get(column.name, ())) or counted[column.name]
            for column in self.inputs
            if not column.is_dense and column.table == column.name
        }
        tables = {column.name: tables[column.table] for column in self.inputs if not column.is_dense}
        rows = {name: table.rows for name, table in tables.items()}
        return tables, self._sparse_fields(rows, edges)

    def _sparse_fields(self, rows: dict[str, int], edges: Edges) -> tuple[SparseField, ...]:
        return tuple(
            SparseField(column.name, rows[column.name], edges.get(column.name, ()), column.bag)
            for column in self.inputs
            if not column.is_dense
        )

    def _with_table(self, column: InputColumn) -> list[str]:
        """A column and those that share its vocabulary."""
        return [one.name for one in self.inputs if one.table == column.name]

    def _min_count(self, column: InputColumn) -> int:
        return self.options.min_count or column.min_count or self.recipe.min_count

    def _keep(self, column: InputColumn, keys: np.ndarray, counts: np.ndarray, chunks: list[ArrayFile]) -> np.ndarray:
        """Write the vocabulary of a column: values that are frequent enough, behind those it had before. Its keys in id order."""
        known = None if self.base is None else self.base.values(column.name)
        cap = self.options.cap
        if self.base is not None and known is not None:
            keys, counts = self.base.without_known(column.name, keys, counts)
            cap = None if cap is None else cap - len(known)
        keys, counts = keep_frequent(keys, counts, self._min_count(column), cap)
        path = self.work / "done" / "vocab" / f"{column.name}.parquet"
        write_vocabulary(path, column.value_kind, keys, counts, chunks, self._with_table(column), known)
        if known is not None:
            keys = np.concatenate([known.column("key").to_numpy(), keys.astype(np.uint64)])
        return keys

    def _as_before(self, column: InputColumn) -> IdTable:
        assert self.base is not None
        self.base.copy_vocabulary(column.name, self.work / "done" / "vocab")
        return self.base.table(column.name)

    @property
    def _dense(self) -> list[InputColumn]:
        return [column for column in self.inputs if column.is_dense]

    def _summarise(self, chunks: Iterable[tuple[ArrayFile, np.ndarray]]) -> list[DenseSummary]:
        """Of every dense column over the training rows, in their order."""
        names = [column.name for column in self._dense]
        if not names:
            return []
        self.progress.phase("dense", None, "rows")
        return summarise((training_numbers(chunk, names, split) for chunk, split in chunks), len(names))

    def _encode(
        self, chunks: list[ArrayFile], splits: list[np.ndarray], tables: dict[str, Ids], schema: Schema
    ) -> list[dict[str, Any]]:
        sizes = _rows_per_split(splits)
        self.progress.phase("encode", sum(sizes), "rows")
        values = value_places(chunks, splits, schema.bag_names)[-1]
        files = SplitFiles.allocate(self.work / "done", sizes, schema, self.recipe.weighs_rows, values)
        try:
            encoder = Encoder(files, schema, tables, self.recipe.negatives)
            return encode_chunks(
                encoder, chunks, splits, self.work / "encoded.jsonl", self.threads, self.progress.advance
            )
        finally:
            files.close()


def check_train_rows(rows: int) -> None:
    if rows == 0:
        raise DataError("No row fell into the training split.", "Give more rows, or another --protocol.")


def _starts(sources: list[Source], lines_of_file: dict[int, int]) -> tuple[int, int]:
    """The row numbers where the validation and the test files of a ready split begin."""
    lines = dict.fromkeys(SPLITS, 0)
    for file, source in enumerate(sources):
        assert source.split is not None
        lines[source.split] += lines_of_file.get(file, 0)
    for split, count in lines.items():
        if count == 0:
            files = ", ".join(str(source.path) for source in sources if source.split == split)
            raise DataError(f"There are no rows in {files}.", f"Give --{split} a file with rows.")
    return lines["train"], lines["train"] + lines["valid"]


def _rows_per_split(splits: list[np.ndarray]) -> list[int]:
    return np.sum([rows_per_split(split) for split in splits], axis=0).tolist()

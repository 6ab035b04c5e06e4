"""First stage of `prepare`: raw blocks become chunk files of typed columns.

A chunk file holds one block's good rows, column by column, and its rejects. Chunks are independent of
each other, so they are parsed by several threads and a finished one is never parsed again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from recnas.data.prepare.arrayfile import ArrayFile, write_arrays
from recnas.data.prepare.bag_files import bag_arrays
from recnas.data.prepare.split import BY_INSTANT
from recnas.data.raw.input_column import InputColumn
from recnas.data.raw.joins import Side
from recnas.data.raw.lines import BadLine
from recnas.data.raw.parquet import PARQUET_ROWS, parquet_batches, rows_of_batch
from recnas.data.raw.parse import Chunk, RawRows, parse_rows, rows_of_text, with_partitions
from recnas.data.raw.recipe import Recipe
from recnas.data.raw.sources import Source, block_at, text_blocks
from recnas.data.raw.times import DAY
from recnas.errors import DataError

MOST_LISTED = 20_000  # rejected rows of a chunk; all are counted


class ChunkWriter:
    """Parses blocks of one data set into chunk files under `folder`. `columns` are those of every file."""

    def __init__(
        self,
        folder: Path,
        recipe: Recipe,
        inputs: list[InputColumn],
        columns: list[tuple[str, ...]],
        sides: dict[str, Side],
        protocol: str = "",
        partitions: Sequence[Mapping[str, str]] = (),  # of every file
    ) -> None:
        self.partitions = partitions
        self.folder = folder
        self.protocol = protocol
        self.recipe = recipe
        self.inputs = inputs
        self.columns = columns
        self.sides = sides

    def path(self, file: int, block: int) -> Path:
        return self.folder / f"{file:04d}-{block:07d}.chunk"

    def finished(self, file: int, block: int) -> ArrayFile | None:
        """A chunk of an earlier attempt, if its bytes are all there."""
        try:
            chunk = ArrayFile(self.path(file, block))
        except (FileNotFoundError, DataError):
            return None
        return chunk if chunk.is_whole() else None

    def text_block(self, file: int, block: int, text: bytes) -> ArrayFile:
        rows = rows_of_text(text, block == 0, self.columns[file], self.recipe, self.inputs, most_bad=MOST_LISTED)
        if rows is None:
            return self._write(file, block, _empty_chunk(self.recipe))
        return self._parse(file, block, rows)

    def parquet_batch(self, file: int, block: int, batch: Any) -> ArrayFile:
        return self._parse(file, block, rows_of_batch(batch))

    def _parse(self, file: int, block: int, rows: RawRows) -> ArrayFile:
        if self.recipe.partitions:
            rows = with_partitions(rows, self.partitions[file])
        return self._write(file, block, parse_rows(self.recipe, self.inputs, rows, self.sides, MOST_LISTED))

    def _write(self, file: int, block: int, chunk: Chunk) -> ArrayFile:
        arrays: dict[str, np.ndarray] = {"label": chunk.label}
        if chunk.weight is not None:
            arrays["weight"] = chunk.weight
        for name, clicks in chunk.labels.items():
            arrays[f"label:{name}"] = clicks
        if len(chunk.line) != chunk.lines:
            arrays["line"] = chunk.line.astype(np.uint32)
        if chunk.time is not None:
            arrays["day"] = (chunk.time // DAY).astype(np.int32)
            if self.protocol in BY_INSTANT:
                arrays["second"] = chunk.time
        if chunk.group is not None:
            arrays["group"] = chunk.group
            if chunk.grouped is not None:
                arrays["grouped"] = np.packbits(chunk.grouped)
        for name, values in chunk.dense.items():
            arrays[f"dense:{name}"] = values
        for name, keys in chunk.keys.items():
            arrays[f"key:{name}"] = keys
        for name, mask in chunk.missing.items():
            arrays[f"missing:{name}"] = np.packbits(mask)
        arrays |= bag_arrays(chunk.bags)
        for name, strings in chunk.strings.items():
            arrays[f"unique:{name}"] = strings.unique_keys
            arrays[f"lengths:{name}"] = np.array([len(cell) for cell in strings.unique_bytes], dtype=np.int32)
            arrays[f"bytes:{name}"] = np.frombuffer(b"".join(strings.unique_bytes), dtype=np.uint8)
        facts = {
            "lines": chunk.lines,
            "rows": len(chunk.label),
            "not_clicks": list(chunk.not_clicks),
        }
        if chunk.bad:  # not among the facts: those of every chunk are in memory
            listed = [[fault.line, fault.column, fault.reason, fault.text] for fault in chunk.bad]
            arrays["bad"] = np.frombuffer(json.dumps(listed).encode(), dtype=np.uint8)
        path = self.path(file, block)
        write_arrays(path, arrays, facts)
        return ArrayFile(path)


def _empty_chunk(recipe: Recipe) -> Chunk:
    weight = None if recipe.weight is None else np.zeros(0, np.float32)
    return Chunk(lines=0, line=np.zeros(0, np.int64), label=np.zeros(0, np.uint8), weight=weight)


def bad_lines(chunk: ArrayFile) -> list[BadLine]:
    """The rejected rows of a chunk, the first `MOST_LISTED` if there are more."""
    return [BadLine(*fault) for fault in json.loads(chunk.read("bad").tobytes())] if "bad" in chunk else []


def count_rejects(chunk: ArrayFile, lines: int) -> int:
    """How many of its first `lines` rows are rejected."""
    total, rows = chunk.facts["lines"], chunk.facts["rows"]
    if lines >= total or rows == total:
        return int(total - rows) if lines >= total else 0
    return lines - int(np.searchsorted(chunk.read("line"), lines))


def write_chunks(
    writer: ChunkWriter,
    sources: list[Source],
    block_bytes: int,
    threads: int,
    on_chunk: Callable[[int, ArrayFile, int], bool],
) -> None:
    """Parse every block, calling `on_chunk(file, chunk, text_bytes)` in file order; False stops early."""
    with ThreadPoolExecutor(threads, thread_name_prefix="parse") as pool:
        for file, source in enumerate(sources):
            jobs = block_jobs(writer, file, source, block_bytes)
            for chunk, size in _in_order(pool, jobs, ahead=threads + 1):
                if not on_chunk(file, chunk, size):
                    return


Job = tuple[Callable[[], ArrayFile], int]


def block_jobs(writer: ChunkWriter, file: int, source: Source, block_bytes: int) -> Iterator[Job]:
    """One callable per block; compressed and Parquet files are read here, in order, parsed in threads."""
    if writer.recipe.format == "parquet":
        named = writer.recipe.sources(tuple(column.source for column in writer.inputs))
        needed = [name for name in named if name not in writer.recipe.beside]
        for block, batch in enumerate(parquet_batches(source, needed, PARQUET_ROWS)):
            yield _job(writer, file, block, partial(writer.parquet_batch, file, block, batch)), batch.nbytes
    elif source.compression or writer.recipe.line_breaks:
        for block, text in enumerate(text_blocks(source, block_bytes, writer.recipe.line_breaks)):
            yield _job(writer, file, block, partial(writer.text_block, file, block, text)), len(text)
    else:
        for block in range(-(-source.size // block_bytes)):
            yield (
                _job(writer, file, block, partial(_read_and_parse, writer, file, source, block, block_bytes)),
                min(block_bytes, source.size - block * block_bytes),
            )


def _read_and_parse(writer: ChunkWriter, file: int, source: Source, block: int, block_bytes: int) -> ArrayFile:
    return writer.text_block(file, block, block_at(source, block, block_bytes))


def _job(writer: ChunkWriter, file: int, block: int, make: Callable[[], ArrayFile]) -> Callable[[], ArrayFile]:
    return lambda: writer.finished(file, block) or make()


def _in_order(pool: ThreadPoolExecutor, jobs: Iterator[Job], ahead: int) -> Iterator[tuple[ArrayFile, int]]:
    """Run jobs in the pool with at most `ahead` under way, and give results in order."""
    waiting: list[tuple[Future[ArrayFile], int]] = []
    try:
        for job, size in jobs:
            waiting.append((pool.submit(job), size))
            while len(waiting) >= ahead:
                yield waiting[0][0].result(), waiting[0][1]
                waiting.pop(0)
        while waiting:
            yield waiting[0][0].result(), waiting[0][1]
            waiting.pop(0)
    finally:
        for future, _ in waiting:
            future.cancel()
        wait([future for future, _ in waiting])

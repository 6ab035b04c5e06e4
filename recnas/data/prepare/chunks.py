"""First stage of `prepare`: raw blocks become chunk files of typed columns.

A chunk file holds one block's good rows, column by column, and its rejects. Chunks are independent of
each other, so they are parsed by several threads and a finished one is never parsed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from recnas.data.prepare.arrayfile import ArrayFile, write_arrays
from recnas.data.raw.joins import SideTable
from recnas.data.raw.labels import LABEL_WORDS
from recnas.data.raw.lines import BadLine, split_lines
from recnas.data.raw.parquet import parquet_batches, parquet_reader
from recnas.data.raw.parse import Chunk, parse_rows, text_reader
from recnas.data.raw.recipe import InputColumn, Recipe
from recnas.data.raw.serving import RowError, split_line
from recnas.data.raw.sources import Source, block_at, check_is_text, stream_blocks
from recnas.errors import DataError

PARQUET_ROWS = 65_536


class ChunkWriter:
    """Parses blocks of one data set into chunk files under `folder`."""

    def __init__(
        self,
        folder: Path,
        recipe: Recipe,
        inputs: list[InputColumn],
        columns: tuple[str, ...],
        sides: dict[str, SideTable],
    ) -> None:
        self.folder = folder
        self.recipe = recipe
        self.inputs = inputs
        self.columns = columns
        self.sides = sides

    def path(self, file: int, block: int) -> Path:
        return self.folder / f"{file:04d}-{block:07d}.chunk"

    def finished(self, file: int, block: int) -> ArrayFile | None:
        """A chunk of an earlier attempt, if its bytes are all there."""
        path = self.path(file, block)
        if not path.exists():
            return None
        chunk = ArrayFile(path)
        return chunk if chunk.is_whole() else None

    def text_block(self, file: int, block: int, text: bytes) -> ArrayFile:
        if self.recipe.header and block == 0:
            text = text[text.find(b"\n") + 1 :] if b"\n" in text else b""
        if not text:
            return self._write(file, block, _empty_chunk())
        table = split_lines(text, self.recipe.separator, len(self.columns), self.recipe.quote)
        read, show = text_reader(table, self.columns, self.recipe, self.inputs)
        chunk = parse_rows(self.recipe, self.inputs, table.line, table.lines, read, show, self.sides)
        chunk.bad = sorted(chunk.bad + table.bad, key=lambda fault: fault.line)
        return self._write(file, block, chunk)

    def parquet_batch(self, file: int, block: int, batch: Any) -> ArrayFile:
        read, show = parquet_reader(batch)
        rows = np.arange(batch.num_rows)
        return self._write(file, block, parse_rows(self.recipe, self.inputs, rows, len(rows), read, show, self.sides))

    def _write(self, file: int, block: int, chunk: Chunk) -> ArrayFile:
        arrays: dict[str, np.ndarray] = {"label": chunk.label}
        if len(chunk.line) != chunk.lines:
            arrays["line"] = chunk.line.astype(np.uint32)
        if chunk.time is not None:
            arrays["day"] = chunk.time.astype(np.int32)
        for name, values in chunk.dense.items():
            arrays[f"dense:{name}"] = values
        for name, keys in chunk.keys.items():
            arrays[f"key:{name}"] = keys
        for name, mask in chunk.missing.items():
            arrays[f"missing:{name}"] = np.packbits(mask)
        for name, strings in chunk.strings.items():
            arrays[f"unique:{name}"] = strings.unique_keys
            arrays[f"lengths:{name}"] = np.array([len(cell) for cell in strings.unique_bytes], dtype=np.int32)
            arrays[f"bytes:{name}"] = np.frombuffer(b"".join(strings.unique_bytes), dtype=np.uint8)
        facts = {
            "lines": chunk.lines,
            "rows": len(chunk.label),
            "not_clicks": list(chunk.not_clicks),
            "bad": [[fault.line, fault.column, fault.reason, fault.text] for fault in chunk.bad],
        }
        path = self.path(file, block)
        write_arrays(path, arrays, facts)
        return ArrayFile(path)


def _empty_chunk() -> Chunk:
    return Chunk(lines=0, line=np.zeros(0, np.int64), label=np.zeros(0, np.uint8))


def bad_lines(chunk: ArrayFile) -> list[BadLine]:
    return [BadLine(*fault) for fault in chunk.facts["bad"]]


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
        needed = writer.recipe.sources(tuple(column.source for column in writer.inputs))
        for block, batch in enumerate(parquet_batches(source, needed, PARQUET_ROWS)):
            yield _job(writer, file, block, partial(writer.parquet_batch, file, block, batch)), batch.nbytes
    elif source.compression:
        for block, text in enumerate(stream_blocks(source, block_bytes)):
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


def resolve_columns(recipe: Recipe, source: Source) -> tuple[str, ...]:
    """The raw columns of a text file in order, checked against its first line."""
    check_is_text(source)
    first = _first_line(source)
    cells = cells_of(first.decode("utf-8", "replace"), recipe)
    if not recipe.header:
        _check_first_row(recipe, source, cells)
        return recipe.columns
    if recipe.columns and tuple(cells) != recipe.columns:
        raise DataError(
            f"{source.path} line 1: the header is not the one of {recipe.name}. Expected "
            f"{', '.join(recipe.columns[:6])}, ...; found {', '.join(cells[:6])}{', ...' if len(cells) > 6 else ''}.",
            _other_recipe_hint(first, recipe)
            or "Check that --raw names the right file; a missing header line must be put back.",
        )
    absent = [name for name in recipe.sources() if name not in cells]
    if absent:
        raise DataError(
            f"{source.path} line 1: the header has no column {', '.join(absent)}; it has {', '.join(cells)}.",
            "Correct the column names or the separator in the recipe.",
        )
    return tuple(cells)


def _check_first_row(recipe: Recipe, source: Source, cells: list[str]) -> None:
    expected = len(recipe.columns)
    label = cells[recipe.columns.index(recipe.label.column)] if len(cells) == expected else ""
    if len(cells) == expected and any(c.isalpha() for c in label) and label.lower() not in LABEL_WORDS:
        raise DataError(
            f"{source.path} line 1: the label column {recipe.label.column!r} holds {label!r}: this looks like a header, and {recipe.name} files have none.",
            f"Remove the first line: tail -n +2 {source.path} > without-header",
        )
    hint = _other_recipe_hint(_first_line(source), recipe)
    if len(cells) != expected and hint:
        raise DataError(
            f"{source.path} line 1 has {len(cells)} fields separated by {recipe.separator!r}; {recipe.name} has {expected}.",
            hint,
        )


def _other_recipe_hint(line: bytes, recipe: Recipe) -> str | None:
    """Which shipped recipe a first line would fit, when it is not this one."""
    from recnas.data.raw.recipe import load_recipe, shipped_recipes

    for name in shipped_recipes():
        other = load_recipe(name)
        if name == recipe.name or other.format != "text" or not other.columns:
            continue
        cells = cells_of(line.decode("utf-8", "replace"), other)
        if len(cells) == len(other.columns) and (not other.header or tuple(cells) == other.columns):
            return f"It looks like a {name} file: recnas prepare {name} --raw ..."
    return None


def cells_of(line: str, recipe: Recipe) -> list[str]:
    """The cells of a first line, which may be anything."""
    line = line.rstrip("\r\n")
    try:
        return split_line(line, recipe.separator, recipe.quote)
    except RowError:
        return line.split(recipe.separator)


def _first_line(source: Source) -> bytes:
    for block in stream_blocks(source, 1):
        if block:
            return block
    raise DataError(f"{source.path} is empty.", "Was the download or copy cut short? Fetch it again.")

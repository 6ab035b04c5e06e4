"""Last stage of `prepare`: chunk files become row-major arrays, one set per split.

Every chunk's rows go to known places of preallocated files, so chunks are encoded by several threads in
any order. A journal line per chunk, with checksums of what was written, lets an interrupted run verify
and keep what it had.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recnas.data.bags import bag_files
from recnas.data.prepare.arrayfile import ArrayFile, crc32
from recnas.data.prepare.bag_files import EncodedBag, ValuePlaces, encoded_bag, keys_of_bag, value_places
from recnas.data.prepare.split import LATER, LEFT_OUT, SPLITS, TRAIN, rows_per_split
from recnas.data.raw.id_table import Ids
from recnas.data.raw.inputs import dense_inputs, id_inputs
from recnas.data.raw.recipe import Recipe
from recnas.data.raw.refusals import no_weight
from recnas.data.schema import MISSING_ID, UNKNOWN_ID, Schema
from recnas.runs.ledger import line_of, read_chain


def array_files(schema: Schema, weighted: bool) -> dict[str, str]:
    """The arrays of a split and the files they are in."""
    files = {"dense": "dense.f32", "ids": "ids.i32", "label": "label.i8"}
    if weighted:
        files["weight"] = "weight.f32"
    for bag in schema.bags:
        files |= {file: file for file in bag_files(bag.name)}
    return files


def row_bytes(schema: Schema) -> dict[str, int]:
    """Of one row in each array that has as much for every row: all but the values of bags."""
    ends = {bag_files(bag.name)[1]: 8 for bag in schema.bags}
    return {"dense": 4 * schema.n_dense, "ids": 4 * schema.n_single, "label": schema.n_labels, "weight": 4} | ends


@dataclass(frozen=True)
class SplitFiles:
    """Open files of the three splits; `handles[split][array]` is a file descriptor."""

    folder: Path
    handles: tuple[dict[str, int], ...]
    weighted: bool = False

    @classmethod
    def allocate(
        cls,
        folder: Path,
        rows: list[int],
        schema: Schema,
        weighted: bool = False,
        values: ValuePlaces | None = None,  # of the bags, how many there are
    ) -> SplitFiles:
        handles = []
        for s, (split, count) in enumerate(zip(SPLITS, rows)):
            (folder / split).mkdir(parents=True, exist_ok=True)
            sizes = {array: width * count for array, width in row_bytes(schema).items()}
            if values is not None:
                sizes |= {bag_files(bag)[0]: 4 * held for bag, held in values[s].items()}
            opened = {}
            for array, name in array_files(schema, weighted).items():
                handle = os.open(folder / split / name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
                os.ftruncate(handle, sizes[array])
                if sizes[array]:
                    # Reserve the space now: a full disk shows here, not in the middle.
                    os.posix_fallocate(handle, 0, sizes[array])
                opened[array] = handle
            handles.append(opened)
        return cls(folder, tuple(handles), weighted)

    def close(self) -> None:
        for opened in self.handles:
            for handle in opened.values():
                os.fsync(handle)
                os.close(handle)


class Encoder:
    """Encodes chunks; `tables` maps each sparse column that has ids of its own to them."""

    def __init__(
        self, files: SplitFiles, schema: Schema, tables: dict[str, Ids], negatives: float | None = None
    ) -> None:
        self.files = files
        self.schema = schema
        self.tables = tables
        self.negatives = negatives  # share of the training rows without a click that were kept

    def encode(
        self, chunk: ArrayFile, split: np.ndarray, offsets: list[int], values: ValuePlaces | None = None
    ) -> dict[str, Any]:
        """Write one chunk's rows at `offsets` (first row per split) and return its journal entry.

        A `split` shorter than the chunk leaves the chunk's last rows out (--limit). `values`: where those of bags begin.
        """
        n = len(split)
        label = chunk.read("label")[:n].view(np.int8)
        dense = dense_inputs(n, self.schema.dense, lambda name: chunk.read(f"dense:{name}")[:n])
        ids = id_inputs(
            n,
            {field.name: self.tables[field.name] for field in self.schema.sparse if not field.bag},
            keys=lambda name: chunk.read(f"key:{name}")[:n],
            missing=lambda name: read_missing(chunk, name, n),
        )
        order = np.argsort(split, kind="stable")
        counts: list[int] = rows_per_split(split).tolist()
        arrays: dict[str, np.ndarray] = {"dense": dense[order], "ids": ids[order], "label": label[order]}
        if self.schema.labels:
            further = [chunk.read(f"label:{one.name}")[:n].view(np.int8) for one in self.schema.labels[1:]]
            arrays["label"] = np.stack([label, *further], 1)[order]
        if self.files.weighted:
            arrays["weight"] = self._weights(chunk, label, split)[order]
        bags = {bag.name: encoded_bag(chunk, bag.name, self.tables[bag.table], order) for bag in self.schema.bags}
        parts: list[dict[str, Any]] = []
        start = 0
        for s, count in enumerate(counts):
            part: dict[str, np.ndarray] = {name: array[start : start + count] for name, array in arrays.items()}
            entry = {"crc": self._write(s, int(offsets[s]), part), **_facts(part)}
            for name, bag in bags.items():
                own = bag.part(start, start + count)
                begin = values[s][name] if values is not None else 0
                entry["crc"] += self._write_bag(s, int(offsets[s]), begin, name, own)
                facts = own.facts()
                entry["unknown"].append(facts.pop("unknown_rows"))
                entry["missing"].append(facts["empty_rows"])
                entry["largest"].append(facts.pop("largest"))
                entry.setdefault("bags", {})[name] = facts
            parts.append(entry)
            start += count
        later = int(np.count_nonzero(split == LATER))
        return {"rows": counts, "splits": parts, **({"later": later} if later else {})}

    def _weights(self, chunk: ArrayFile, label: np.ndarray, split: np.ndarray) -> np.ndarray:
        """Of every row: its own, and a row that was kept for others like it counts for them too. So the loss is that of all
        rows, and probabilities and metrics need no correction."""
        weight = chunk.read("weight")[: len(label)] if "weight" in chunk else np.ones(len(label), np.float32)
        if self.negatives is None:
            return weight
        return np.where((split == TRAIN) & (label == 0), weight / np.float32(self.negatives), weight)

    def _write(self, split: int, first_row: int, part: dict[str, np.ndarray]) -> list[int]:
        crc = []
        for name, rows in part.items():
            width = rows.shape[1] * rows.itemsize if rows.ndim == 2 else rows.itemsize
            crc.append(self._put(split, name, first_row * width, rows))
        return crc

    def _write_bag(self, split: int, first_row: int, first_value: int, name: str, bag: EncodedBag) -> list[int]:
        values, ends = bag_files(name)
        return [
            self._put(split, values, first_value * bag.values.itemsize, bag.values),
            self._put(split, ends, first_row * 8, first_value + np.cumsum(bag.counts, dtype=np.int64)),
        ]

    def _put(self, split: int, name: str, position: int, rows: np.ndarray) -> int:
        """Write an array at a place of its file; its checksum."""
        view = memoryview(np.ascontiguousarray(rows).reshape(-1).view(np.uint8))  # type: ignore[arg-type]
        while len(view):
            written = os.pwrite(self.files.handles[split][name], view, position)
            view, position = view[written:], position + written
        return crc32(rows)

    def is_written(self, entry: dict[str, Any], offsets: list[int], values: ValuePlaces | None = None) -> bool:
        """Whether an earlier attempt's rows of this chunk are in the files, byte for byte."""
        widths, bags = row_bytes(self.schema), {bag_files(bag.name)[0]: bag.name for bag in self.schema.bags}
        for s, facts in enumerate(entry["splits"]):
            count = entry["rows"][s]
            for name, crc in zip(array_files(self.schema, self.files.weighted), facts["crc"], strict=True):
                if name in bags:
                    begin = values[s][bags[name]] if values is not None else 0
                    place, size = 4 * begin, 4 * facts["bags"][bags[name]]["values"]
                else:
                    place, size = offsets[s] * widths[name], count * widths[name]
                if zlib.crc32(os.pread(self.files.handles[s][name], size, place)) != crc:
                    return False
        return True


def check_weights(recipe: Recipe, chunks: Iterable[tuple[ArrayFile, np.ndarray]]) -> None:
    """Refuse a split whose rows all have weight 0; one without any rows is another matter."""
    rows, heavy = np.zeros(len(SPLITS), dtype=np.int64), np.zeros(len(SPLITS), dtype=np.int64)
    for chunk, split in chunks:
        some = chunk.read("weight")[: len(split)] > 0
        rows += rows_per_split(split)
        heavy += rows_per_split(split[some])
        if heavy.all():
            return
    for name, count, with_weight in zip(SPLITS, rows, heavy):
        if count and not with_weight:
            raise no_weight(recipe, name)


def read_missing(chunk: ArrayFile, name: str, rows: int) -> np.ndarray | None:
    key = f"missing:{name}"
    if key not in chunk:
        return None
    return np.unpackbits(chunk.read(key), count=rows).view(bool)


def keys_to_count(chunk: ArrayFile, name: str, split: np.ndarray, every_split: bool) -> np.ndarray:
    """The keys of one column that the vocabulary is made of: training rows (or all), missing cells left out."""
    if f"counts:{name}" in chunk:
        return keys_of_bag(chunk, name, split, every_split)
    keys = chunk.read(f"key:{name}")
    missing = read_missing(chunk, name, len(keys))
    keys = keys[: len(split)]
    chosen = split < LEFT_OUT if every_split else split == TRAIN
    return keys[chosen if missing is None else chosen & ~missing[: len(split)]]


def training_numbers(chunk: ArrayFile, names: list[str], split: np.ndarray) -> np.ndarray:
    """The transformed dense values of a chunk's training rows, [n, I]; missing cells are NaN."""
    chosen = split == TRAIN
    out = np.empty((int(chosen.sum()), len(names)))
    for i, name in enumerate(names):
        out[:, i] = chunk.read(f"dense:{name}")[: len(split)][chosen]
    return out


def _facts(part: dict[str, np.ndarray]) -> dict[str, Any]:
    ids, label = part["ids"], part["label"]
    several = {"clicks_of": label.sum(axis=0, dtype=np.int64).tolist()} if label.ndim == 2 else {}
    return {
        "clicks": several["clicks_of"][0] if several else int(label.sum(dtype=np.int64)),
        **several,
        "unknown": np.count_nonzero(ids == UNKNOWN_ID, axis=0).tolist(),
        "missing": np.count_nonzero(ids == MISSING_ID, axis=0).tolist(),
        "largest": ids.max(axis=0).tolist() if len(ids) else [0] * ids.shape[1],
    }


def encode_chunks(
    encoder: Encoder,
    chunks: list[ArrayFile],
    splits: list[np.ndarray],
    journal: Path,
    threads: int,
    on_rows: Callable[[int], None],
) -> list[dict[str, Any]]:
    """Encode every chunk not yet in the journal; returns the entries in chunk order."""
    offsets, values = _offsets(splits), value_places(chunks, splits, encoder.schema.bag_names)
    entries: dict[int, dict[str, Any]] = {}
    for number, entry in _read_journal(journal).items():
        if number < len(chunks) and encoder.is_written(entry, offsets[number], values[number]):
            entries[number] = entry
            on_rows(len(splits[number]))
    todo = [number for number in range(len(chunks)) if number not in entries]
    check = ""

    def note(number: int, entry: dict[str, Any]) -> None:
        nonlocal check
        line, check = line_of(check, {"chunk": number, **entry})
        log.write(line)
        log.flush()

    with open(journal, "wb") as log, ThreadPoolExecutor(threads, thread_name_prefix="encode") as pool:
        # Written anew, without a line that a crash cut short or rows that did not verify.
        for number, entry in entries.items():
            note(number, entry)
        results = pool.map(lambda k: encoder.encode(chunks[k], splits[k], offsets[k], values[k]), todo)
        for number, entry in zip(todo, results):
            entries[number] = entry
            note(number, entry)
            on_rows(len(splits[number]))
    return [entries[number] for number in range(len(chunks))]


def _offsets(splits: list[np.ndarray]) -> list[list[int]]:
    next_row = np.zeros(len(SPLITS), dtype=np.int64)
    offsets = []
    for split in splits:
        offsets.append(next_row.tolist())
        next_row += rows_per_split(split)
    return offsets


def _read_journal(path: Path) -> dict[int, dict[str, Any]]:
    """Entries by chunk, as far as the file is what was written: the rest is encoded anew."""
    if not path.exists():
        return {}
    return {entry.pop("chunk"): entry for entry in read_chain(path.read_bytes()).events}

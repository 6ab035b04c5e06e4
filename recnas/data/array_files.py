"""The arrays of a prepared data set: memory-mapped for training, or read block by block."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from recnas.data.bags import BagArray, bag_files, pad_into
from recnas.data.schema import Schema, SparseField
from recnas.errors import DataError

FILES = {
    "dense": ("dense.f32", "<f4"),
    "ids": ("ids.i32", "<i4"),
    "label": ("label.i8", "<i1"),
    "weight": ("weight.f32", "<f4"),
}


def open_array(folder: Path, split: str, array: str, rows: int, schema: Schema) -> np.ndarray:
    """One array of one split as a private memory map: reading costs no copy."""
    name, dtype = FILES[array]
    return _mapped(folder, split, name, dtype, (rows, *_row_shape(array, schema)))


def open_bag(folder: Path, split: str, field: SparseField, rows: int, values: int) -> BagArray:
    """The bags of a field, memory-mapped."""
    assert field.bag is not None
    of_values, of_ends = bag_files(field.name)
    ends = _mapped(folder, split, of_ends, "<i8", (rows,))
    mapped = _mapped(folder, split, of_values, "<i4", (values,))
    # Plain arrays over the maps: slicing the memmap subclass costs several microseconds each time.
    return BagArray(np.asarray(mapped), np.asarray(ends), field.bag.length)


def _mapped(folder: Path, split: str, name: str, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    rows, what = shape[0], "values" if name.endswith(".values.i32") else "rows"
    if 0 in shape:
        return np.zeros(shape, dtype=dtype)
    path = folder / split / name
    expected = int(np.prod(shape)) * np.dtype(dtype).itemsize
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise DataError(f"{path} is missing.", f"Prepare the data again, or restore the folder {folder}.") from None
    if size != expected:
        raise DataError(
            f"{path} has {size:,} bytes, but the manifest's {rows:,} {what} need {expected:,}.",
            "The folder was changed after it was prepared. Prepare it again.",
        )
    # Copy-on-write: torch wants writable memory, and no write can reach the file.
    return np.memmap(path, dtype=dtype, mode="c", shape=shape)


def read_blocks(folder: Path, split: str, array: str, rows: int, schema: Schema, size: int) -> Iterator[np.ndarray]:
    """The rows of one array, `size` at a time, by plain reads; ids with the places of bags."""
    name, dtype = FILES[array]
    shape = _row_shape(array, schema)
    width = shape[0] if shape else 1
    bags = [_read_bags(folder, split, field, rows, size) for field in schema.bags] if array == "ids" else []
    with open(folder / split / name, "rb") as file:
        for start in range(0, rows, size):
            count = min(size, rows - start)
            whole = _read_exactly(file, folder, dtype, count * width).reshape(count, *shape)
            yield np.concatenate([whole, *(next(bag) for bag in bags)], axis=1) if bags else whole


def _row_shape(array: str, schema: Schema) -> tuple[int, ...]:
    """On disk: ids are those of fields with one value."""
    several = (schema.n_labels,) if schema.labels else ()
    return {"dense": (schema.n_dense,), "ids": (schema.n_single,), "label": several, "weight": ()}[array]


def _read_bags(folder: Path, split: str, field: SparseField, rows: int, size: int) -> Iterator[np.ndarray]:
    assert field.bag is not None
    of_values, of_ends = bag_files(field.name)
    before = 0
    with open(folder / split / of_values, "rb") as values, open(folder / split / of_ends, "rb") as ends:
        for start in range(0, rows, size):
            end = _read_exactly(ends, folder, "<i8", min(size, rows - start))
            places = np.empty((len(end), field.bag.length), dtype=np.int32)
            held = _read_exactly(values, folder, "<i4", int(end[-1]) - before)
            pad_into(places, 0, field.bag.length, held, np.diff(end, prepend=before))
            before = int(end[-1])
            yield places


def _read_exactly(file: IO[bytes], folder: Path, dtype: str, count: int) -> np.ndarray:
    size = count * np.dtype(dtype).itemsize
    data = file.read(size)
    if len(data) < size:
        raise DataError(f"{file.name} ends too early.", f"Start over: rm -r {folder}")
    return np.frombuffer(data, dtype=dtype)

"""Pre-trained vectors of the values of a column, from a file to rows in id order.

    vectors/COLUMN.f32         float32 [rows of the table, V]; NaN where the file has no vector
    vectors/COLUMN.basis.f32   float32 [V, V]: the principal directions of all vectors of the file, the strongest first

Tables that are narrower than V read the vectors along the first directions: of all linear maps to that width the one that
loses least. The directions are those of the whole file, so a later day with the same file has the same.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from recnas.data.prepared import PreparedData
from recnas.data.raw.recipe import Recipe
from recnas.data.raw.remote import AnyPath, as_path, open_path
from recnas.data.raw.sections import VectorFile
from recnas.data.schema import FIRST_VALUE_ID
from recnas.errors import DataError


@dataclass(frozen=True)
class Vectors:
    """What a file says: `values` are the ids as vocabularies write them."""

    rule: VectorFile
    path: AnyPath
    sha256: str
    values: pa.Array
    rows: np.ndarray  # float32 [n, V]


def read_vectors(recipe: Recipe, beside: AnyPath, given: Sequence[str], with_columns: tuple[str, ...]) -> list[Vectors]:
    """Every vector file of a recipe: those `given` by path, else those in the folder `beside`."""
    return [_read(rule, recipe, beside, given) for rule in recipe.used_vectors(with_columns)]


def identity(vectors: Sequence[Vectors]) -> dict[str, Any]:
    """What decides the result, for the options of a preparation."""
    return {"vectors": {one.rule.column: one.sha256 for one in vectors}} if vectors else {}


def check_same_file(vectors: Sequence[Vectors], before: PreparedData) -> None:
    """Ids that stay keep their vectors."""
    known = before.manifest["options"].get("vectors", {})
    for one in vectors:
        if known.get(one.rule.column) != one.sha256:
            raise DataError(
                f"{one.path} is not the file that {before.path} was prepared with: the vectors of ids that stay would be others.",
                f"Give that file: --side PATH/{one.rule.file}. Or prepare anew, without --like and --extend.",
            )


def _read(rule: VectorFile, recipe: Recipe, beside: AnyPath, given: Sequence[str]) -> Vectors:
    named = [path for path in map(as_path, given) if path.name == rule.file]
    path = named[0] if named else beside / rule.file
    if not path.is_file():
        raise DataError(
            f"{recipe.name} has vectors of {rule.column} in {rule.file}, which is not at {path}.",
            f"Put it beside the raw file, or name it: --side path/to/{rule.file}",
        )
    with open_path(path) as file:
        content = file.read()
    ids, rows = (_of_npy if path.suffix == ".npy" else _of_parquet)(rule, path, content)
    if not len(rows) or not rows.shape[1]:
        raise DataError(f"{path} holds no vectors.", "Was the copy cut short?")
    bad = np.flatnonzero(~np.isfinite(rows).all(1))
    if len(bad):
        raise DataError(
            f"{path}: {len(bad):,} vectors hold NaN or infinite numbers, the first that of {ids[int(bad[0])].as_py()!r}.",
            "Leave them out of the file: values without a vector are drawn as usual.",
        )
    kind = next(column.value_kind for column in recipe.input_columns(True) if column.name == rule.column)
    values = _as_values(ids, kind, rule, path)
    counts = pc.value_counts(values)
    often = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(often):
        raise DataError(
            f"{path} has {len(often):,} ids more than once, such as {often[0]['values'].as_py()!r}.",
            f"Keep one vector for each {rule.column}.",
        )
    return Vectors(rule, path, hashlib.sha256(content).hexdigest(), values, rows)


def _of_parquet(rule: VectorFile, path: AnyPath, content: bytes) -> tuple[pa.Array, np.ndarray]:
    try:
        file = pq.ParquetFile(pa.BufferReader(content))
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(
            f"{path} cannot be read as Parquet: {error}.", "Vectors are in a .parquet or a .npy file."
        ) from None
    absent = [name for name in (rule.id, rule.vector) if name not in file.schema_arrow.names]
    if absent:
        raise DataError(
            f"{path} has no column {', '.join(absent)}; it has {', '.join(file.schema_arrow.names)}.",
            f"Name them in the recipe: vectors: [{{column: {rule.column}, file: {rule.file}, id: NAME, vector: NAME}}]",
        )
    table = file.read(columns=[rule.id, rule.vector])
    ids, lists = (table.column(name).combine_chunks() for name in (rule.id, rule.vector))
    kind = lists.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        raise DataError(
            f"{path}: the column {rule.vector} is {kind}, and vectors are lists of numbers.", "Write it as one."
        )
    if ids.null_count or lists.null_count:
        raise DataError(f"{path} has rows without an id or without a vector.", "Leave them out of the file.")
    widths = pc.unique(pc.list_value_length(lists)).to_pylist()
    if len(widths) > 1:
        raise DataError(
            f"{path} has vectors of {', '.join(map(str, sorted(widths)[:4]))} numbers.",
            "All vectors must have one width.",
        )
    try:
        flat = pc.fill_null(pc.list_flatten(lists).cast(pa.float32()), np.float32("nan"))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(f"{path}: the column {rule.vector} is {kind}, and vectors are lists of numbers.", "") from None
    return ids, flat.to_numpy(zero_copy_only=False).reshape(len(ids), widths[0] if widths else 0)


def _of_npy(rule: VectorFile, path: AnyPath, content: bytes) -> tuple[pa.Array, np.ndarray]:
    try:
        array = np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"{path} cannot be read as an array of numpy: {error}.", "Write it with numpy.save.") from None
    if array.dtype.names is None and array.ndim == 2 and array.dtype.kind in "fiu":
        return pa.array(np.arange(len(array))), array.astype(np.float32)
    fields = array.dtype.fields or {}
    if array.ndim != 1 or not {rule.id, rule.vector} <= set(fields) or len(array[rule.vector].shape) != 2:
        raise DataError(
            f"{path} holds {array.dtype} of shape {list(array.shape)}.",
            f"Save an array with the fields {rule.id} and {rule.vector}, or one [n, width] whose row i is the vector of the value i.",
        )
    ids = array[rule.id]
    texts = [one.decode("utf-8", "replace") for one in ids.tolist()] if ids.dtype.kind == "S" else ids.tolist()
    return pa.array(texts), np.ascontiguousarray(array[rule.vector], dtype=np.float32)


def _as_values(ids: pa.Array, kind: str, rule: VectorFile, path: AnyPath) -> pa.Array:
    """Ids as the vocabulary of the column has its values."""
    if kind == "string":
        return ids.cast(pa.string())
    try:
        if kind == "int":
            return ids.cast(pa.int64()).cast(pa.string())
        numbers = ids.to_pylist() if pa.types.is_integer(ids.type) else [int(text, 16) for text in ids.to_pylist()]
        return pa.array([f"{number:08x}" for number in numbers], pa.string())
    except (pa.ArrowInvalid, ValueError, TypeError):
        raise DataError(
            f"{path}: ids are {ids.type}, and some are no values of {rule.column}, which is of kind {kind}.",
            "Write the ids as the raw file writes them.",
        ) from None


def write_vectors(done: Path, vectors: Sequence[Vectors], vocabularies: Path) -> dict[str, Any]:
    """Write rows in id order, and the directions; what the manifest says of them."""
    facts = {}
    for one in vectors:
        name, width = one.rule.column, one.rows.shape[1]
        values = pq.read_table(vocabularies / f"{name}.parquet", columns=["value"]).column("value").combine_chunks()
        place = pc.index_in(values, value_set=one.values)
        known = np.flatnonzero(place.is_valid().to_numpy(zero_copy_only=False))
        if not len(known):
            raise DataError(
                f"{one.path} has a vector for none of the {len(values):,} values of {name}; it has some for "
                f"{', '.join(map(repr, one.values[:3].to_pylist()))} ... and the values are {', '.join(map(repr, values[:3].to_pylist()))} ...",
                "Write the ids as the raw file writes them, or leave `vectors` out of the recipe.",
            )
        rows = np.full((FIRST_VALUE_ID + len(values), width), np.nan, dtype="<f4")
        rows[FIRST_VALUE_ID + known] = one.rows[place.to_numpy(zero_copy_only=False)[known].astype(np.int64)]
        folder = done / "vectors"
        folder.mkdir(exist_ok=True)
        rows.tofile(folder / f"{name}.f32")
        directions(one.rows).astype("<f4").tofile(folder / f"{name}.basis.f32")
        facts[name] = {
            "file": one.path.name,
            "sha256": one.sha256,
            "width": width,
            "values": len(values),
            "found": len(known),
            "train": one.rule.train,
        }
    return facts


def directions(rows: np.ndarray) -> np.ndarray:
    """`[V, V]`: the columns are orthonormal, the first along which the vectors are largest on average."""
    wide = rows.astype(np.float64)
    _, found = np.linalg.eigh(wide.T @ wide)
    found = found[:, ::-1]
    largest = np.abs(found).argmax(0)
    return found * np.sign(found[largest, np.arange(len(found))])

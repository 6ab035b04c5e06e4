"""Raw rows to check an export with: as a user would give them to score_row.py, and what the model says of each.

Real lines of the raw file where it still is, and rows rebuilt from the prepared arrays: an id becomes a text
that has this id, a number one that the transform makes this number. Rows are chosen so that as many different
ids as possible occur, unknown and missing ones among them, and cells that need quotes first.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from recnas.data.prepared import PreparedData
from recnas.data.raw.columns import cells_of
from recnas.data.raw.encoder import BLOCK_BYTES, RawEncoder, fitted_recipe, vocabulary_file
from recnas.data.raw.input_column import InputColumn
from recnas.data.raw.recipe import Recipe
from recnas.data.raw.sections import Clock
from recnas.data.raw.serving import whole_records
from recnas.data.raw.sources import text_blocks
from recnas.data.raw.transforms import TRANSFORMS
from recnas.data.raw.values import DERIVATIONS
from recnas.data.schema import FIRST_VALUE_ID, MISSING_ID, UNKNOWN_ID, DenseField
from recnas.serve.computed_inputs import Row, recompute

ROWS = 64  # of each kind
_LOOKED_AT = 20_000  # rows of a split, or of the raw file's first block, to choose from
_TRIED = (*range(32), *range(4_000_000_000, 4_000_000_032))  # to make up a value that no vocabulary has
_DAYS = 366 * 3  # in which every day of the month has been every weekday
_TIMES = [f"0001{day:02d}{hour:02d}" for day, hour in product(range(3, 10), range(24))]  # a week from a Monday


@dataclass(frozen=True)
class RawRows:
    """Lines for score_row.py and the inputs they must become."""

    lines: list[str]
    dense: np.ndarray  # [n, I] float32
    ids: np.ndarray  # [n, F] int64


def real_rows(data: PreparedData) -> RawRows | None:
    """Lines of the first raw file, if it is still as it was and a line alone is a row."""
    recipe, inputs = fitted_recipe(data)
    source = data.manifest["sources"][0]
    if "modified_ns" not in source:
        return None  # a remote file
    path = Path(source["path"])
    try:
        stat = path.stat()
    except OSError:
        return None
    if (stat.st_size, stat.st_mtime_ns) != (source["size"], source["modified_ns"]):
        return None
    if recipe.format != "text" or recipe.beside_lines(inputs):
        return None
    encoder = RawEncoder(data, [path])
    text = next(text_blocks(encoder.sources[0], BLOCK_BYTES, recipe.line_breaks)).decode("utf-8", "surrogateescape")
    lines = (whole_records(text.split("\n")) if recipe.line_breaks else text.split("\n"))[recipe.header :]
    block = next(encoder.blocks(), None)
    if block is None or not len(block.line) or block.lines > len(lines):
        return None
    ids = block.ids[:_LOOKED_AT]
    first = [i for i, number in enumerate(block.line[:_LOOKED_AT].tolist()) if '"' in lines[number]]
    chosen = _varied(ids, first)
    return RawRows([lines[number] for number in block.line[chosen].tolist()], block.dense[chosen], ids[chosen])


def rebuilt_rows(data: PreparedData) -> tuple[RawRows, RawRows | None]:
    """Rows of the prepared data as JSON objects; and as lines of text, where a line alone is a row."""
    recipe, inputs = fitted_recipe(data)
    split = next(name for name in ("valid", "test", "train") if data.rows(name))
    step = max(1, data.rows(split) // _LOOKED_AT)
    dense = np.asarray(data.array(split, "dense")[::step][:_LOOKED_AT])
    ids = np.asarray(data.array(split, "ids")[::step][:_LOOKED_AT]).astype(np.int64)
    chosen = _varied(ids, [])
    texts = _texts(data, [column for column in inputs if not column.is_dense], ids[chosen])
    rows, kept = [], []
    for number in chosen:
        cells = _cells(data, inputs, texts, dense[number], ids[number], recipe.format == "parquet")
        if cells is not None:
            rows.append(cells)
            kept.append(number)
    dense, ids = dense[kept], ids[kept]
    recompute(data.schema, inputs, rows, dense, ids)
    objects = RawRows([json.dumps(row, ensure_ascii=False) for row in rows], dense, ids)
    if recipe.format != "text" or recipe.beside_lines(inputs):
        return objects, None
    fit = [i for i, row in enumerate(rows) if not any(set("\r\n") & set(cell or "") for cell in row.values())]
    columns = data.manifest["columns"]
    # Every second one without its label and weight, as a server has it.
    lines = [_line(recipe, columns, rows[i], labelled=i % 2 == 0) for i in fit]
    return objects, RawRows(lines, dense[fit], ids[fit])


def header_line(data: PreparedData) -> str:
    recipe, _ = fitted_recipe(data)
    return _joined(recipe, data.manifest["columns"])


def _varied(ids: np.ndarray, first: Iterable[int]) -> list[int]:
    """Up to ROWS row numbers: those of `first`, then those that bring ids not seen before."""
    chosen = list(first)[: ROWS // 2]
    seen = {(column, int(i)) for row in chosen for column, i in enumerate(ids[row])}
    others = []
    for row in range(len(ids)):
        if len(chosen) >= ROWS:
            break
        new = {(column, int(i)) for column, i in enumerate(ids[row])} - seen
        if row in chosen:
            continue
        if new:
            chosen.append(row)
            seen |= new
        else:
            others.append(row)
    return sorted(chosen + others[: ROWS - len(chosen)])


Texts = dict[str, dict[int, str | None]]  # column -> id -> a text that has this id; None: no cell


def _texts(data: PreparedData, sparse: list[InputColumn], ids: np.ndarray) -> Texts:
    """Texts of the ids that occur. A column's vocabulary is read once."""
    found: Texts = {}
    for column in sparse:
        if not column.has_vocabulary:
            continue
        # Of all columns that share them.
        places = [p for n, c in enumerate(sparse) if c.table == column.name for p in data.schema.id_columns(n)]
        values = pq.read_table(vocabulary_file(data, column.name), columns=["value"]).column("value")
        wanted = sorted({int(i) for i in ids[:, places].ravel()} - {UNKNOWN_ID, MISSING_ID})
        texts: dict[int, str | None] = {i: values[i - FIRST_VALUE_ID].as_py() for i in wanted}
        texts[MISSING_ID] = None
        sharing = [one for one in sparse if one.table == column.name]
        tried = [_made_up(column, n, sharing) for n in _TRIED]
        tried = [text for text in tried if not any(text in one.missing for one in sharing)]
        unknown = pc.filter(pa.array(tried), pc.invert(pc.is_in(pa.array(tried), value_set=values)))
        if len(unknown):
            texts[UNKNOWN_ID] = unknown[0].as_py()
        found[column.name] = texts
    return found


def _made_up(column: InputColumn, number: int, sharing: Iterable[InputColumn] = ()) -> str:
    if column.derivation is not None:
        return str(number)  # an hour or a weekday that training did not have
    if column.kind != "string":
        return f"{number:08x}" if column.kind == "hex" else str(number)
    text = f"never seen {number}"
    for one in (column, *sharing):
        if one.several is not None:
            text = text.replace(one.several.separator, "")
    return text


def _cells(
    data: PreparedData, inputs: list[InputColumn], texts: Texts, dense: np.ndarray, ids: np.ndarray, parquet: bool
) -> Row | None:
    """Raw cells of an encoded row, or None if no raw row gives it any more."""
    row: Row = {}
    times: dict[tuple[str, Clock | None], dict[str, str | None]] = {}  # source -> derivation -> what it must give
    numbers = dict(zip((field.name for field in data.schema.dense), zip(data.schema.dense, dense.tolist())))
    sparse = [column for column in inputs if not column.is_dense]
    for column in inputs:
        if column.is_dense and column.transform != "indicator":
            row[column.source] = _number(*numbers[column.name])
    by_name = {column.name: column for column in sparse}
    for place, column in enumerate(sparse):
        own = ids[data.schema.id_columns(place)]
        if column.several is not None:
            values = _values_of(column, by_name[column.table], texts, own[own != MISSING_ID].tolist())
            if values is None:
                return None
            joined = column.several.separator.join(values)
            row[column.source] = values if parquet else joined
            continue
        i = int(own[0])
        if column.kind == "bucket":
            continue
        if column.hash is not None:  # what a value was cannot be told from its hash
            row[column.source] = None if i == MISSING_ID else _made_up(column, i) + (column.suffix or "")
            continue
        if i not in texts[column.name]:
            return None
        text = texts[column.name][i]
        if column.derivation is not None:
            times.setdefault((column.source, column.clock), {})[column.derivation] = text
        else:
            suffix = column.suffix or ""
            row[column.name if column.join else column.source] = None if text is None else text + suffix
    for (source, clock), wanted in times.items():
        if all(text is None for text in wanted.values()):
            row[source] = None
            continue
        row[source] = _time_of(clock, wanted)
        if row[source] is None:
            return None
    return row


def _values_of(column: InputColumn, owner: InputColumn, texts: Texts, ids: list[int]) -> list[str] | None:
    """Texts of the values of a bag, or None if one of the ids has none."""
    if owner.hash is not None:
        return [_made_up(column, i) for i in ids]
    found = [texts[owner.name].get(i) for i in ids]
    return None if None in found else [text for text in found if text is not None]


def _time_of(clock: Clock | None, wanted: dict[str, str | None]) -> str | None:
    """A cell that gives every derived value, or None if there is none."""
    if clock is None:
        fits = (time for time in _TIMES if all(DERIVATIONS[how](time) == text for how, text in wanted.items()))
        return next(fits, None)
    hour = int(wanted.get("hour") or 0)
    for day in range(_DAYS) if hour < 24 else ():
        seconds = day * 86_400 + hour * 3600 + 1_700_006_400  # from a midnight on
        if all(DERIVATIONS[how](str(seconds)) == text for how, text in wanted.items()):
            if clock.format == "iso":
                return (datetime(1970, 1, 1) + timedelta(seconds=seconds)).isoformat()
            return str((seconds - clock.offset) * (1000 if clock.format == "epoch-milliseconds" else 1))
    return None


def _number(field: DenseField, value: float) -> str | None:
    """A raw number that becomes `value`, or None for a missing cell."""
    if value == np.float32(field.fill):
        return None
    if fitted := TRANSFORMS[field.transform].fitted:
        return repr(fitted.undo(value, list(field.edges)))
    if field.standardised:
        value = value * (field.std or 1.0) + field.mean
    return repr(TRANSFORMS[field.transform].undo(value))


def _line(recipe: Recipe, columns: list[str], row: Row, labelled: bool) -> str:
    labels = [label.column for label in recipe.every_label]
    unread = [*labels, *([recipe.weight.column] if recipe.weight is not None else [])]
    cells = [row.get(name) or "" for name in columns if labelled or name not in unread or name in row]
    line = _joined(recipe, cells)
    assert len(cells_of(line, recipe)) == len(cells)
    return line


def _joined(recipe: Recipe, cells: list[Any]) -> str:
    if not recipe.quote:
        return recipe.separator.join(cells)
    out = io.StringIO()
    csv.writer(out, delimiter=recipe.separator, lineterminator="").writerow(cells)
    return out.getvalue()

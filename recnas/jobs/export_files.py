"""What lies beside an exported program, so that a raw row can be scored without recnas.

    model.json          how raw columns become inputs, and where the model comes from
    vocab/COLUMN.json   the values of a sparse column as a list of texts: value number i has the id i + 2
    score_row.py        an example that scores one raw row with these files (`export_example`)

A cell is looked up in its vocabulary as text, written in one way whatever way the cell is:

    hex      lower case, at least 8 digits: `1F` is `0000001f`
    int      decimal without leading zeros, as a signed 64-bit number: 2^64 - 1 is `-1`
    string   the cell itself
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from recnas.data.prepared import PreparedData
from recnas.data.recipes import InputColumn, Recipe
from recnas.data.schema import FIRST_VALUE_ID, MISSING_ID, UNKNOWN_ID
from recnas.jobs.predict_rows import vocabulary_file
from recnas.jobs.trained import TrainedModel

FORMAT = "recnas-export/1"
_VALUES_AT_A_TIME = 1 << 16


def describe(
    model: TrainedModel, recipe: Recipe, inputs: list[InputColumn], program: Path, check: dict[str, Any]
) -> dict[str, Any]:
    """The content of model.json."""
    return {
        "format": FORMAT,
        "program": {
            "file": program.name,
            "inputs": {
                "dense": {"type": "float32", "shape": ["batch", model.schema.n_dense]},
                "ids": {"type": "int64", "shape": ["batch", model.schema.n_sparse]},
            },
            "output": {"probability": {"type": "float32", "shape": ["batch"]}},
            "check": check,
        },
        "raw": {
            "recipe": recipe.name,
            "format": recipe.format,
            "separator": recipe.separator,
            "quote": recipe.quote,
            "header": recipe.header,
            "columns": list(recipe.columns),
            "label": recipe.label.column,
        },
        "dense": [_dense(model, i, column) for i, column in enumerate(c for c in inputs if c.is_dense)],
        "sparse": [_sparse(model, i, column) for i, column in enumerate(c for c in inputs if not c.is_dense)],
        "ids": {"unknown": UNKNOWN_ID, "missing": MISSING_ID, "first_value": FIRST_VALUE_ID},
        "fold": _fold(model),
        "model": {
            "architecture": model.key,
            "described": model.described,
            "seed": model.seed,
            "data": model.fingerprint,
            "metrics": model.metrics,
        },
    }


def _dense(model: TrainedModel, place: int, column: InputColumn) -> dict[str, Any]:
    field = model.schema.dense[place]
    return {
        "name": column.name,
        "source": column.source,
        "transform": column.transform,  # log1p: log(1 + max(x, 0)); log-squared: floor(log(x)^2) above 2
        "fill": column.fill,  # for a missing cell, after the transform
        "missing": [float(text) for text in column.missing],
        # Of the training rows after the transform, to notice drift; the model is given the plain values.
        "statistics": {"mean": field.mean, "std": field.std, "applied": False},
    }


def _sparse(model: TrainedModel, place: int, column: InputColumn) -> dict[str, Any]:
    field = model.schema.sparse[place]
    return {
        "name": column.name,
        # A joined column is looked up by whoever serves, and given under its own name.
        "source": column.name if column.join else column.source,
        "join": {"file": column.join, "key": column.source, "column": column.join_column + 1}
        if column.join
        else None,
        "kind": column.kind,
        "suffix": column.suffix,
        "missing": [] if column.join else [plain_text(text, column.kind) for text in column.missing],
        "derive": column.derivation,
        "vocabulary": f"vocab/{column.name}.json",
        "ids": field.rows,
        "table_rows": model.tables.row_map.rows[place],
    }


def _fold(model: TrainedModel) -> dict[str, Any]:
    """What the program itself does with ids beyond a table's rows; nobody else has to."""
    tables = model.settings.embeddings
    if tables.cap is not None:
        return {"rule": "cap", "rows": tables.cap, "ids_beyond": "become the unknown id"}
    if tables.hash_rows is not None:
        beyond = "become 2 + (id - 2) mod (table_rows - 2)"
        return {"rule": "hash", "rows": tables.hash_rows, "ids_beyond": beyond}
    return {"rule": "none", "rows": None, "ids_beyond": "become the unknown id"}


def plain_text(cell: str, kind: str) -> str:
    """A cell as its vocabulary writes it; see the module's text."""
    if kind == "hex":
        return f"{int(cell, 16):08x}"
    if kind == "int":
        return str((int(cell) + 2**63) % 2**64 - 2**63)
    return cell


def write_vocabularies(data: PreparedData, inputs: list[InputColumn], folder: Path) -> None:
    """A value at a time: a column may have tens of millions."""
    (folder / "vocab").mkdir()
    for column in inputs:
        if column.is_dense:
            continue
        source = pq.ParquetFile(vocabulary_file(data, column.name))
        with open(folder / "vocab" / f"{column.name}.json", "w", encoding="utf-8") as out:
            separator = "["
            for batch in source.iter_batches(_VALUES_AT_A_TIME, columns=["value"]):
                for value in batch.column("value").to_pylist():
                    out.write(separator + json.dumps(value, ensure_ascii=False))
                    separator = ",\n"
            out.write("[]\n" if separator == "[" else "]\n")

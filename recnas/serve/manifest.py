"""What lies beside an exported program, so that a raw row can be scored without recnas.

model.json          how raw columns become inputs, and where the model comes from
vocab/COLUMN.json   the values of a sparse column as a list of texts: value number i has the id i + 2
rows.py, values.py, transforms.py  how a raw row becomes inputs by these files: copies of `serving.py` and the others of `recnas/data/raw`
score_row.py        a program that scores raw rows: a copy of `recnas.serve.score_row`
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from recnas.data.prepared import PreparedData
from recnas.data.raw import serving, transforms, values
from recnas.data.raw.encoder import fitted_recipe, vocabulary_file
from recnas.data.raw.input_column import InputColumn
from recnas.data.schema import FIRST_VALUE_ID, MISSING_ID, UNKNOWN_ID, DenseField, SparseField
from recnas.files import sha256_file, write_json
from recnas.runs.checks import with_check
from recnas.serve.exported import FORMAT, MODEL
from recnas.serve.load import TrainedModel

_README = """# A trained click model, exported by recnas

Score raw rows: `python score_row.py < rows`. It needs torch for `model.pt2`, onnxruntime for `model.onnx`, and not recnas.
`model.json` says how a raw column becomes an input, `rows.py`, `values.py` and `transforms.py` do it, `vocab/` has the values of each column in id order.

**Loading `model.pt2` can run code that whoever made it put there**, as with every file of `torch.export`. Load it only if you
know where it comes from. `model.onnx` is data: take ONNX (`recnas export --to onnx`) between teams that do not know each
other. `score_row.py`, `rows.py`, `values.py` and `transforms.py` are programs; read them before you run those of a stranger.

`model.json` has the SHA-256 of every file here, and `score_row.py` compares them before it loads anything: that finds damage
and mistakes, not a forger, who would change the checksums too. `recnas verify DIR --key PUBLIC_KEY` finds one, if
whoever made the folder signed it: `recnas sign DIR --key PRIVATE_KEY`.
"""
_SCORE_ROW = Path(__file__).with_name("score_row.py")
_VALUES_AT_A_TIME = 1 << 16


def describe(
    model: TrainedModel, data: PreparedData, program: Path, check: dict[str, Any], int8: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The content of model.json; `int8` is what its tables of 8-bit numbers cost, if it has such."""
    inputs = describe_inputs(data)
    for column, rows in zip(inputs["sparse"], model.tables.row_map.field_rows):
        column["table_rows"] = rows
    return {
        "format": FORMAT,
        "program": {
            "file": program.name,
            "inputs": {
                "dense": {"type": "float32", "shape": ["batch", model.schema.n_dense]},
                "ids": {"type": "int64", "shape": ["batch", model.schema.n_ids]},
            },
            "output": _output(model),
            "check": check,
            **({} if int8 is None else {"int8": int8}),
        },
        **inputs,
        "fold": _fold(model),
        "model": {
            "architecture": model.key,
            "described": model.described,
            "seed": model.seed,
            "data": model.fingerprint,
            "metrics": model.metrics,
        },
    }


def _output(model: TrainedModel) -> dict[str, Any]:
    """One probability per row, or one per label in this order."""
    names = [label.name for label in model.schema.labels]
    shape = ["batch", len(names)] if names else ["batch"]
    return {"probability": {"type": "float32", "shape": shape, **({"labels": names} if names else {})}}


def describe_inputs(data: PreparedData) -> dict[str, Any]:
    """How raw rows become inputs: what `serving.RowReader` goes by."""
    recipe, inputs = fitted_recipe(data)
    dense = [column for column in inputs if column.is_dense]
    sparse = [column for column in inputs if not column.is_dense]
    return {
        "raw": {
            "recipe": recipe.name,
            "format": recipe.format,
            "separator": recipe.separator,
            "quote": recipe.quote,
            "header": recipe.header,
            "columns": data.manifest["columns"],
            "label": recipe.label.column,
            **({"labels": [label.column for label in recipe.labels]} if recipe.labels else {}),
            **({"line_breaks": True} if recipe.line_breaks else {}),
            **({"beside": list(recipe.beside)} if recipe.beside else {}),
            **({"weight": recipe.weight.column} if recipe.weight is not None else {}),  # which no model reads
        },
        "dense": [_dense(column, field) for column, field in zip(dense, data.schema.dense)],
        "sparse": [
            _sparse(column, field, next(one for one in sparse if one.name == column.table))
            for column, field in zip(sparse, data.schema.sparse)
        ],
        "ids": {"unknown": UNKNOWN_ID, "missing": MISSING_ID, "first_value": FIRST_VALUE_ID},
    }


def _dense(column: InputColumn, field: DenseField) -> dict[str, Any]:
    return {
        "name": column.name,
        "source": column.source,
        "transform": column.transform,  # the formulas are in rows.py
        "fill": column.fill,  # for a missing cell, after the transform and the standardising
        "missing": list(column.missing),
        # Of the training rows after the transform; applied: the model is given (x - mean) / std.
        "statistics": {"mean": field.mean, "std": field.std, "applied": field.standardised},
        **({"edges": list(field.edges)} if column.has_edges else {}),
    }


def _sparse(column: InputColumn, field: SparseField, owner: InputColumn) -> dict[str, Any]:
    """`owner`: the column whose ids its values have, mostly itself."""
    return {
        "name": column.name,
        # A joined column is looked up by whoever serves, and given under its own name.
        "source": column.name if column.join else column.source,
        "join": {"file": column.join, "key": column.source, "column": column.join_column + 1} if column.join else None,
        "kind": column.kind,
        "suffix": column.suffix,
        "missing": list(column.missing),
        "derive": column.derivation,
        **({} if column.clock is None else {"time": column.clock.model_dump()}),
        # Hashes and buckets need none.
        "vocabulary": f"vocab/{owner.name}.json" if owner.has_vocabulary else None,
        **({"edges": list(field.edges)} if column.has_edges else {}),
        **({} if owner.hash is None else {"hash": _hash(owner)}),
        **({} if column.several is None else {"several": _several(column)}),
        "ids": field.rows,
    }


def _hash(column: InputColumn) -> dict[str, Any]:
    return {"rows": column.hash, "seed": column.hash_seed, "number": column.hash_number}


def _several(column: InputColumn) -> dict[str, Any]:
    """How a cell is cut; its ids are the next `length` of a row."""
    rule = column.several
    assert rule is not None
    return {"separator": rule.separator, "length": rule.max_values, "keep": rule.keep, "pool": rule.pool}


def _fold(model: TrainedModel) -> dict[str, Any]:
    """What the program itself does with ids beyond a table's rows; nobody else has to."""
    tables = model.settings.embeddings
    if tables.cap is not None:
        return {"rule": "cap", "rows": tables.cap, "ids_beyond": "become the unknown id"}
    if tables.hash_rows is not None:
        beyond = "become 2 + (id - 2) mod (table_rows - 2)"
        return {"rule": "hash", "rows": tables.hash_rows, "ids_beyond": beyond}
    return {"rule": "none", "rows": None, "ids_beyond": "become the unknown id"}


def write_description(folder: Path, about: dict[str, Any]) -> None:
    """model.json, last of all: with the checksums of every other file, and of itself."""
    names = sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
    files = {name: sha256_file(folder / name) for name in names if name != MODEL}
    write_json(folder / MODEL, with_check({**about, "files": files}))


def write_programs(folder: Path) -> None:
    """The programs, as they are: nothing of a recipe is ever put into code."""
    rows = Path(serving.__file__).read_text(encoding="utf-8")
    for module, name in ((values, "values"), (transforms, "transforms")):
        rows = rows.replace(f"from {module.__name__} import", f"from {name} import")
        (folder / f"{name}.py").write_bytes(Path(str(module.__file__)).read_bytes())
    (folder / "rows.py").write_text(rows, encoding="utf-8")
    (folder / "score_row.py").write_bytes(_SCORE_ROW.read_bytes())
    (folder / "README.md").write_text(_README, encoding="utf-8")


def write_vocabularies(data: PreparedData, folder: Path) -> None:
    """A value at a time: a column may have tens of millions."""
    (folder / "vocab").mkdir(parents=True)
    _, inputs = fitted_recipe(data)
    for column in inputs:
        if not column.has_vocabulary:
            continue
        source = pq.ParquetFile(vocabulary_file(data, column.name))
        with open(folder / "vocab" / f"{column.name}.json", "w", encoding="utf-8") as out:
            separator = "["
            for batch in source.iter_batches(_VALUES_AT_A_TIME, columns=["value"]):
                for value in batch.column("value").to_pylist():
                    out.write(separator + json.dumps(value, ensure_ascii=False))
                    separator = ",\n"
            out.write("[]\n" if separator == "[" else "]\n")

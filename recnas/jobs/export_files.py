"""What lies beside an exported program, so that a raw row can be scored without recnas.

    model.json          how raw columns become inputs, and where the model comes from
    vocab/COLUMN.json   the values of a sparse column as a list of texts: value number i has the id i + 2
    score_row.py        an example that scores one raw row with these files

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
from recnas.space.nasrec_json import to_dict

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
            "architecture": model.arch.key,
            "arch": to_dict(model.arch),
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
        return {"rule": "hash", "rows": tables.hash_rows, "ids_beyond": "become 2 + (id - 2) mod (table_rows - 2)"}
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


def write_example(program: Path, folder: Path) -> None:
    parts = _TORCH if program.suffix == ".pt2" else _ONNX
    text = _EXAMPLE
    for name, part in parts.items():
        text = text.replace(f"#{name}#", part)
    (folder / "score_row.py").write_text(text, encoding="utf-8")


_TORCH = {
    "needs": "torch",
    "import": "import torch",
    "score": """program = torch.export.load(HERE / model["program"]["file"]).module()
print(float(program(torch.tensor([dense], dtype=torch.float32), torch.tensor([ids]))[0]))""",
}

_ONNX = {
    "needs": "onnxruntime",
    "import": "import numpy as np\nimport onnxruntime",
    "score": """session = onnxruntime.InferenceSession(str(HERE / model["program"]["file"]))
given = {"dense": np.array([dense], np.float32), "ids": np.array([ids], np.int64)}
given = {wanted.name: given[wanted.name] for wanted in session.get_inputs()}
print(float(session.run(["probability"], given)[0][0]))""",
}

_EXAMPLE = '''"""Click probability of one raw row, with nothing but #needs# and the files beside this one.

    python score_row.py < row      # a line of the raw file, or a JSON object {column: cell}

A server does the same: read model.json and the vocabularies once, then one row or batch after the other.
"""

import json
import math
import sys
from datetime import date
from pathlib import Path

#import#

HERE = Path(__file__).resolve().parent
model = json.loads((HERE / "model.json").read_text(encoding="utf-8"))
TRANSFORMS = {
    "none": lambda x: x,
    "log1p": lambda x: math.log1p(max(x, 0.0)),
    "log-squared": lambda x: float(math.floor(math.log(x) ** 2)) if x > 2 else x,
}
PLAIN = {
    "hex": lambda cell: f"{int(cell, 16):08x}",
    "int": lambda cell: str((int(cell) + 2**63) % 2**64 - 2**63),
    "string": lambda cell: cell,
}
DERIVED = {  # of a time YYMMDDHH
    "yymmddhh-hour": lambda t: str(int(t) % 100),
    "yymmddhh-weekday": lambda t: str(date(2000 + int(t[-8:-6] or 0), int(t[-6:-4]), int(t[-4:-2])).weekday()),
}


def number(column, cell):
    if cell == "" or float(cell) in column["missing"]:
        return column["fill"]
    return TRANSFORMS[column["transform"]](float(cell))


def identity(column, cell):
    cell = cell.removesuffix(column["suffix"] or "")
    if cell == "" or (value := PLAIN[column["kind"]](cell)) in column["missing"]:
        return model["ids"]["missing"]
    if column["derive"]:
        value = DERIVED[column["derive"]](value)
    values = json.loads((HERE / column["vocabulary"]).read_text(encoding="utf-8"))
    return values.index(value) + model["ids"]["first_value"] if value in values else model["ids"]["unknown"]


line = sys.stdin.readline().rstrip("\\r\\n")
row = json.loads(line) if line.startswith("{") else dict(zip(model["raw"]["columns"], line.split(model["raw"]["separator"])))
dense = [number(column, str(row.get(column["source"]) or "")) for column in model["dense"]]
ids = [identity(column, str(row.get(column["source"]) or "")) for column in model["sparse"]]
#score#
'''

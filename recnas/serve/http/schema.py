"""What a row must have, as `GET /schema` says it, with rows that can be sent."""

from __future__ import annotations

from typing import Any

from recnas.data.raw.serving import RowReader
from recnas.serve.http.served import EXAMPLES

_TIMES = {"iso": "2026-01-0{}T12:00:00Z", "epoch-seconds": "176725440{}", "epoch-milliseconds": "176725440{}000"}


def schema_of(reader: RowReader, values: dict[str, list[str]]) -> dict[str, Any]:
    """Args:
    values: by sparse column, some values of its vocabulary.
    """
    raw = reader.raw
    ignored = [name for name in (*raw["columns"], *raw.get("labels", [raw["label"]])) if name not in reader.sources]
    return {
        "columns": [_column(reader, source) for source in reader.sources],
        "ignored": list(dict.fromkeys(ignored)),
        "missing": "null and an empty text are missing cells in every column; an absent column is an error",
        "examples": [_example(reader, values, number) for number in range(EXAMPLES)],
    }


def _column(reader: RowReader, source: str) -> dict[str, Any]:
    of = [column for column in reader.inputs if column["source"] == source]
    kinds = sorted({column.get("kind", "number").replace("bucket", "number") for column in of})
    missing = sorted({text for column in of for text in column["missing"]})
    return {"name": source, "kinds": kinds, "missing": missing, "inputs": [column["name"] for column in of]}


def _example(reader: RowReader, values: dict[str, list[str]], number: int) -> dict[str, str | None]:
    row: dict[str, str | None] = {}
    for column in reader.inputs:
        if column["source"] not in row:
            row[column["source"]] = _cell(column, values.get(column["name"], []), number)
    try:
        reader.from_object(row)
    except ValueError:  # two inputs of one column that want different cells: a missing one suits both
        return dict.fromkeys(row)
    return row


def _cell(column: dict[str, Any], values: list[str], number: int) -> str | None:
    kind = column.get("kind", "number")
    if kind == "time":
        return _TIMES[column["time"]["format"]].format(number + 1)
    if column.get("derive"):
        return f"2601010{number}"
    if kind in ("number", "bucket"):
        return str(number)
    text = values[number % len(values)] if values else f"{number:08x}" if kind == "hex" else str(number)
    return text + (column.get("suffix") or "")

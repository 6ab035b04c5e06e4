"""The body of a request as rows, and what is said about those that cannot be read."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from recnas.data.raw.serving import Inputs, RowError
from recnas.serve.http.served import Served

SHOWN = 10  # rows with faults that one answer names


@dataclass(frozen=True)
class Answer:
    status: int
    content: dict[str, Any]


@dataclass(frozen=True)
class Twice:
    """In place of a JSON object that names a field twice."""

    name: str


def answer(served: Served, body: bytes, most_rows: int) -> Answer:
    """Probabilities of the rows in `body`, or why there are none: of all rows or of none."""
    try:
        given = json.loads(body.decode("utf-8"), object_pairs_hook=_object, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        return Answer(400, {"error": f"The body is not JSON in UTF-8: {_first_line(error)}"})
    alone = not isinstance(given, list)
    rows = [given] if alone else given
    if len(rows) > most_rows:
        return Answer(413, {"error": f"{len(rows):,} rows; one request may have {most_rows:,}", "most_rows": most_rows})
    inputs: list[Inputs] = []
    faults: list[dict[str, Any]] = []
    for number, row in enumerate(rows):
        try:
            inputs.append(_read(served, row))
        except RowError as error:
            faults.append({"row": number, "fields": list(error.columns), "reason": str(error)})
            if len(faults) == SHOWN:
                break
    found = [] if faults else served.probabilities(inputs)
    for number, probabilities in enumerate(found):
        if not all(map(math.isfinite, probabilities)) and len(faults) < SHOWN:
            reason = "the model gives no probability for it: its numbers are too far from those of training"
            faults.append({"row": number, "fields": [], "reason": reason})
    if faults:
        more = "at least " if len(faults) == SHOWN else ""
        return Answer(422, {"error": f"{more}{len(faults)} of {len(rows):,} rows cannot be read", "rows": faults})
    said = [dict(zip(served.labels, each)) if served.labels else each[0] for each in found]
    return Answer(200, {"probability": said[0]} if alone else {"probabilities": said})


def _read(served: Served, row: Any) -> Inputs:
    if isinstance(row, Twice):
        raise RowError(f"the field {row.name!r} stands there twice", [row.name])
    if not isinstance(row, dict):
        raise RowError("not a JSON object {column: cell}")
    try:
        return served.reader.from_object(row)
    except RecursionError:  # where a cell is a list of lists of lists, and is to be named
        raise RowError("a cell is nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | Twice:
    """Python would keep the last of two cells, and nobody would know."""
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    names = [name for name, _ in pairs]
    return Twice(next(name for name in names if names.count(name) > 1))


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _first_line(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error).splitlines()[0][:200]

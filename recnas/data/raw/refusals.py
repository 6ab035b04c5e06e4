"""What `prepare` says about rows it cannot use."""

from __future__ import annotations

import json

from recnas.data.raw.labels import label_hint
from recnas.data.raw.lines import BadLine
from recnas.data.raw.parse import NOT_A_NUMBER, NOT_A_TIME, NOT_AN_INTEGER, not_a_time
from recnas.data.raw.recipe import Recipe
from recnas.data.raw.sources import Source
from recnas.data.raw.weights import FAULTS
from recnas.errors import DataError

_SHOWN = 80  # characters
_FEW_WORDS = 5  # different cells that are no numbers: more of them are not words for "missing"

_TIME_HINTS = {
    "epoch-seconds": "are seconds since 1970, from 1900 to 2199; numbers of 13 digits are epoch-milliseconds",
    "epoch-milliseconds": "are milliseconds since 1970, of 12 digits or more; numbers of 10 digits are epoch-seconds",
    "iso": "look like 2024-03-01, 2024-03-01 17:05:00 or 2024-03-01T17:05:00.250+01:00",
}


def no_rows(source: Source) -> DataError:
    return DataError(f"{source.path} has no rows.", "Was the download or copy cut short? Fetch it again.")


def bad_line(recipe: Recipe, source: Source, lines_before: int, faults: list[BadLine]) -> DataError:
    """The first of a block's `faults`; the others tell which labels are not understood."""
    fault = faults[0]
    number = lines_before + fault.line + 1 + (1 if recipe.header and recipe.format == "text" else 0)
    place = f"{'row' if recipe.format == 'parquet' or recipe.line_breaks else 'line'} {number:,}"
    column = f", column {fault.column}" if fault.column else ""
    skip = "leave such rows out (they are listed in rejects.tsv and counted): --on-error skip"
    hint = _hint(recipe, faults)
    return DataError(
        f"{source.path} {place}{column}: {fault.reason} ({_shown(fault)}).",
        f"{hint}\n     Or {skip}" if hint else f"Correct the file, or {skip}",
    )


def all_rejected(recipe: Recipe, rows: int, faults: list[BadLine]) -> DataError:
    return DataError(
        f"All {rows:,} rows were rejected; the first because: {faults[0].reason} ({_shown(faults[0])}).",
        _hint(recipe, faults) or f"Is this a {recipe.name} file? List recipes with: recnas datasets",
    )


def two_kinds_of_no(label: str) -> DataError:
    return DataError(
        f"The label {label} is 0 in some rows and -1 in others: does one of them mean unknown?",
        f"If both mean no click, say so in the recipe: label: {{column: {label}, at_least: 1}}",
    )


def no_weight(recipe: Recipe, split: str) -> DataError:
    assert recipe.weight is not None
    return DataError(
        f"All rows of the {split} split have weight 0 in column {recipe.weight.column}, so nothing can be said about them.",
        "Give rows with weights, choose another --protocol, or leave `weight` out of the recipe to count all rows alike.",
    )


def _hint(recipe: Recipe, faults: list[BadLine]) -> str | None:
    """What to change in the recipe, if that may be at fault and not the file."""
    first = faults[0]
    texts = list(
        dict.fromkeys(fault.text for fault in faults if (fault.column, fault.reason) == (first.column, first.reason))
    )
    for label in recipe.every_label:
        if (first.column, first.reason) == (label.column, label.fault):
            return label_hint(label, texts)
    if first.reason in FAULTS:
        return (
            "Weights are finite numbers from 0 on; a row that should not count has weight 0.\n"
            "     Or leave `weight` out of the recipe to count all rows alike."
        )
    if first.reason == NOT_A_TIME:
        if recipe.time is None or recipe.time.column != first.column:
            return None
        return (
            "Times are integers YYMMDDHH, such as 24030117. For others, say which, and on which clock days begin:\n"
            f"     time: {{column: {first.column}, format: epoch-seconds, zone: '+00:00'}}   (or epoch-milliseconds, iso)\n"
            "     Or, if the file is in time order: time: {days: 10}\n     Or do without time: protocol: random-8-1-1"
        )
    for form, others in _TIME_HINTS.items():
        if first.reason == not_a_time(form):
            return f"Times of the format {form} {others}. The format stands in the recipe, under `time` or in the group of {first.column}."
    if first.reason in (NOT_A_NUMBER, NOT_AN_INTEGER):
        if len(texts) > _FEW_WORDS:
            kind = "under sparse" if first.reason == NOT_A_NUMBER else "to a group of kind: string"
            return f"If {first.column} holds words, move it {kind} in the recipe; see docs/recipes.md."
        words = ", ".join(json.dumps(text, ensure_ascii=False) for text in texts)
        return f"If this means a missing cell, say so in the group of {first.column} in the recipe: missing: [{words}]"
    return None


def _shown(fault: BadLine) -> str:
    return repr(fault.text if len(fault.text) <= _SHOWN else fault.text[: _SHOWN - 3] + "...")

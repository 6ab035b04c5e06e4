"""What `prepare` says about rows it cannot use."""

from __future__ import annotations

from recnas.data.labels import label_hint
from recnas.data.lines import BadLine
from recnas.data.recipes import Recipe
from recnas.data.sources import Source
from recnas.errors import DataError

_SHOWN = 80  # characters


def no_rows(source: Source) -> DataError:
    return DataError(f"{source.path} has no rows.", "Was the download or copy cut short? Fetch it again.")


def bad_line(recipe: Recipe, source: Source, lines_before: int, faults: list[BadLine]) -> DataError:
    """The first of a block's `faults`; the others tell which labels there are."""
    fault = faults[0]
    number = lines_before + fault.line + 1 + (1 if recipe.header and recipe.format == "text" else 0)
    place = f"{'row' if recipe.format == 'parquet' else 'line'} {number:,}"
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


def two_kinds_of_no(recipe: Recipe) -> DataError:
    label = recipe.label.column
    return DataError(
        f"The label {label} is 0 in some rows and -1 in others: does one of them mean unknown?",
        f"If both mean no click, say so in the recipe: label: {{column: {label}, at_least: 1}}",
    )


def _hint(recipe: Recipe, faults: list[BadLine]) -> str | None:
    reason = faults[0].reason
    if reason != recipe.label.fault:
        return None
    return label_hint(recipe.label, [fault.text for fault in faults if fault.reason == reason])


def _shown(fault: BadLine) -> str:
    return repr(fault.text if len(fault.text) <= _SHOWN else fault.text[: _SHOWN - 3] + "...")

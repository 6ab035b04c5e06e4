"""Which columns a text file has, from its first line; and what to say if it is a file of another kind."""

from __future__ import annotations

from recnas.data.raw.labels import LABEL_WORDS
from recnas.data.raw.recipe import Recipe, load_recipe, shipped_recipes
from recnas.data.raw.serving import RowError, split_line
from recnas.data.raw.sources import Source, check_is_text, stream_blocks
from recnas.errors import DataError


def resolve_columns(recipe: Recipe, source: Source) -> tuple[str, ...]:
    """The raw columns of a text file in order, checked against its first line."""
    check_is_text(source)
    first = _first_line(source)
    cells = cells_of(first.decode("utf-8", "replace"), recipe)
    if not recipe.header:
        _check_first_row(recipe, source, cells)
        return recipe.columns
    if fault := _header_fault(recipe, cells):
        raise DataError(
            f"{source.path} line 1: the header is not the one of {recipe.name}: {fault}.",
            _other_recipe_hint(first, recipe)
            or "Check that --raw names the right file; a missing header line must be put back. If the file is right, change "
            "`columns` in the recipe to its header, or leave `columns` out.",
        )
    absent = [name for name in recipe.in_files() if name not in cells]
    if absent:
        raise DataError(
            f"{source.path} line 1: the header has no column {', '.join(absent)}; it has {', '.join(cells)}.",
            "Correct the column names or the separator in the recipe.",
        )
    twice = [name for name in recipe.sources() if cells.count(name) > 1]
    if twice:
        raise DataError(
            f"{source.path} line 1: the header names {', '.join(twice)} more than once, so it is not known which to read.",
            "Rename one of the columns.",
        )
    return tuple(cells)


def _header_fault(recipe: Recipe, cells: list[str]) -> str | None:
    """How a header differs from the recipe's columns: all must be there and in that order, others may stand between.

    Columns are found by name, so others do no harm. Another order would do none either, but a header that somebody
    put over the columns of another file looks like that.
    """
    absent = [name for name in recipe.columns if name not in cells]
    extra = [name for name in cells if name not in recipe.columns]
    if absent:
        found = f"; it has {_some(extra)} besides" if extra else ""
        every = " (none of its columns is there)" if len(absent) == len(recipe.columns) else ""
        return f"it has no {_some(absent)}{every}{found}"
    known = [name for name in cells if name in recipe.columns]
    for place, (wanted, there) in enumerate(zip(recipe.columns, known), 1):
        if wanted != there:
            return f"the order differs from the {_nth(place)} column on, which is {there} and should be {wanted}"
    if len(known) > len(recipe.columns):
        return f"{_some(known[len(recipe.columns) :])} stands there more than once"
    return None


def _some(names: list[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def _nth(place: int) -> str:
    return f"{place}{'th' if place % 100 in (11, 12, 13) else {1: 'st', 2: 'nd', 3: 'rd'}.get(place % 10, 'th')}"


def _check_first_row(recipe: Recipe, source: Source, cells: list[str]) -> None:
    expected = len(recipe.columns)
    label = cells[recipe.columns.index(recipe.label.column)] if len(cells) == expected else ""
    if len(cells) == expected and any(c.isalpha() for c in label) and label.lower() not in LABEL_WORDS:
        raise DataError(
            f"{source.path} line 1: the label column {recipe.label.column!r} holds {label!r}: this looks like a header, and {recipe.name} files have none.",
            f"Remove the first line: tail -n +2 {source.path} > without-header",
        )
    hint = _other_recipe_hint(_first_line(source), recipe)
    if len(cells) != expected and hint:
        raise DataError(
            f"{source.path} line 1 has {len(cells)} fields separated by {recipe.separator!r}; {recipe.name} has {expected}.",
            hint,
        )


def _other_recipe_hint(line: bytes, recipe: Recipe) -> str | None:
    """Which shipped recipe a first line would fit, when it is not this one."""
    for name in shipped_recipes():
        other = load_recipe(name)
        if name == recipe.name or other.format != "text" or not other.columns:
            continue
        cells = cells_of(line.decode("utf-8", "replace"), other)
        if len(cells) == len(other.columns) and (not other.header or tuple(cells) == other.columns):
            return f"It looks like a {name} file: recnas prepare {name} --raw ..."
    return None


def cells_of(line: str, recipe: Recipe) -> list[str]:
    """The cells of a first line, which may be anything."""
    line = line.rstrip("\r\n")
    try:
        return split_line(line, recipe.separator, recipe.quote)
    except RowError:
        return line.split(recipe.separator)


def _first_line(source: Source) -> bytes:
    for block in stream_blocks(source, 1):
        if block:
            return block
    raise DataError(f"{source.path} is empty.", "Was the download or copy cut short? Fetch it again.")

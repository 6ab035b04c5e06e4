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
    if recipe.columns and tuple(cells) != recipe.columns:
        raise DataError(
            f"{source.path} line 1: the header is not the one of {recipe.name}. Expected "
            f"{', '.join(recipe.columns[:6])}, ...; found {', '.join(cells[:6])}{', ...' if len(cells) > 6 else ''}.",
            _other_recipe_hint(first, recipe)
            or "Check that --raw names the right file; a missing header line must be put back.",
        )
    absent = [name for name in recipe.sources() if name not in cells]
    if absent:
        raise DataError(
            f"{source.path} line 1: the header has no column {', '.join(absent)}; it has {', '.join(cells)}.",
            "Correct the column names or the separator in the recipe.",
        )
    return tuple(cells)


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

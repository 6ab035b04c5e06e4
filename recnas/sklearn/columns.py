"""What an estimator is given, as raw rows: which columns are numbers, which are categories, and the recipe that says so.

Nothing is encoded here: rows go to `recnas.prepare` as a file, and to a trained model as a frame.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from recnas.data.guess.recipe import ID_NAME
from recnas.errors import DataError

LABEL, WEIGHT = "label", "weight"


class BadInput(DataError, ValueError):
    """Rows, labels or columns that cannot be: scikit-learn's users expect a ValueError."""


@dataclass(frozen=True)
class Columns:
    """The columns of the rows that were fitted, in order, and what each is."""

    numbers: tuple[str, ...]
    integers: tuple[str, ...]  # categories that are whole numbers: 7 and 7.0 are the same one
    texts: tuple[str, ...]
    names: tuple[str, ...]

    @classmethod
    def of(
        cls, frame: pd.DataFrame, numeric: Sequence[Hashable] | None, categorical: Sequence[Hashable] | None
    ) -> Columns:
        """Args:
        frame: as `as_frame` makes it. numeric, categorical: names or places; what neither names is told by its type.
        """
        stated = [_named(some, frame) for some in (numeric, categorical)]
        if both := sorted(stated[0] & stated[1]):
            raise BadInput(f"{both[0]} is named as numeric and as categorical.", "Leave one of them out.")
        found: dict[str, list[str]] = {"numbers": [], "integers": [], "texts": []}
        for name in frame.columns:
            is_number = name in stated[0] or (name not in stated[1] and _looks_numeric(frame[name]))
            found["numbers" if is_number else _category(frame[name])].append(name)
        return cls(**{kind: tuple(names) for kind, names in found.items()}, names=tuple(frame.columns))

    def recipe(self, label: str, weight: str | None, scaling: str, min_count: int) -> str:
        """YAML (JSON is YAML) for `recnas.prepare`."""
        groups = (("string", self.texts), ("int", self.integers))
        recipe: dict[str, Any] = {
            "name": "rows of a CTRClassifier",
            "format": "parquet",
            "label": {"column": label},
            **({"weight": {"column": weight}} if weight else {}),
            "dense": [{"columns": self.numbers, "transform": scaling}] if self.numbers else [],
            "sparse": [{"columns": names, "kind": kind} for kind, names in groups if names],
            "min_count": min_count,
            "protocol": "index",
        }
        return json.dumps(recipe)

    def raw(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Cells of categories as Parquet and a trained model read them alike, whatever pandas kept them as."""
        texts = {name: _text(frame[name]) for name in self.texts}
        return frame.assign(**texts) if texts else frame


def as_frame(rows: Any) -> pd.DataFrame:
    """A pandas frame as it is, with names as texts; an array with columns x0, x1, ..."""
    if isinstance(rows, pd.DataFrame):
        return rows.set_axis([str(name) for name in rows.columns], axis=1)
    array = np.asarray(rows)
    frame = pd.DataFrame(array, columns=[f"x{i}" for i in range(array.shape[1])])
    return frame.infer_objects() if array.dtype == object else frame


def free_name(wanted: str, frame: pd.DataFrame) -> str:
    """`label`, or `label_` if the rows have a column of that name."""
    while wanted in frame.columns:
        wanted += "_"
    return wanted


def _named(some: Sequence[Hashable] | None, frame: pd.DataFrame) -> set[str]:
    """Names of columns that are given by name or by place."""
    if isinstance(some, str):
        raise BadInput(f"columns are given as a list, not as {some!r}.", f"Write [{some!r}].")
    names: set[str] = set()
    for one in some or ():
        is_place = isinstance(one, (int, np.integer)) and str(one) not in frame.columns
        if is_place and not -frame.shape[1] <= int(one) < frame.shape[1]:  # type: ignore[call-overload]
            raise BadInput(f"there is no column number {one}; there are {frame.shape[1]}.")
        name = frame.columns[one] if is_place else str(one)
        if name not in frame.columns:
            has = ", ".join(frame.columns[:20])
            raise BadInput(f"there is no column {name!r}; there are {has}.", "Name columns of the rows to fit.")
        names.add(name)
    return names


def _looks_numeric(column: pd.Series) -> bool:
    """Numbers, unless they are whole and the column is called like an id."""
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return False
    return not (pd.api.types.is_integer_dtype(column) and ID_NAME.search(str(column.name)))


def _category(column: pd.Series) -> str:
    values = column.cat.categories.to_series() if isinstance(column.dtype, pd.CategoricalDtype) else column
    if pd.api.types.is_bool_dtype(values) or not pd.api.types.is_numeric_dtype(values):
        return "texts"
    known = values.dropna()
    if pd.api.types.is_float_dtype(values) and bool((known != np.floor(known)).any()):
        raise BadInput(
            f"column {column.name} holds fractions, which are no categories.",
            f"Name it as numeric, or make it text: frame[{column.name!r}].astype(str)",
        )
    return "integers"


def _text(column: pd.Series) -> pd.Series:
    """Texts and None. What is no single value has no text of its own."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype)
    gone = column.isna()
    if column.dtype == object:
        strange = next((cell for cell in column[~gone] if isinstance(cell, (dict, list, set, tuple))), None)
        if strange is not None:
            raise TypeError(f"column {column.name} holds {strange!r}; argument must be a string or a number.")
    return column.astype(object).map(lambda cell: _word(cell), na_action="ignore").where(~gone, None)


def _word(cell: Any) -> str:
    if isinstance(cell, (bool, np.bool_)):
        return str(bool(cell)).lower()
    is_whole = isinstance(cell, (float, np.floating)) and float(cell).is_integer()
    return str(int(cell)) if is_whole else str(cell)

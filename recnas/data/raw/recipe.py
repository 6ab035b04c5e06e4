"""A recipe: how a raw ad log becomes model inputs, as a readable YAML file.

Shipped recipes live in `datasets/<name>/recipe.yaml`; a user's own file needs no Python. Smallest example:

    name: mine
    format: text
    separator: ","
    header: true
    label: {column: clicked}
    dense:  [{columns: [price]}]
    sparse: [{columns: [user, item], kind: string}]
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator, model_validator

from recnas.config import Settings, check_settings, nearest, read_yaml
from recnas.data.raw.serving import TRANSFORMS
from recnas.errors import ConfigError
from recnas.names import name_fault
from recnas.plugins import Parts
from recnas.resources import resource_dir

SparseKind = Literal["hex", "int", "string"]
if TYPE_CHECKING:
    Transform = str
else:
    Transform = Literal[tuple(TRANSFORMS)]
# Subtract the mean and divide by the standard deviation of the training rows; auto: if they are not of the size of one.
Standardise = Literal["auto"] | bool
# What a derived column makes of its source, an integer YYMMDDHH.
Derivation = Literal["yymmddhh-hour", "yymmddhh-weekday"]

# Cells of dense and int columns that count as missing, beside empty ones and what a recipe lists.
MISSING_NUMBERS = ("NA", "NaN", "nan", "null", "NULL", "None", "N/A")

MOST_COLUMNS = 100_000
_RANGE = re.compile(r"^(.*\D|)(\d+)\.\.(?:\1)?(\d+)$")


def expand_names(names: list[str]) -> tuple[str, ...]:
    """`["label", "I1..I3"]` becomes `("label", "I1", "I2", "I3")`; so does `"I1..3"`."""
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise ValueError("must be a list of names")
    out: list[str] = []
    for name in names:
        match = _RANGE.match(name)
        if match:
            prefix, low, high = match[1], int(match[2][-12:]), int(match[3][-12:])
            if high - low >= MOST_COLUMNS or len(match[3]) > 12:
                raise ValueError(f"{name} stands for more than {MOST_COLUMNS:,} columns")
            out += [f"{prefix}{i}" for i in range(low, high + 1)]
        else:
            out.append(name)
        if len(out) > MOST_COLUMNS:
            raise ValueError(f"more than {MOST_COLUMNS:,} columns")
    return tuple(out)


class Label(Settings):
    """A click is 1, yes, true, t or y; with `at_least` a number that large."""

    column: str
    at_least: float | None = None

    @property
    def fault(self) -> str:
        return "the label is not 0 or 1" if self.at_least is None else "the label is not a number"


class Weight(Settings):
    """How much a row counts, in training and in every metric: a number from 0 on."""

    column: str


class DenseGroup(Settings):
    """Numeric columns. A missing cell becomes `fill`, after the transform and the standardising."""

    columns: tuple[str, ...]
    transform: Transform = "log1p"
    fill: float = 0.0
    optional: bool = False  # left out unless asked for by name (--with)
    missing: tuple[str, ...] = ()  # added to MISSING_NUMBERS
    standardise: Standardise | None = None  # None: the recipe's

    _expand = field_validator("columns", mode="before")(expand_names)


class SparseGroup(Settings):
    """Categorical columns. Cells equal to one of `missing`, and empty cells, share the missing id."""

    columns: tuple[str, ...]
    kind: SparseKind = "string"
    missing: tuple[str, ...] = ()
    min_count: int | None = Field(None, ge=1)
    optional: bool = False
    suffix: str | None = None  # cut off the end of every cell, as ":1" in libfm files
    derive: dict[str, Derivation] | None = None  # new column name -> what is made of the source column

    _expand = field_validator("columns", mode="before")(expand_names)

    @model_validator(mode="after")
    def _derive_from_one(self) -> SparseGroup:
        if self.derive is not None and (len(self.columns) != 1 or self.kind != "int"):
            raise ValueError("derive needs exactly one source column of kind int")
        return self


class Join(Settings):
    """A side file looked up by an integer key, as the user profiles of KDD Cup 2012."""

    file: str  # found beside the raw file, or named by --side
    key: str  # column of the main file, and first column of the side file
    columns: tuple[str, ...]  # categorical integer columns that follow the key in the side file


class TimeOrder(Settings):
    """When rows happened: a column YYMMDDHH, or the row order cut into equal days."""

    column: str | None = None
    days: int | None = Field(None, ge=3)

    @model_validator(mode="after")
    def _one_of(self) -> TimeOrder:
        if (self.column is None) == (self.days is None):
            raise ValueError("give either column (an integer YYMMDDHH) or days (rows are in time order)")
        return self


class Recipe(Settings):
    """Everything `prepare` needs to know about a kind of raw file."""

    name: str
    title: str = ""
    format: Literal["text", "parquet"] = "text"
    separator: str = "\t"
    quote: bool = False  # cells may be wrapped in double quotes
    header: bool = False
    columns: tuple[str, ...] = ()  # in file order; with a header or Parquet it may be left out
    label: Label
    weight: Weight | None = None
    dense: tuple[DenseGroup, ...] = ()
    sparse: tuple[SparseGroup, ...] = ()
    standardise: Standardise = "auto"  # of dense columns whose group does not say
    joins: tuple[Join, ...] = ()
    time: TimeOrder | None = None
    min_count: int = Field(1, ge=1)
    protocol: str = "random-8-1-1"
    expected_rows: int | None = None
    source: str = ""  # where the raw file comes from, for people

    _expand = field_validator("columns", mode="before")(expand_names)

    @field_validator("separator")
    @classmethod
    def _one_character(cls, value: str) -> str:
        if len(value) != 1 or not value.isascii() or value in '\r\n"':
            raise ValueError("must be one ASCII character, such as ',' or '\\t'")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Recipe:
        if self.format == "text" and not self.header and not self.columns:
            raise ValueError("columns is required for a text file without a header")
        if self.weight is not None and self.weight.column == self.label.column:
            raise ValueError(f"the label {self.label.column} cannot be the weight too")
        names = [column.name for column in self.input_columns(with_optional=True)]
        if not self.input_columns():
            raise ValueError("a recipe needs at least one dense or sparse column")
        repeated = sorted(name for name, count in Counter(names).items() if count > 1)
        if repeated:
            raise ValueError(f"inputs named twice: {', '.join(repeated)}")
        for what, given in (
            ("recipe", [self.name]),
            ("column", names),
            ("side file", [join.file for join in self.joins]),
        ):
            for name in given:
                if fault := name_fault(name):
                    raise ValueError(f"the name {name!r} of a {what} {fault}")
        if self.columns:
            unknown = sorted(set(self.sources(with_optional=True)) - set(self.columns))
            if unknown:
                raise ValueError(f"inputs that are not in columns: {', '.join(unknown)}")
        return self

    def input_columns(self, with_optional: bool | tuple[str, ...] = False) -> list[InputColumn]:
        """All model inputs in order, dense first. `with_optional` names optional columns to keep."""

        def kept(group: DenseGroup | SparseGroup, name: str) -> bool:
            return (
                not group.optional
                or with_optional is True
                or (isinstance(with_optional, tuple) and name in with_optional)
            )

        found: list[InputColumn] = []
        for dense in self.dense:
            found += [
                InputColumn(
                    name=name,
                    source=name,
                    kind="number",
                    transform=dense.transform,
                    fill=dense.fill,
                    missing=MISSING_NUMBERS + dense.missing,
                    standardise=self.standardise if dense.standardise is None else dense.standardise,
                )
                for name in dense.columns
                if kept(dense, name)
            ]
        for group in self.sparse:
            common: dict[str, Any] = {
                "missing": (MISSING_NUMBERS if group.kind == "int" else ()) + group.missing,
                "min_count": group.min_count,
                "suffix": group.suffix,
            }
            for name in group.columns:
                if not kept(group, name):
                    continue
                if group.derive:
                    found += [
                        InputColumn(name=new, source=name, kind="int", derivation=how, **common)
                        for new, how in group.derive.items()
                    ]
                else:
                    found.append(InputColumn(name=name, source=name, kind=group.kind, **common))
        for join in self.joins:
            found += [
                InputColumn(
                    name=name,
                    source=join.key,
                    kind="int",
                    missing=MISSING_NUMBERS,
                    join=join.file,
                    join_column=i,
                    min_count=1,
                )
                for i, name in enumerate(join.columns)
            ]
        return found

    def optional_names(self) -> list[str]:
        groups: list[DenseGroup | SparseGroup] = [*self.dense, *self.sparse]
        return [name for group in groups if group.optional for name in group.columns]

    def sources(self, with_optional: bool | tuple[str, ...] = False) -> list[str]:
        """Raw columns that are read, each once."""
        names = [self.label.column]
        if self.weight is not None:
            names.append(self.weight.column)
        if self.time and self.time.column:
            names.append(self.time.column)
        names += [column.source for column in self.input_columns(with_optional)]
        return list(dict.fromkeys(names))


class InputColumn(Settings):
    """One model input, flattened out of the recipe's groups."""

    name: str
    source: str
    kind: Literal["number", "hex", "int", "string"]
    transform: Transform = "none"
    fill: float = 0.0
    standardise: Standardise = False
    missing: tuple[str, ...] = ()
    min_count: int | None = None
    suffix: str | None = None
    derivation: Derivation | None = None
    join: str | None = None
    join_column: int = 0

    @property
    def is_dense(self) -> bool:
        return self.kind == "number"


def shipped_recipes() -> dict[str, Path]:
    """Name of every shipped recipe and its file."""
    return {path.parent.name: path for path in sorted(resource_dir("datasets").glob("*/recipe.yaml"))}


_PLUGGED: Parts[Path] = Parts("recipe", shipped_recipes)


def register_recipe(name: str, path: Path | str) -> None:
    """Offer a recipe of a plugin, a YAML file, under a name."""
    if not Path(path).is_file():
        raise ConfigError(f"The recipe {name!r} of a plugin should be in {path}, which is not there.")
    _PLUGGED.register(name, Path(path))


def recipe_files() -> dict[str, Path]:
    """Shipped recipes and those of plugins."""
    return {**shipped_recipes(), **_PLUGGED.every()}


def load_recipe(name_or_path: str) -> Recipe:
    """A shipped recipe by name, or a user's own YAML file by path."""
    shipped = shipped_recipes()
    if name_or_path in shipped:
        path = shipped[name_or_path]
    elif Path(name_or_path).suffix in (".yaml", ".yml") or Path(name_or_path).is_file():
        path = Path(name_or_path)
        if not path.exists():
            raise ConfigError(
                f"There is no recipe file {path}.",
                "List the shipped ones: recnas datasets. Copy one to edit: recnas datasets cp csv my_recipe.yaml",
            )
    elif (plugged := _PLUGGED.find(name_or_path)) is not None:
        path = plugged
    else:
        raise ConfigError(
            f"There is no recipe {name_or_path!r}; {nearest(name_or_path, recipe_files())}",
            "List them: recnas datasets. For your own file: recnas datasets cp csv my_recipe.yaml, edit it, and give its path.",
        )
    return check_settings(Recipe, read_yaml(path), source=str(path))

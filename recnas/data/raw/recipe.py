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

from collections import Counter
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from recnas.config import check_settings, nearest, read_yaml
from recnas.data.raw.bag_sections import BagGroup, SequenceGroup, SeveralGroup, check_shares_of_bags
from recnas.data.raw.input_column import InputColumn
from recnas.data.raw.sections import (
    Clock,
    DenseGroup,
    Grown,
    Join,
    Label,
    OneOfLabels,
    Rolling,
    SparseGroup,
    Standardise,
    TimeOrder,
    VectorFile,
    Weight,
    check_shares,
    expand_names,
    zone_offset,
)
from recnas.data.raw.transforms import TRANSFORMS
from recnas.data.schema import LabelField
from recnas.errors import ConfigError
from recnas.names import name_fault
from recnas.plugins import Parts
from recnas.resources import resource_dir

# Cells of dense and int columns that count as missing, beside empty ones and what a recipe lists.
MISSING_NUMBERS = ("NA", "NaN", "nan", "null", "NULL", "None", "N/A")


class Recipe(Grown):
    """Everything `prepare` needs to know about a kind of raw file."""

    name: str
    title: str = ""
    format: Literal["text", "parquet"] = "text"
    separator: str = "\t"
    quote: bool = False  # cells may be wrapped in double quotes
    line_breaks: bool = False  # cells in quotes may hold line breaks
    header: bool = False
    columns: tuple[str, ...] = ()  # in file order; with a header or Parquet it may be left out
    label: Label
    labels: tuple[OneOfLabels, ...] = ()  # several; the first of them is `label` too
    weight: Weight | None = None
    dense: tuple[DenseGroup, ...] = ()
    sparse: tuple[SparseGroup, ...] = ()
    bags: tuple[BagGroup, ...] = ()
    sequences: tuple[SequenceGroup, ...] = ()
    standardise: Standardise = "auto"  # of dense columns whose group does not say
    joins: tuple[Join, ...] = ()
    vectors: tuple[VectorFile, ...] = ()  # pre-trained ones
    time: TimeOrder | None = None
    partitions: tuple[str, ...] = ()  # columns that are no part of the files but of their folders, as dt=2024-03-01
    min_count: int = Field(1, ge=1)
    protocol: str = "random-8-1-1"
    shares: tuple[float, float, float] | None = None  # of train, valid and test, for protocols that take any
    rolling: Rolling | None = None  # for the protocol rolling
    group: str | None = None  # column whose values are never in two splits, for the protocol group
    negatives: float | None = Field(None, gt=0, lt=1)  # share of the training rows without a click that are kept
    expected_rows: int | None = None
    source: str = ""  # where the raw file comes from, for people

    later = (
        "labels", "rolling", "vectors", "weight", "shares", "group", "negatives", "line_breaks", "partitions", "bags", "sequences",
    )  # fmt: skip
    _shares = field_validator("shares")(check_shares)
    _expand = field_validator("columns", mode="before")(expand_names)

    @model_validator(mode="before")
    @classmethod
    def _first_label(cls, given: Any) -> Any:
        """`labels:` instead of `label:`."""
        several = given.get("labels") if isinstance(given, dict) else None
        if not several or "label" in given or not isinstance(several[0], dict):
            return given
        return {**given, "label": {key: several[0][key] for key in ("column", "at_least") if key in several[0]}}

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
        if self.line_breaks and not (self.quote and self.format == "text"):
            raise ValueError("line_breaks are of cells in quotes: set quote: true too, of a text file")
        self._check_labels()
        self._check_vectors()
        names = [column.name for column in self.input_columns(with_optional=True)]
        if not self.input_columns():
            raise ValueError("a recipe needs at least one dense or sparse column")
        repeated = sorted(name for name, count in Counter(names).items() if count > 1)
        if repeated:
            raise ValueError(f"inputs named twice: {', '.join(repeated)}")
        check_shares_of_bags([*self.bags, *self.sequences], self.sparse)
        twice = sorted(name for name, count in Counter([*self.columns, *self.beside]).items() if count > 1)
        if twice and (self.partitions or any(join.add for join in self.joins)):
            raise ValueError(f"columns that come from two places: {', '.join(twice)}")
        for what, given in (
            ("recipe", [self.name]),
            ("column", names),
            ("side file", [*(join.file for join in self.joins), *(one.file for one in self.vectors)]),
        ):
            for name in given:
                if fault := name_fault(name):
                    raise ValueError(f"the name {name!r} of a {what} {fault}")
        if self.columns:
            unknown = sorted(set(self.sources(with_optional=True)) - set(self.columns) - set(self.beside))
            if unknown:
                raise ValueError(f"inputs that are not in columns: {', '.join(unknown)}")
        return self

    def _check_vectors(self) -> None:
        sparse = {column.name: column for column in self.input_columns(True) if not column.is_dense}
        for one in self.vectors:
            if one.column not in sparse:
                raise ValueError(f"vectors of {one.column}, which is no sparse column; {nearest(one.column, sparse)}")
            if not sparse[one.column].has_vocabulary:
                raise ValueError(
                    f"vectors of {one.column}, whose values are hashed or buckets and have no rows of their own"
                )
        twice = sorted(name for name, n in Counter(one.column for one in self.vectors).items() if n > 1)
        if twice:
            raise ValueError(f"vectors of {', '.join(twice)} are given twice")

    def used_vectors(self, with_columns: tuple[str, ...]) -> list[VectorFile]:
        """Of the columns that are inputs."""
        used = {column.name for column in self.input_columns(with_columns)}
        return [one for one in self.vectors if one.column in used]

    def _check_labels(self) -> None:
        names = [label.name for label in self.labels]
        if len(names) == 1:
            raise ValueError("labels has one entry: write it as label: {column: ...}")
        if len(set(names)) < len(names):
            raise ValueError("two labels have the same name: give one of them another, as name: bought_twice")
        if self.labels and self.label.model_dump() != Label(**self.labels[0].as_label()).model_dump():
            raise ValueError("give either label or labels")
        if self.weight is not None and self.weight.column in [label.column for label in self.every_label]:
            raise ValueError(f"the label {self.weight.column} cannot be the weight too")

    @property
    def every_label(self) -> tuple[Label, ...]:
        return self.labels or (self.label,)

    def label_fields(self) -> tuple[LabelField, ...]:
        """For the schema, which says nothing of a single label."""
        return tuple(LabelField(label.name, label.weight) for label in self.labels)

    @property
    def beside(self) -> tuple[str, ...]:
        """Columns that rows have and raw files have not: of side files, and of the names of folders."""
        return (*self.partitions, *(name for join in self.joins for name in join.add))

    def in_files(self, inputs: list[InputColumn] | None = None) -> list[str]:
        """Raw columns that must be in the files: those that are read, or those of some inputs; and keys of side files."""
        names = self.sources() if inputs is None else [column.source for column in inputs]
        keys = [join.key for join in self.joins if set(join.add) & set(names)]
        return [name for name in dict.fromkeys([*names, *keys]) if name not in self.beside]

    def beside_lines(self, inputs: list[InputColumn]) -> list[str]:
        """Inputs that a line of the file does not hold: looked up in a side file, or part of the folder's name."""
        return [column.name for column in inputs if column.join or column.source in self.beside]

    @property
    def weighs_rows(self) -> bool:
        return self.weight is not None or self.negatives is not None

    def input_columns(self, with_optional: bool | tuple[str, ...] = False) -> list[InputColumn]:
        """All model inputs in order, dense first. `with_optional` names optional columns to keep."""

        def kept(group: DenseGroup | SparseGroup | SeveralGroup, name: str) -> bool:
            return (
                not group.optional
                or with_optional is True
                or (isinstance(with_optional, tuple) and name in with_optional)
            )

        found: list[InputColumn] = []
        for dense in self.dense:
            for name in dense.columns:
                if kept(dense, name):
                    found += self._of_number(dense, name)
        for dense in self.dense:
            found += [
                InputColumn(
                    name=f"{name}_bucket",
                    source=name,
                    kind="bucket",
                    missing=MISSING_NUMBERS + dense.missing,
                    buckets=dense.buckets,
                    edges=dense.edges,
                )
                for name in dense.columns
                if dense.embed and kept(dense, name)
            ]
        for group in self.sparse:
            common: dict[str, Any] = {
                "missing": (MISSING_NUMBERS if group.kind in ("int", "time") else ()) + group.missing,
                "min_count": group.min_count,
                "suffix": group.suffix,
            }
            for name in group.columns:
                if not kept(group, name):
                    continue
                if group.derive:
                    clock = self.clock_of(group) if group.kind == "time" else None
                    found += [
                        InputColumn(name=new, source=name, kind=group.kind, derivation=how, clock=clock, **common)
                        for new, how in group.derive.items()
                    ]
                elif group.hash is not None:
                    found += [
                        InputColumn(
                            name=name if group.hashes == 1 else f"{name}_{number + 1}",
                            source=name,
                            kind=group.kind,
                            hash=group.hash,
                            hash_seed=group.hash_seed,
                            hash_number=number,
                            **common,
                        )
                        for number in range(group.hashes)
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
        for several in (*self.bags, *self.sequences):
            found += [
                InputColumn(
                    name=name,
                    source=name,
                    kind=several.kind,
                    missing=(MISSING_NUMBERS if several.kind == "int" else ()) + several.missing,
                    min_count=several.min_count,
                    hash=several.hash,
                    hash_seed=several.hash_seed,
                    several=several.rule,
                )
                for name in several.columns
                if kept(several, name)
            ]
        return found

    def _of_number(self, group: DenseGroup, name: str) -> list[InputColumn]:
        """The dense inputs of a numeric column: the number and, if asked for, whether it is there."""
        missing = MISSING_NUMBERS + group.missing
        standardise = self.standardise if group.standardise is None else group.standardise
        if TRANSFORMS[group.transform].fitted is not None:
            standardise = False
        number = InputColumn(
            name=name,
            source=name,
            kind="number",
            transform=group.transform,
            fill=group.fill,
            missing=missing,
            standardise=True if group.transform == "standardise" else standardise,
            buckets=group.buckets,
            edges=group.edges,
        )
        # Every number becomes 0, and what is missing is filled with 1.
        there = InputColumn(
            name=f"{name}_missing", source=name, kind="number", transform="indicator", fill=1.0, missing=missing
        )
        return [number, there] if group.indicator else [number]

    def clock_of(self, group: SparseGroup) -> Clock:
        """How the times of a group are written: as it says itself, or as the recipe says when rows happened."""
        if group.format is not None and group.zone is not None:
            return Clock(format=group.format, offset=zone_offset(group.zone))
        if self.time is None or self.time.column != group.columns[0] or self.time.format == "yymmddhh":
            raise ValueError(
                f"the times of {group.columns[0]} need a format and a zone, as format: epoch-seconds, zone: '+00:00'"
            )
        return self.time.clock

    def optional_names(self) -> list[str]:
        groups: list[DenseGroup | SparseGroup | SeveralGroup] = [*self.dense, *self.sparse, *self.bags, *self.sequences]
        return [name for group in groups if group.optional for name in group.columns]

    def sources(self, with_optional: bool | tuple[str, ...] = False) -> list[str]:
        """Raw columns that are read, each once."""
        names = [label.column for label in self.every_label]
        if self.weight is not None:
            names.append(self.weight.column)
        if self.time and self.time.column:
            names.append(self.time.column)
        if self.group is not None:
            names.append(self.group)
        names += [column.source for column in self.input_columns(with_optional)]
        names += [join.key for join in self.joins if set(join.add) & set(names)]
        return list(dict.fromkeys(names))


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

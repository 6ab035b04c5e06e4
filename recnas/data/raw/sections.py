"""The sections of a recipe: label, weight, groups of columns, joins, time. Each checks itself."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_serializer, model_validator

from recnas.config import Settings
from recnas.data.raw.serving import LARGEST
from recnas.data.raw.transforms import TRANSFORMS
from recnas.data.schema import MOST_ROWS
from recnas.names import name_fault

SparseKind = Literal["hex", "int", "string", "time"]
TimeFormat = Literal["yymmddhh", "epoch-seconds", "epoch-milliseconds", "iso"]
if TYPE_CHECKING:
    Transform = str
else:
    Transform = Literal[tuple(name for name in TRANSFORMS if name != "indicator")]
# Subtract the mean and divide by the standard deviation of the training rows; auto: if they are not of the size of one.
Standardise = Literal["auto"] | bool
# What a derived column makes of its source: an integer YYMMDDHH, or (without that in its name) a column of kind time.
Derivation = Literal["yymmddhh-hour", "yymmddhh-weekday", "hour", "weekday", "day"]

MOST_COLUMNS = 100_000
_ZONE = re.compile(r"([+-])([01]\d|2[0-3]):([0-5]\d)", re.ASCII)
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


class Grown(Settings):
    """A section that got keys after data were prepared with it: without them it is written as it was, so that those data
    are still known to be what a recipe asks for."""

    later: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _as_it_was(self, write: Any) -> dict[str, Any]:
        data = write(self)
        for name in self.later:
            if getattr(self, name) == type(self).model_fields[name].default:
                data.pop(name, None)
        return data


class Clock(Settings):
    """How a cell says when something happened; `offset` in seconds east of Greenwich is the clock that hours are read off."""

    format: TimeFormat
    offset: int = 0


def zone_offset(zone: str) -> int:
    """Seconds of `+02:00`."""
    sign, hours, minutes = _ZONE.fullmatch(zone).groups()  # type: ignore[union-attr]
    return (int(hours) * 3600 + int(minutes) * 60) * (-1 if sign == "-" else 1)


def check_shares(shares: tuple[float, float, float] | None) -> tuple[float, float, float] | None:
    if shares is not None and (min(shares) <= 0 or abs(sum(shares) - 1) > 1e-9):
        raise ValueError("must be three numbers above 0 that add up to 1: of train, validation and test")
    return shares


class Rolling(Settings):
    """Of the protocol `rolling`: how many origins, and the share of all rows in each window."""

    origins: int = Field(3, ge=1, le=100)
    window: float = Field(0.1, gt=0, lt=0.5)

    @model_validator(mode="after")
    def _leaves_rows_to_train_on(self) -> Rolling:
        if (self.origins + 1) * Fraction(str(self.window)) >= 1:
            raise ValueError(
                f"{self.origins} origins with windows of {self.window:g} leave the first one no training rows: "
                "(origins + 1) x window must be below 1"
            )
        return self

    def ends(self, origin: int) -> tuple[Fraction, Fraction, Fraction]:
        """Shares of all rows up to the end of train, valid and test, of the `origin`-th from 1."""
        window = Fraction(str(self.window))
        end = 1 - (self.origins - origin) * window
        return end - 2 * window, end - window, end


def _check_zone(zone: str | None) -> str | None:
    if zone is not None and not _ZONE.fullmatch(zone):
        raise ValueError("must be an offset from Greenwich in quotes, as '+02:00' or '-05:00' ('+00:00' is UTC)")
    return zone


class Label(Settings):
    """A click is 1, yes, true, t or y; with `at_least` a number that large."""

    column: str
    at_least: float | None = None

    @property
    def fault(self) -> str:
        return "the label is not 0 or 1" if self.at_least is None else "the label is not a number"


class OneOfLabels(Label):
    """One of several labels that a model predicts."""

    name: str = ""  # in figures and outputs; empty: the column's
    weight: float = Field(1.0, gt=0, allow_inf_nan=False)  # of its loss in the sum that is trained

    @model_validator(mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        return {"name": given["column"], **given} if isinstance(given, dict) and "column" in given else given

    @field_validator("name")
    @classmethod
    def _speakable(cls, name: str) -> str:
        if fault := name_fault(name):
            raise ValueError(f"the name {name!r} of a label {fault}")
        return name

    def as_label(self) -> dict[str, Any]:
        return {"column": self.column, "at_least": self.at_least}


class Weight(Settings):
    """How much a row counts, in training and in every metric: a number from 0 on."""

    column: str


class DenseGroup(Grown):
    """Numeric columns. A missing cell becomes `fill`, after the transform and the standardising."""

    columns: tuple[str, ...]
    transform: Transform = "log1p"
    fill: float = Field(0.0, ge=-LARGEST, le=LARGEST)  # of a 32-bit number
    optional: bool = False  # left out unless asked for by name (--with)
    missing: tuple[str, ...] = ()  # added to MISSING_NUMBERS
    standardise: Standardise | None = None  # None: the recipe's
    buckets: int = Field(10, ge=2, le=10_000)  # of bucketise and embed, as many rows in each
    edges: tuple[float, ...] | None = None  # or where they begin
    embed: bool = False  # also a categorical input: the bucket
    indicator: bool = False  # also a dense input: 1 where the cell is missing

    later = ("buckets", "edges", "embed", "indicator")
    _expand = field_validator("columns", mode="before")(expand_names)

    @model_validator(mode="after")
    def _fits(self) -> DenseGroup:
        fitted = TRANSFORMS[self.transform].fitted is not None
        if (fitted or self.transform == "standardise") and self.standardise not in (
            None,
            self.transform == "standardise",
        ):
            raise ValueError(
                f"transform: {self.transform} says already how the numbers are scaled; leave standardise out"
            )
        if self.edges is not None:
            if self.transform != "bucketise" and not self.embed:
                raise ValueError("edges are of transform: bucketise, or of embed: true")
            if not self.edges or any(low >= high for low, high in zip(self.edges, self.edges[1:])):
                raise ValueError("edges must be numbers, each larger than the one before")
        return self


class SparseGroup(Grown):
    """Categorical columns. Cells equal to one of `missing`, and empty cells, share the missing id."""

    columns: tuple[str, ...]
    kind: SparseKind = "string"
    missing: tuple[str, ...] = ()
    min_count: int | None = Field(None, ge=1)
    optional: bool = False
    suffix: str | None = None  # cut off the end of every cell, as ":1" in libfm files
    derive: dict[str, Derivation] | None = None  # new column name -> what is made of the source column
    format: TimeFormat | None = None  # of kind time; None: as `time` of the recipe says of the same column
    zone: str | None = None
    hash: int | None = Field(None, ge=1, lt=MOST_ROWS - 2)  # rows of a table that values are hashed into
    hashes: int = Field(1, ge=1, le=8)  # as many inputs of that many rows, each by another hash
    hash_seed: int = Field(0, ge=0)

    later = ("format", "zone", "hash", "hashes", "hash_seed")
    _expand = field_validator("columns", mode="before")(expand_names)
    _zone = field_validator("zone")(_check_zone)

    @model_validator(mode="after")
    def _derive_from_one(self) -> SparseGroup:
        if self.derive is not None and (len(self.columns) != 1 or self.kind not in ("int", "time")):
            raise ValueError("derive needs exactly one source column of kind int or time")
        if self.hash is None and (self.hashes, self.hash_seed) != (1, 0):
            raise ValueError("hashes and hash_seed go with hash, the number of rows, as hash: 1000000")
        if self.hash is not None and (self.derive or self.min_count is not None):
            raise ValueError("a hashed column has no minimum count and nothing derived: every value has a row")
        if self.kind == "time" and not self.derive:
            raise ValueError(
                "a column of kind time is no category itself; say what it gives: derive: {hour: hour, weekday: weekday}"
            )
        for how in (self.derive or {}).values():
            if how.startswith("yymmddhh") != (self.kind == "int"):
                kind = "int" if how.startswith("yymmddhh") else "time"
                raise ValueError(f"{how} is derived from a column of kind {kind}, not {self.kind}")
        if self.kind != "time" and (self.format or self.zone):
            raise ValueError("format and zone are of columns of kind time")
        if (self.format is None) != (self.zone is None):
            raise ValueError("give format and zone together, as format: epoch-seconds, zone: '+00:00'")
        if self.format == "yymmddhh":
            raise ValueError("yymmddhh is read as kind: int, derive: {hour: yymmddhh-hour}")
        return self


class Join(Grown):
    """A side file looked up by a key: small integers as in KDD Cup 2012 (`columns`), or cells of any kind (`add`)."""

    file: str  # found beside the raw file, or named by --side
    key: str  # column of the main file, and the column of that name (or the first one) in the side file
    columns: tuple[str, ...] = ()  # categorical integer columns that follow the key in the side file
    add: tuple[str, ...] = ()  # columns that rows get from the side file; groups name them as they name others
    header: bool | None = None  # of the side file, with `add`; None: as the recipe's
    separator: str | None = None

    later = ("add", "header", "separator")

    @model_validator(mode="after")
    def _one_of(self) -> Join:
        if bool(self.columns) == bool(self.add):
            raise ValueError(
                "give either add (columns of any kind, which groups then name) or columns (small integers behind an integer key)"
            )
        if self.columns and (self.header is not None or self.separator is not None):
            raise ValueError("header and separator go with add")
        return self


class VectorFile(Settings):
    """Pre-trained vectors of the values of a column: where its rows in the tables begin, or stay."""

    column: str  # of the categories
    file: str  # .parquet or .npy, found beside the raw file, or named by --side
    id: str = "id"  # its column of values
    vector: str = "vector"  # its column of lists of numbers
    train: bool = True  # false: training leaves them as they are


class TimeOrder(Grown):
    """When rows happened: a column of times, or the row order cut into equal days."""

    column: str | None = None
    days: int | None = Field(None, ge=3)
    format: TimeFormat = "yymmddhh"  # of the column
    zone: str | None = None  # the clock on which days begin, and of times that name none

    later = ("format", "zone")
    _zone = field_validator("zone")(_check_zone)

    @model_validator(mode="after")
    def _one_of(self) -> TimeOrder:
        if (self.column is None) == (self.days is None):
            raise ValueError(
                "give either column (an integer YYMMDDHH, or say its format) or days (rows are in time order)"
            )
        if self.days is not None and (self.format != "yymmddhh" or self.zone is not None):
            raise ValueError("format and zone are of a column; with days the row order tells")
        if self.format == "yymmddhh" and self.zone is not None:
            raise ValueError("YYMMDDHH is on its own clock: leave zone out")
        if self.format != "yymmddhh" and self.zone is None:
            raise ValueError("say on which clock days begin, as zone: '+02:00' ('+00:00' is UTC)")
        return self

    @property
    def clock(self) -> Clock:
        return Clock(format=self.format, offset=zone_offset(self.zone or "+00:00"))

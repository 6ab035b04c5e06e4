"""The sections of a recipe for columns whose cells hold several values: `bags` in any order, `sequences` in theirs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field, field_validator, model_validator

from recnas.config import Settings
from recnas.data.raw.sections import Grown, SparseGroup, expand_names
from recnas.data.schema import MOST_ROWS, Pool

MOST_VALUES = 1000  # of a row: batches have a place for each

Keep = Literal["first", "last"]


class Several(Settings):
    """How a cell is cut into values, and what is made of them."""

    separator: str
    max_values: int
    keep: Keep
    pool: Pool
    shares: str | None = None


class SeveralGroup(Grown):
    """Columns of several categories a cell. Empty values and those equal to one of `missing` are none."""

    columns: tuple[str, ...]
    separator: str = "|"  # one ASCII character between two values of a cell of text; lists of Parquet have none
    kind: Literal["string", "int", "hex"] = "string"
    max_values: int = Field(20, ge=1, le=MOST_VALUES)  # of a row; further ones are cut off and counted
    keep: Keep = "first"  # which ones stay where there are more
    pool: Pool = "mean"  # how the vectors of the values become one
    shares: str | None = None  # another sparse column or bag, whose vocabulary and table the values use
    missing: tuple[str, ...] = ()
    min_count: int | None = Field(None, ge=1)
    optional: bool = False
    hash: int | None = Field(None, ge=1, lt=MOST_ROWS - 2)  # rows of a table that values are hashed into
    hash_seed: int = Field(0, ge=0)

    _expand = field_validator("columns", mode="before")(expand_names)

    @field_validator("separator")
    @classmethod
    def _one_character(cls, value: str) -> str:
        if len(value) != 1 or not value.isascii() or value.isalnum() or value in '\r\n"':
            raise ValueError("must be one ASCII character that is no letter or digit, such as '|' or ' '")
        return value

    @model_validator(mode="after")
    def _fits(self) -> SeveralGroup:
        if self.shares is not None and (self.hash is not None or self.min_count is not None):
            raise ValueError(f"hash and min_count are those of {self.shares}, whose table is shared; leave them out")
        if self.hash is not None and self.min_count is not None:
            raise ValueError("a hashed column has no minimum count: every value has a row")
        if self.hash is None and self.hash_seed:
            raise ValueError("hash_seed goes with hash, the number of rows, as hash: 1000000")
        return self

    @property
    def rule(self) -> Several:
        return Several(
            separator=self.separator,
            max_values=self.max_values,
            keep=self.keep,
            pool=self.pool,
            shares=self.shares,
        )


class BagGroup(SeveralGroup):
    """Columns of values in any order, such as genres."""

    pool: Literal["sum", "mean", "max"] = "mean"  # how the vectors of the values become one


class SequenceGroup(SeveralGroup):
    """Columns of values in order, the newest at the end, such as the last films that somebody saw."""

    separator: str = " "  # one ASCII character between two values of a cell of text; lists of Parquet have none
    keep: Keep = "last"  # which ones stay where there are more

    @model_validator(mode="after")
    def _attention(self) -> SequenceGroup:
        if self.pool == "attention" and self.shares is None:
            raise ValueError(
                "attention asks how well each value goes with this row's: name that column, as shares: item"
            )
        return self


def check_shares_of_bags(groups: Sequence[SeveralGroup], sparse: Sequence[SparseGroup]) -> None:
    """Raises: ValueError, if a group shares the table of a column that is none, or of another kind."""
    single = {name: group for group in sparse for name in group.columns if not group.derive and group.hashes == 1}
    bags = {name: group for group in groups for name in group.columns if group.shares is None}
    for group in groups:
        if group.shares is None:
            continue
        owner = single.get(group.shares) or bags.get(group.shares)
        if owner is None:
            raise ValueError(
                f"{group.columns[0]} shares {group.shares}, which is no sparse column or bag with a table of its own"
            )
        if owner.kind != group.kind:
            raise ValueError(
                f"{group.columns[0]} is of kind {group.kind} and shares the table of {group.shares}, which is of kind "
                f"{owner.kind}; write kind: {owner.kind}"
            )
        if owner.optional:
            raise ValueError(f"{group.columns[0]} shares {group.shares}, which is optional and may be left out")
        if group.pool == "attention" and group.shares in bags:
            raise ValueError(f"attention needs one value a row to ask about, and {group.shares} has several")
        if isinstance(owner, SparseGroup) and owner.suffix:
            raise ValueError(
                f"{group.columns[0]} shares {group.shares}, whose cells have a suffix and its values have not"
            )

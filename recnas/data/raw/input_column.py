"""One model input, with everything that a recipe says about it in one place."""

from __future__ import annotations

from typing import Literal

from recnas.config import Settings
from recnas.data.raw.bag_sections import Several
from recnas.data.raw.sections import Clock, Derivation, Standardise
from recnas.data.raw.transforms import TRANSFORMS
from recnas.data.schema import Bag


class InputColumn(Settings):
    """One model input, flattened out of the recipe's groups."""

    name: str
    source: str
    kind: Literal["number", "hex", "int", "string", "time", "bucket"]
    transform: str = "none"
    fill: float = 0.0
    standardise: Standardise = False
    missing: tuple[str, ...] = ()
    min_count: int | None = None
    suffix: str | None = None
    derivation: Derivation | None = None
    clock: Clock | None = None  # of kind time
    buckets: int = 10
    edges: tuple[float, ...] | None = None  # None: fitted on the training rows
    hash: int | None = None  # rows
    hash_seed: int = 0
    hash_number: int = 0
    join: str | None = None
    join_column: int = 0
    several: Several | None = None  # of a column whose cells hold several values

    @property
    def is_dense(self) -> bool:
        return self.kind == "number"

    @property
    def read_kind(self) -> str:
        """What its cells are."""
        return "number" if self.kind == "bucket" else self.kind

    @property
    def has_edges(self) -> bool:
        """Whether its numbers are compared with edges."""
        return self.kind == "bucket" or TRANSFORMS[self.transform].fitted is not None

    @property
    def has_vocabulary(self) -> bool:
        """Whether it has a vocabulary of its own; other ids are computed, or those of another column."""
        return not self.is_dense and self.hash is None and self.kind != "bucket" and self.table == self.name

    @property
    def table(self) -> str:
        """The column whose ids its values have."""
        return self.several.shares or self.name if self.several else self.name

    @property
    def bag(self) -> Bag | None:
        """What a schema says of its values; None of a column with one value a row."""
        if self.several is None:
            return None
        return Bag(self.several.max_values, self.several.pool, self.several.shares)

    @property
    def value_kind(self) -> str:
        """Of what the vocabulary holds: hours and weekdays are whole numbers."""
        return "int" if self.kind == "time" else self.kind

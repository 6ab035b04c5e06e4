"""The prepared data whose vocabulary and statistics others are encoded with: `--like DIR`, or grown: `--extend DIR`."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recnas.data.prepare.edges import Edges
from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepared import PreparedData
from recnas.data.raw.encoder import fitted_recipe, vocabulary_file
from recnas.data.raw.id_table import IdTable, read_id_table
from recnas.data.raw.recipe import Recipe
from recnas.data.schema import UNKNOWN_ID
from recnas.errors import ConfigError


@dataclass(frozen=True)
class FirstDay:
    """Ids and statistics that stay as they are; `grows`: values that are new get ids behind the old ones."""

    data: PreparedData
    grows: bool

    @classmethod
    def of(cls, options: PrepareOptions) -> FirstDay | None:
        if options.like is not None and options.extend is not None:
            raise ConfigError(
                "--like keeps the vocabulary as it is, --extend lets it grow; both were given.", "Give one of them."
            )
        path = options.like or options.extend
        return None if path is None else cls(PreparedData.open(path), options.extend is not None)

    def recipe(self) -> Recipe:
        recipe, _ = fitted_recipe(self.data)
        return recipe

    def options(self, options: PrepareOptions) -> PrepareOptions:
        """What was not asked for anew is as on the first day."""
        if options.with_columns:
            raise ConfigError(f"--with cannot be given: the columns are those of {self.data.path}.", "Leave it out.")
        before = self.data.manifest["options"]
        return replace(
            options,
            with_columns=tuple(before["with_columns"]),
            min_count=options.min_count or before["min_count"],
            cap=options.cap or before["cap"],
        )

    def facts(self) -> dict[str, str]:
        """What a manifest says of it, among what decides the result."""
        return {
            "extend" if self.grows else "like": self.data.fingerprint,
            "vocabulary": self.data.vocabulary,
        }

    def edges(self) -> Edges:
        schema = self.data.schema
        return {field.name: field.edges for field in schema.dense} | {
            field.name: field.edges for field in schema.sparse
        }

    def table(self, column: str) -> IdTable:
        return read_id_table(vocabulary_file(self.data, column))

    def values(self, column: str) -> pa.Table:
        """The vocabulary of a column, in id order."""
        return pq.read_table(vocabulary_file(self.data, column))

    def copy_vocabulary(self, column: str, folder: Path) -> None:
        shutil.copyfile(vocabulary_file(self.data, column), folder / f"{column}.parquet")

    def without_known(self, column: str, keys: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        new = self.table(column).look_up(keys) == UNKNOWN_ID
        return keys[new], counts[new]

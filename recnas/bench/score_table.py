"""Training-free scores of a whole space in one small Parquet file: the pool_scores of searches on tables.

    key            one row per network (`space.key`)
    arch           one of the cells that are this network, in the official notation
    <proxy>@<C>    the proxy's value on the network with C channels in its first stage; missing where the network
                   is degenerate for it. Of KNAS also the root, `knas_root`, which HNAS uses.

Scores of different widths lie side by side because HNAS is best with the condition number of a narrow network and
the metric of a wide one. A name without `@` will do where there is one width only.

    scores = ScoreTable.read("scores.parquet")
    scores.scores(archs, ["ntk_trace@16", "ntk_cond@4"])      # float64 [2, archs], NaN where there is none
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recnas.errors import DataError
from recnas.files import write_atomic
from recnas.space.base import nearest_name

_MAKE = (
    "Make one: recnas correlate nasbench201/scores-c4 --out RUN, then recnas bench pack RUN --out scores.parquet. "
    "A checkout of recnas has one of every network: scores=tests/paper/data/nb201_scores.parquet"
)
_FACTS = b"recnas"


class ScoreColumn(NamedTuple):
    """What a column holds, and how it is called: `<proxy>[_root]@<width>`."""

    proxy: str
    width: int | None = None  # channels of the scored networks; None: whichever there is
    root: bool = False  # the term `root` of the score instead of its value

    def __str__(self) -> str:
        name = self.proxy + ("_root" if self.root else "")
        return name if self.width is None else f"{name}@{self.width}"

    @classmethod
    def parse(cls, text: str) -> ScoreColumn:
        name, _, width = text.partition("@")
        return cls(name.removesuffix("_root"), int(width) if width else None, name.endswith("_root"))


@dataclass(frozen=True)
class ScoreTable:
    """Scores by network.

    Args:
        keys: of the networks, in the order of the file.
        archs: how the file writes them.
        columns: float64 by column name, NaN where a network is degenerate.
        key_of: names the network of an architecture; None if architectures are keys themselves.
        facts: how the scores were made, by width.
    """

    keys: tuple[str, ...]
    archs: tuple[str, ...]
    columns: Mapping[str, np.ndarray]
    key_of: Callable[[Any], str] | None = None
    name: str = "scores"
    facts: Mapping[str, Any] | None = None

    @classmethod
    def read(cls, path: Path | str, key_of: Callable[[Any], str] | None = None) -> ScoreTable:
        path = Path(path)
        if not path.is_file():
            raise DataError(f"there is no score table at {path}.", _MAKE)
        try:
            table = pq.read_table(path)
        except (pa.ArrowInvalid, OSError) as error:
            raise DataError(f"{path} is not a Parquet table ({error}).", _MAKE) from None
        missing = {"key", "arch"} - set(table.column_names)
        if missing:
            raise DataError(
                f"{path} is no score table: it has no column {' and no column '.join(sorted(missing))}.", _MAKE
            )
        names = [name for name in table.column_names if name not in ("key", "arch")]
        columns = {name: table[name].to_numpy().astype(np.float64) for name in names}
        facts = json.loads((table.schema.metadata or {}).get(_FACTS, b"{}"))
        return cls(tuple(table["key"].to_pylist()), tuple(table["arch"].to_pylist()), columns, key_of, str(path), facts)

    def write(self, path: Path | str) -> None:
        columns = {name: pa.array(values, from_pandas=True) for name, values in self.columns.items()}  # NaN: missing
        table = pa.table({"key": list(self.keys), "arch": list(self.archs), **columns})
        table = table.replace_schema_metadata({_FACTS: json.dumps(dict(self.facts or {})).encode()})
        write_atomic(Path(path), lambda file: pq.write_table(table, file, compression="zstd"))

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {key: row for row, key in enumerate(self.keys)}

    def widths(self, name: str) -> list[str]:
        """The columns of a score from narrow to wide; of a full name that one, if it is there."""
        wanted = ScoreColumn.parse(name)
        if wanted.width is not None:
            return [name] if name in self.columns else []
        has = [column for column in map(ScoreColumn.parse, self.columns) if column[::2] == wanted[::2]]
        return [str(column) for column in sorted(has, key=lambda column: column.width or 0)]

    def column(self, name: str) -> np.ndarray:
        """By full name, or by the proxy alone if there is one width of it."""
        if name in self.columns:
            return self.columns[name]
        widths = self.widths(name)
        if len(widths) == 1:
            return self.columns[widths[0]]
        if widths:
            raise DataError(f"{self.name} has {name} at several widths.", f"Say which: {', '.join(widths)}.")
        raise DataError(f"{self.name} has no scores called {name!r}.", nearest_name(name, self.columns))

    def rows_of(self, keys: Sequence[str]) -> np.ndarray:
        """Where these networks stand; all of them must be there."""
        missing = [key for key in keys if key not in self._rows]
        if missing:
            raise DataError(
                f"{self.name} has no scores for {len(missing):,} of {len(keys):,} networks, the first of them {missing[0]}.",
                "The scoring run was not finished: repeat its command, then recnas bench pack again.",
            )
        return np.array([self._rows[key] for key in keys], dtype=np.int64)

    def scores(self, archs: Sequence[Any], names: Sequence[str]) -> np.ndarray:
        """`[names, archs]`, as searchers ask for pool_scores (`recnas.searchers.pool`)."""
        keys = [arch if self.key_of is None else self.key_of(arch) for arch in archs]
        rows = self.rows_of(keys)
        return np.array([self.column(name)[rows] for name in names])

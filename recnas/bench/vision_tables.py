"""Tables of NAS-Bench-101 and NAS-Bench-301: trained (or predicted) accuracy of cells, from one Parquet file.

    table = VisionTable.read("nasbench101", "nb101.parquet")
    table.archs[0], table.accuracy("valid", 108)              # percent, in the order of the file

| table | the cell | figures |
|---|---|---|
| nasbench101 | `adjacency` (rows of the matrix, 0 and 1) and `ops` (inner operations, by comma) | `val_<epochs>`, `test_<epochs>` as shares of 1, epochs 4, 12, 36, 108 |
| nasbench301 | `genotype` (the published `Genotype(...)` form) | `val_<epochs>`, `test_<epochs>` in percent, epochs 97 or 98 |

`params` and `train_time_<epochs>` are kept where a file has them. Shares of 1 become percent on reading, so that
all tables speak alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from recnas.errors import DataError, SpaceError
from recnas.space.base import nearest_name
from recnas.space.darts.arch import DartsArch
from recnas.space.nasbench101.arch import Nb101Arch

SOURCES = {
    "nasbench201": "NAS-Bench-201 / NATS-Bench (https://github.com/D-X-Y/NATS-Bench)",
    "nasbench101": "NAS-Bench-101 (https://github.com/google-research/nasbench)",
    "nasbench301": "NAS-Bench-301 (https://github.com/automl/nasbench301)",
}
KINDS = tuple(SOURCES)


def where_from(kind: str, path: Path | str) -> DataError:
    """The message for a table that is not there."""
    return DataError(
        f"there is no {kind} table at {path}.",
        f"It comes from {SOURCES[kind]}. Download it, then: recnas bench import {kind} --from FILE --out {kind}.parquet",
    )


def read_any(path: Path | str, kind: str) -> pa.Table:
    """A Parquet or CSV file as it is."""
    path = Path(path)
    if not path.is_file():
        raise where_from(kind, path)
    try:
        return pacsv.read_csv(path) if path.suffix == ".csv" else pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(
            f"{path} is neither Parquet nor CSV ({str(error).splitlines()[0]}).",
            f"It should come from {SOURCES[kind]}.",
        ) from None


def _cell_101(row: Mapping[str, Any]) -> Nb101Arch:
    return Nb101Arch.from_text(f"{row['adjacency']}/{row['ops']}")


def _cell_301(row: Mapping[str, Any]) -> DartsArch:
    return DartsArch.from_text(row["genotype"])


_CELLS: dict[str, tuple[tuple[str, ...], Callable[[Mapping[str, Any]], Any]]] = {
    "nasbench101": (("adjacency", "ops"), _cell_101),
    "nasbench301": (("genotype",), _cell_301),
}


@dataclass(frozen=True)
class VisionTable:
    """Ground truth, one row per cell.

    Args:
        kind: nasbench101 or nasbench301.
        archs: the cells in the order of the file.
        columns: figures by name; accuracies in percent, NaN where there is none.
    """

    kind: str
    archs: tuple[Any, ...]
    columns: Mapping[str, np.ndarray]
    name: str

    def __len__(self) -> int:
        return len(self.archs)

    @classmethod
    def read(cls, kind: str, path: Path | str) -> VisionTable:
        if kind not in _CELLS:
            raise DataError(f"there is no table of this form called {kind!r}.", nearest_name(kind, _CELLS))
        return cls.of(kind, read_any(path, kind), str(path))

    @classmethod
    def of(cls, kind: str, table: pa.Table, name: str) -> VisionTable:
        """Check and understand a table; every fault names its row."""
        needs, cell = _CELLS[kind]
        figures = [column for column in table.column_names if _is_figure(column)]
        missing = [column for column in needs if column not in table.column_names]
        if missing or not any(column.startswith(("val_", "test_")) for column in figures):
            lacks = missing or ["val_<epochs> or test_<epochs>"]
            raise DataError(
                f"{name} has no column {' and no column '.join(lacks)}.",
                f"Columns of {kind}: {', '.join(needs)}, val_<epochs>, test_<epochs>.",
            )
        archs = []
        rows = zip(*(table[column].cast(pa.string()).to_pylist() for column in needs))
        for number, values in enumerate(rows, start=1):
            try:
                archs.append(cell({column: value or "" for column, value in zip(needs, values)}))
            except SpaceError as error:
                raise DataError(f"{name} row {number}: {error.what}.", error.fix) from None
        columns = {column: table[column].to_numpy(zero_copy_only=False).astype(np.float64) for column in figures}
        for column, found in columns.items():
            if column.startswith(("val_", "test_")):
                columns[column] = _percent(found, column, name)
        return cls(kind, tuple(archs), columns, name)

    def accuracy(self, split: str, epochs: int) -> np.ndarray:
        """Percent correct, in the order of `archs`; split `valid` or `test`."""
        name = f"{'val' if split == 'valid' else split}_{epochs}"
        if name not in self.columns:
            raise DataError(f"{self.name} has no column {name}.", f"It has: {', '.join(self.columns)}.")
        return self.columns[name]


def _is_figure(name: str) -> bool:
    what, _, epochs = name.rpartition("_")
    return name == "params" or (what in ("val", "test", "train_time") and epochs.isdigit())


def _percent(values: np.ndarray, column: str, name: str) -> np.ndarray:
    known = values[~np.isnan(values)]
    if len(known) and not (known.min() >= 0 and known.max() <= 100):
        raise DataError(f"{name}: {column} goes from {known.min():.4g} to {known.max():.4g}, which is no accuracy.")
    return values * 100 if len(known) and known.max() <= 1 else values

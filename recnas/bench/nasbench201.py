"""The NAS-Bench-201 table: trained accuracy of all 15,625 cells, from one Parquet file of a few MB.

    table = Nb201Table.read()                                  # $RECNAS_TABLES/nb201.parquet
    table.accuracy("cifar10", "test", 200)                     # float64 [rows], percent, in the table's order
    table.of(arch, "cifar10", "valid", 12)                     # what a search may look at
    table.by_key("cifar10", "test", 200)                       # mean over the cells that are one network
    table.archs[10427], table.index_of(arch)                   # the official index, both ways

Columns: `index` (official), `arch` (official text), and any of `<data>_<split>_<epochs>` with data `cifar10`,
`cifar100`, `imagenet16`, split `valid` or `test`, epochs 12 or 200, in percent and averaged over the seeds
the authors trained; `<data>_seconds_<epochs>` is the training time where the file has it. Other columns
are left alone. For `cifar10`, `valid` belongs to a network trained on half of the training images and `test`
to one trained on all of them, as in the benchmark itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recnas.errors import DataError, SpaceError
from recnas.files import write_atomic
from recnas.space.base import nearest_name
from recnas.space.nasbench201.arch import Nb201Arch, live_edges
from recnas.space.nasbench201.key import key
from recnas.space.nasbench201.skeleton import count

FOLDER = "RECNAS_TABLES"  # where tables are, unless a path is given
FILE = "nb201.parquet"
DATASETS = ("cifar10", "cifar100", "imagenet16")
SPLITS = ("valid", "test")
EPOCHS = (12, 200)
_ALIASES = {"imagenet16-120": "imagenet16", "cifar10-valid": "cifar10"}
_SOURCE = (
    "The accuracies come from NAS-Bench-201 / NATS-Bench (https://github.com/D-X-Y/NATS-Bench); "
    f"set {FOLDER} to the folder that has {FILE}, or give --table PATH (with a config: table=PATH)."
)

Split = Literal["valid", "test"]


@dataclass(frozen=True)
class Nb201Table:
    """Ground truth, one row per cell.

    Args:
        archs: the cells in the order of the file.
        index: official index of every row.
        columns: figures by column name; NaN where the authors have none.
        name: the file, for messages.
    """

    archs: tuple[Nb201Arch, ...]
    index: tuple[int, ...]
    columns: Mapping[str, np.ndarray]
    name: str = FILE

    @cached_property
    def _rows(self) -> dict[Nb201Arch, int]:
        return {arch: row for row, arch in enumerate(self.archs)}

    def __len__(self) -> int:
        return len(self.archs)

    @classmethod
    def read(cls, path: Path | str | None = None) -> Nb201Table:
        """Read the file at `path`, or `nb201.parquet` in the folder that RECNAS_TABLES names."""
        path = find_table(path)
        try:
            table = pq.read_table(path)
        except (pa.ArrowInvalid, OSError) as error:
            raise DataError(f"{path} is not a Parquet table ({error}).", _SOURCE) from None
        missing = {"index", "arch"} - set(table.column_names)
        if missing:
            raise DataError(f"{path} has no column {' and no column '.join(sorted(missing))}.", _SOURCE)
        try:
            archs = tuple(map(Nb201Arch.from_text, table["arch"].to_pylist()))
        except SpaceError as error:
            raise DataError(f"{path}: {error.what}.", _SOURCE) from None
        if len(set(archs)) != len(archs):
            raise DataError(f"{path} lists a cell more than once.", _SOURCE)
        columns = {name: table[name].to_numpy().astype(np.float64) for name in table.column_names if _is_figure(name)}
        return cls(archs, tuple(table["index"].to_pylist()), columns, str(path))

    def accuracy(self, dataset: str, split: Split, epochs: int) -> np.ndarray:
        """Percent correct, in the order of `archs`."""
        if split not in SPLITS:
            raise DataError(f"there is no split {split!r}.", nearest_name(split, SPLITS))
        return self._column(dataset, split, epochs)

    def seconds(self, dataset: str, epochs: int) -> np.ndarray:
        """Training time of the authors' run, in the order of `archs`."""
        return self._column(dataset, "seconds", epochs)

    def of(self, arch: Nb201Arch, dataset: str, split: Split, epochs: int) -> float:
        """Percent correct of one cell as it was trained."""
        return float(self.accuracy(dataset, split, epochs)[self._row_of(arch)])

    def by_key(self, dataset: str, split: Split, epochs: int) -> dict[str, float]:
        """Percent correct by network: the mean over all cells with the same key."""
        return self.mean_by_key(self.accuracy(dataset, split, epochs))

    def mean_by_key(self, figures: np.ndarray) -> dict[str, float]:
        """The mean of any figures in the table's order over the cells that are one network."""
        found: dict[str, list[float]] = {}
        for arch, figure in zip(self.archs, figures):
            found.setdefault(key(arch), []).append(float(figure))
        return {name: float(np.mean(values)) for name, values in found.items()}

    def index_of(self, arch: Nb201Arch) -> int:
        """The official index."""
        return self.index[self._row_of(arch)]

    def _row_of(self, arch: Nb201Arch) -> int:
        if arch not in self._rows:
            raise DataError(f"{self.name} has no row for {arch.text}.", "Use a table that covers the whole space.")
        return self._rows[arch]

    def _column(self, dataset: str, what: str, epochs: int) -> np.ndarray:
        wanted = _ALIASES.get(dataset.lower(), dataset.lower())
        if wanted not in DATASETS:
            raise DataError(f"NAS-Bench-201 has no data set {dataset!r}.", nearest_name(dataset, DATASETS))
        name = f"{wanted}_{what}_{epochs}"
        if name not in self.columns:
            raise DataError(f"{self.name} has no column {name}.", f"It has: {', '.join(self.columns) or 'none'}.")
        return self.columns[name]


def find_table(path: Path | str | None = None) -> Path:
    """The table's file; a `DataError` says where to get it and where to put it."""
    if path is None:
        folder = os.environ.get(FOLDER)
        if not folder:
            raise DataError("where the NAS-Bench-201 table is is not known.", _SOURCE)
        path = folder
    found = Path(path)
    if found.is_dir():
        found = found / FILE
    if not found.is_file():
        raise DataError(f"there is no NAS-Bench-201 table at {found}.", _SOURCE)
    return found


def write_table(
    path: Path | str, archs: Sequence[Nb201Arch], index: Sequence[int], columns: Mapping[str, np.ndarray]
) -> None:
    """Write the format `Nb201Table.read` reads; accuracies in percent."""
    unknown = [name for name in columns if not _is_figure(name)]
    if unknown:
        raise DataError(f"a NAS-Bench-201 table has no column {unknown[0]!r}.", "Columns are <data>_<split>_<epochs>.")
    table = pa.table(
        {
            "index": pa.array(index, pa.int32()),
            "arch": [arch.text for arch in archs],
            **{name: pa.array(np.asarray(values, np.float32)) for name, values in columns.items()},
        }
    )
    write_atomic(Path(path), lambda file: pq.write_table(table, file, compression="zstd"))


def write_generated(path: Path | str, archs: Sequence[Nb201Arch], seed: int = 0) -> None:
    """A stand-in for tests and first tries: invented figures in the true format.

    Accuracy grows with the network's size under some noise, and cells without a live path guess.
    """
    rng = np.random.default_rng(seed)
    size = np.log([count(arch).params / count(Nb201Arch.from_number(0)).params for arch in archs])
    dead = np.array([not any(live_edges(arch)) for arch in archs])
    columns: dict[str, np.ndarray] = {}
    for dataset, guess, best in (("cifar10", 10.0, 94.0), ("cifar100", 1.0, 73.0), ("imagenet16", 0.8, 47.0)):
        for epochs in EPOCHS:
            level = best * (0.7 if epochs == 12 else 0.9) * (1 + 0.03 * size)
            for split in SPLITS:
                noisy = np.clip(level + rng.normal(0, 1.5, len(archs)), guess, 99.0)
                columns[f"{dataset}_{split}_{epochs}"] = np.where(dead, guess, noisy)
            columns[f"{dataset}_seconds_{epochs}"] = epochs * (10 + 5 * size)
    order = [int(n) for n in rng.permutation(len(archs))]
    write_table(path, archs, order, columns)


def _is_figure(name: str) -> bool:
    dataset, _, rest = name.partition("_")
    what, _, epochs = rest.partition("_")
    return dataset in DATASETS and what in (*SPLITS, "seconds") and epochs in map(str, EPOCHS)

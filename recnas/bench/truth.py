"""One face of every table of trained cells, for laying scores beside accuracies.

    truth = read_truth("nasbench101", "nb101.parquet")
    truth.archs, truth.keys, truth.accuracy("cifar10", "valid", 108)

| space | table | trained on |
|---|---|---|
| nasbench201 | `recnas.bench.nasbench201` | CIFAR-10, CIFAR-100, ImageNet16-120 |
| nasbench101 | `recnas.bench.vision_tables` | CIFAR-10 |
| darts | NAS-Bench-301 in `recnas.bench.vision_tables` | CIFAR-10 |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from recnas.bench.nasbench201 import Nb201Table, Split
from recnas.bench.vision_tables import SOURCES, VisionTable
from recnas.errors import DataError
from recnas.space.registry import get_space

SpaceName = Literal["nasbench201", "nasbench101", "darts"]
_KINDS = {"nasbench101": "nasbench101", "darts": "nasbench301"}  # the table of a space
_ONLY = "cifar10"


@dataclass(frozen=True)
class Truth:
    """Cells with their accuracies.

    Args:
        space: of the cells.
        archs: in the order of the table.
        name: the file, for messages.
        accuracy: percent by data set, split and epochs, in the order of `archs`; NaN where there is none.
    """

    space: str
    archs: tuple[Any, ...]
    name: str
    accuracy: Callable[[str, Split, int], np.ndarray]

    def __len__(self) -> int:
        return len(self.archs)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The network of every cell."""
        key = get_space(self.space).key
        return tuple(key(arch) for arch in self.archs)

    @classmethod
    def of_nasbench201(cls, table: Nb201Table) -> Truth:
        return cls("nasbench201", table.archs, table.name, table.accuracy)

    @classmethod
    def of_vision(cls, space: str, table: VisionTable) -> Truth:
        def accuracy(dataset: str, split: Split, epochs: int) -> np.ndarray:
            if dataset != _ONLY:
                raise DataError(
                    f"{table.kind} was trained on {_ONLY} alone, not on {dataset!r}.", f"Set datasets=[{_ONLY}]."
                )
            return table.accuracy(split, epochs)

        return cls(space, table.archs, table.name, accuracy)


def read_truth(space: SpaceName, path: Path | str | None) -> Truth:
    """The table of a space; without a path that of NAS-Bench-201 is looked for where RECNAS_TABLES says."""
    if space == "nasbench201":
        return Truth.of_nasbench201(Nb201Table.read(path))
    kind = _KINDS[space]
    if path is None:
        raise DataError(
            f"where the {kind} table is is not known.",
            f"Give table=PATH. It comes from {SOURCES[kind]}: recnas bench import {kind} --from FILE --out {kind}.parquet",
        )
    return Truth.of_vision(space, VisionTable.read(kind, path))

"""A space of cells with planted values and evidence about them, for searchers that need more than a space."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from recnas.searchers.objective import Objectives
from recnas.space.nasbench201 import Nb201Space
from recnas.space.nasbench201_arch import Nb201Arch
from recnas.testing.searcher_suite import LOSS, SearcherConformance

TARGETS = (Nb201Arch.from_digits("331323"), Nb201Arch.from_digits("142230"))


def noise(arch: Nb201Arch) -> float:
    """Between 0 and 1, and always the same for a cell."""
    return zlib.crc32(arch.digits.encode()) / 2**32


def differs(arch: Nb201Arch, target: Nb201Arch = TARGETS[0]) -> float:
    return sum(a != b for a, b in zip(arch.ops, target.ops)) / 6


class PlantedEvidence:
    """`good` falls with the planted loss under noise, `kappa` rises with it; every 50th network is dead."""

    def __init__(self) -> None:
        self.asked: list[Nb201Arch] = []

    def figures(self, archs: Sequence[Nb201Arch], names: Sequence[str]) -> np.ndarray:
        self.asked += archs
        columns = {
            "good": [2 - differs(a) + noise(a) if a.number % 50 else np.nan for a in archs],
            "kappa": [10 + 20 * differs(a) + 10 * noise(a) for a in archs],
        }
        return np.array([columns[name] for name in names])


class CellConformance(SearcherConformance):
    """The suite on cells: the planted loss is the share of edges that differ from one cell."""

    def space(self):
        return Nb201Space()

    def values(self, arch: Any, objectives: Objectives = LOSS) -> dict[str, float]:
        both = {"loss": differs(arch), "gain": 1 - differs(arch, TARGETS[1])}
        return {name: both[name] for name in objectives.names}

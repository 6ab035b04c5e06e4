"""One cell of a NAS-Bench-1Shot1 space."""

from __future__ import annotations

from dataclasses import dataclass

from recnas.space.nasbench101.arch import Nb101Arch, prune


@dataclass(frozen=True)
class OneShotArch:
    """Per node (the output last) its parents in increasing order, and per inner node its operation."""

    parents: tuple[tuple[int, ...], ...]
    ops: tuple[str, ...]

    def cell(self) -> Nb101Arch:
        """The NAS-Bench-101 cell, loose ends dropped."""
        n = len(self.parents) + 1
        matrix = tuple(tuple(int(j > 0 and i in self.parents[j - 1]) for j in range(n)) for i in range(n))
        cell = prune(Nb101Arch(matrix, self.ops))
        assert cell is not None  # every node has a parent
        return cell

"""NAS-Bench-1Shot1: three spaces that a supernet can hold, inside NAS-Bench-101.

Zela, Siems and Hutter, "NAS-Bench-1Shot1: Benchmarking and Dissecting One-shot Neural Architecture Search"
(2020). A cell has a fixed number of nodes, and every node a fixed number of parents among the ones before:

    space   parents of node 1, 2, ..., and of the output
    1       1 2 2 2    2
    2       1 1 2 2    3
    3       1 1 1 2 2  2

Nodes that do not lead to the output (loose ends) are dropped when the choice becomes a NAS-Bench-101 cell;
`key` is the key of that cell.

What is counted differs between publications, so three counts are kept apart (`counts`):

    space   writings     read by any     live        published
    1         14,580       6,240         3,702         6,240
    2         29,160      16,632        12,474        29,160
    3      1,312,200     363,648       135,900       363,648

"Writings" are all choices of parents and operations, what `size` says and `sample` draws from evenly. "Read by
any" counts operations only of nodes that some node or the output reads; "live" counts labelled graphs without
loose ends. What the published figures count is inferred, not documented: "read by any" gives those of spaces 1
and 3 but not that of space 2, which equals the number of writings; no single rule tried gives all three.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from math import comb, prod
from typing import Any

from numpy.random import Generator

from recnas.errors import SpaceError
from recnas.space.base import nearest_name
from recnas.space.blueprint import Blueprint
from recnas.space.drawing import Row
from recnas.space.nasbench1shot1.arch import OneShotArch
from recnas.space.nasbench101 import Nb101Space
from recnas.space.nasbench101.arch import OPS, key
from recnas.space.vision import VisionSpace

NAME = "nasbench1shot1"
PARENTS = {1: (1, 2, 2, 2, 2), 2: (1, 1, 2, 2, 3), 3: (1, 1, 1, 2, 2, 2)}  # the last one is the output's


class OneShotSpace(VisionSpace[OneShotArch]):
    """One of the three spaces. One change means another operation, or another parent for one node.

    Args:
        number: 1, 2 or 3.
    """

    def __init__(self, number: int) -> None:
        if number not in PARENTS:
            raise SpaceError(f"there is no NAS-Bench-1Shot1 space {number}", "use 1, 2 or 3")
        self.number = number
        self.wanted = PARENTS[number]
        self.name = f"{NAME}-{number}"

    def sample(self, rng: Generator) -> OneShotArch:
        parents = []
        for node, many in enumerate(self.wanted, start=1):
            options = list(combinations(range(node), many))
            parents.append(options[int(rng.integers(len(options)))])
        ops = tuple(OPS[int(i)] for i in rng.integers(len(OPS), size=len(self.wanted) - 1))
        return OneShotArch(tuple(parents), ops)

    def mutate(self, arch: OneShotArch, rng: Generator) -> OneShotArch:
        """There always is one: the output reads a node, whose operation can be another."""
        changes = list(_one_change_away(arch))
        for place in rng.permutation(len(changes)):
            if self.key(changes[int(place)]) != self.key(arch):
                return changes[int(place)]
        raise AssertionError("no change changes the network")

    def validate(self, arch: OneShotArch) -> None:
        faults = []
        if len(arch.parents) != len(self.wanted):
            faults.append(f"parents of {len(arch.parents)} nodes where {self.name} has {len(self.wanted)}")
        else:
            for node, (found, many) in enumerate(zip(arch.parents, self.wanted), start=1):
                if len(found) != many or list(found) != sorted({p for p in found if 0 <= p < node}):
                    faults.append(
                        f"node {node} has parents {list(found)} where {many} different earlier ones, in order, belong"
                    )
        if len(arch.ops) != len(self.wanted) - 1:
            faults.append(f"{len(arch.ops)} operations for {len(self.wanted) - 1} inner nodes")
        for op in dict.fromkeys(arch.ops):
            if op not in OPS:
                faults.append(f"unknown operation {op!r} ({nearest_name(str(op), OPS)})")
        if faults:
            raise SpaceError(f"not a cell of {self.name}: {'; '.join(faults)}", f"use {', '.join(OPS)}")

    def size(self) -> int:
        """Writings: every choice of parents and operations."""
        graphs = prod(comb(node, many) for node, many in enumerate(self.wanted, start=1))
        return graphs * len(OPS) ** (len(self.wanted) - 1)

    def counts(self) -> dict[str, int]:
        """The three ways to count, by name; see the module's docstring."""
        read_by_any = 0
        live = set()
        last = len(self.wanted)
        options = [combinations(range(node), many) for node, many in enumerate(self.wanted, start=1)]
        for parents in product(*options):
            read_by_any += len(OPS) ** len({p for some in parents for p in some} - {0})
            kept = {last}
            for node in reversed(range(1, last + 1)):
                if node in kept:
                    kept |= set(parents[node - 1]) - {0}
            live.add(tuple((node, parents[node - 1]) for node in sorted(kept)))
        return {
            "writings": self.size(),
            "read_by_any": read_by_any,
            "live": sum(len(OPS) ** (len(graph) - 1) for graph in live),
        }

    def neighbours(self, arch: OneShotArch) -> Iterator[OneShotArch]:
        seen = {self.key(arch)}
        for other in _one_change_away(arch):
            if (name := self.key(other)) not in seen:
                seen.add(name)
                yield other

    def key(self, arch: OneShotArch) -> str:
        return key(arch.cell())

    def to_dict(self, arch: OneShotArch) -> dict[str, Any]:
        return {"space": self.name, "parents": [list(some) for some in arch.parents], "ops": list(arch.ops)}

    def from_dict(self, data: dict[str, Any]) -> OneShotArch:
        try:
            if data.get("space", self.name) != self.name:
                raise KeyError
            parents = tuple(tuple(int(p) for p in some) for some in data["parents"])
            arch = OneShotArch(parents, tuple(str(op) for op in data["ops"]))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise SpaceError(
                f"{str(data)[:80]} does not describe a cell of {self.name}",
                f'write {{"space": "{self.name}", "parents": [[0], ...], "ops": ["conv3x3-bn-relu", ...]}}',
            ) from None
        self.validate(arch)
        return arch

    def blueprint(
        self,
        arch: OneShotArch,
        classes: int = 10,
        image: int = 32,
        channels: int = 16,
        cells: int = 3,
        stacks: int = 3,
    ) -> Blueprint:
        return Nb101Space().blueprint(arch.cell(), classes, image, channels, cells, stacks)

    def rows(self, name: str, arch: OneShotArch) -> list[Row]:
        return Nb101Space().rows(name, arch.cell())


def _one_change_away(arch: OneShotArch) -> Iterator[OneShotArch]:
    for place, now in enumerate(arch.ops):
        for op in OPS:
            if op != now:
                yield OneShotArch(arch.parents, (*arch.ops[:place], op, *arch.ops[place + 1 :]))
    for place, now_parents in enumerate(arch.parents):
        for old in now_parents:
            for new in range(place + 1):
                if new not in now_parents:
                    changed = tuple(sorted((set(now_parents) - {old}) | {new}))
                    yield OneShotArch((*arch.parents[:place], changed, *arch.parents[place + 1 :]), arch.ops)

"""NAS-Bench-101: cells of up to 7 vertices and 9 edges, 423,624 of them different.

Ying et al., "NAS-Bench-101: Towards Reproducible Neural Architecture Search" (2019).

    space = Nb101Space()
    cell = space.sample(numpy.random.default_rng(0))
    cell.text, space.key(cell), official_hash(cell)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from numpy.random import Generator

from recnas.errors import SpaceError
from recnas.space.blueprint import Blueprint
from recnas.space.drawing import Box, Link, Row
from recnas.space.nasbench101.arch import (
    CONV1,
    CONV3,
    EDGES,
    OPS,
    POOL,
    VERTICES,
    Nb101Arch,
    canonical,
    key,
    live_vertices,
    prune,
    shape_faults,
)
from recnas.space.nasbench101.skeleton import Nb101Blueprint, Nb101Skeleton
from recnas.space.vision import VisionSpace

NAME = "nasbench101"

# Pruned upper triangular matrices with at most 9 edges, by number of vertices (2 to 7).
MATRICES = (1, 2, 10, 121, 1_545, 4_793)


_LABELS = {CONV3: "conv 3×3", CONV1: "conv 1×1", POOL: "max 3×3"}


class Nb101Space(VisionSpace[Nb101Arch]):
    """Pruned cells. Drawn as the benchmark's authors do: every edge of seven vertices by a coin, every
    operation evenly, then pruned, until one has 9 edges at most.

    One change means: another operation, an edge more or less (what dies is pruned), or a new vertex between two.
    """

    name = NAME
    pattern = re.compile(r"[01]{4,49}/[\w,-]*")

    def sample(self, rng: Generator) -> Nb101Arch:
        while True:  # about three draws in four are cells
            coins = rng.integers(2, size=(VERTICES, VERTICES))
            ops = tuple(OPS[int(i)] for i in rng.integers(len(OPS), size=VERTICES - 2))
            matrix = tuple(tuple(int(coins[i, j]) if i < j else 0 for j in range(VERTICES)) for i in range(VERTICES))
            cell = prune(Nb101Arch(matrix, ops))
            if cell is not None and len(cell.edges) <= EDGES:
                return cell

    def mutate(self, arch: Nb101Arch, rng: Generator) -> Nb101Arch:
        """One change, evenly among those that give a valid cell that is another network; there always is one."""
        changes = list(_one_change_away(arch))
        for place in rng.permutation(len(changes)):
            cell = prune(changes[int(place)])
            if cell is not None and len(cell.edges) <= EDGES and key(cell) != key(arch):
                return cell
        raise AssertionError("the operation of a vertex can always be changed, or a vertex added")

    def validate(self, arch: Nb101Arch) -> None:
        faults = shape_faults(arch)
        if not faults:
            dead = set(range(arch.vertices)) - set(live_vertices(arch))
            if dead:
                faults.append(f"vertices {sorted(dead)} lie on no path from input to output (prune the cell)")
            if len(arch.edges) > EDGES:
                faults.append(f"{len(arch.edges)} edges, more than {EDGES}")
        if faults:
            raise SpaceError(f"not a NAS-Bench-101 cell: {'; '.join(faults)}", f"use {', '.join(OPS)}")

    def size(self) -> int:
        """Pruned writings; 423,624 of them are different up to isomorphism."""
        return sum(count * len(OPS) ** inner for inner, count in enumerate(MATRICES))

    def neighbours(self, arch: Nb101Arch) -> Iterator[Nb101Arch]:
        seen = {key(arch)}
        for other in _one_change_away(arch):
            cell = prune(other)
            if cell is not None and len(cell.edges) <= EDGES and key(cell) not in seen:
                seen.add(key(cell))
                yield cell

    def key(self, arch: Nb101Arch) -> str:
        return key(arch)

    def to_dict(self, arch: Nb101Arch) -> dict[str, Any]:
        return {
            "space": NAME,
            "matrix": [list(row) for row in arch.matrix],
            "ops": ["input", *arch.ops, "output"],
        }

    def from_dict(self, data: dict[str, Any]) -> Nb101Arch:
        """Also reads the names of the published files, `module_adjacency` and `module_operations`."""
        if isinstance(data, dict) and data.get("space", NAME) == NAME:
            if isinstance(data.get("arch"), str):
                return Nb101Arch.from_text(data["arch"])
            matrix = data.get("matrix", data.get("module_adjacency"))
            ops = data.get("ops", data.get("module_operations"))
            if isinstance(matrix, list) and isinstance(ops, list):
                cell = Nb101Arch.from_matrix(matrix, ops)
                self.validate(cell)
                return cell
        raise SpaceError(
            f"{str(data)[:80]} does not describe a NAS-Bench-101 cell",
            f'write {{"space": "{NAME}", "matrix": [[0, 1, 0], ...], "ops": ["input", "conv3x3-bn-relu", "output"]}}',
        )

    def from_text(self, text: str) -> Nb101Arch:
        return Nb101Arch.from_text(text)

    def blueprint(
        self,
        arch: Nb101Arch,
        classes: int = 10,
        image: int = 32,
        channels: int = 16,
        cells: int = 3,
        stacks: int = 3,
    ) -> Blueprint:
        return Nb101Blueprint(canonical(arch), Nb101Skeleton(channels, stacks, cells, classes, image))

    def rows(self, name: str, arch: Nb101Arch) -> list[Row]:
        boxes = [Box("in", "the cell's input", "sparse")]
        boxes += [Box(_LABELS[op], f"vertex {v}: {op}") for v, op in enumerate(arch.ops, start=1)]
        boxes.append(Box("out", "the cell's output", "sparse"))
        return [Row(name, tuple(boxes), tuple(Link(i, j) for i, j in arch.edges))]


def _one_change_away(arch: Nb101Arch) -> Iterator[Nb101Arch]:
    n = arch.vertices
    for place, now in enumerate(arch.ops):
        for op in OPS:
            if op != now:
                yield Nb101Arch(arch.matrix, (*arch.ops[:place], op, *arch.ops[place + 1 :]))
    for i in range(n):
        for j in range(i + 1, n):
            rows = [list(row) for row in arch.matrix]
            rows[i][j] = 1 - rows[i][j]
            yield Nb101Arch(tuple(map(tuple, rows)), arch.ops)
    if n < VERTICES:
        for i in range(n - 1):
            for j in range(i + 1, n):
                for op in OPS:
                    yield _with_vertex(arch, i, j, op)


def _with_vertex(arch: Nb101Arch, i: int, j: int, op: str) -> Nb101Arch:
    """A new vertex right after i that reads i and is read by j."""
    at = i + 1
    rows = [[*row[:at], 0, *row[at:]] for row in arch.matrix]
    rows.insert(at, [0] * (arch.vertices + 1))
    rows[i][at] = 1
    rows[at][j + 1] = 1
    return Nb101Arch(tuple(map(tuple, rows)), (*arch.ops[: at - 1], op, *arch.ops[at - 1 :]))

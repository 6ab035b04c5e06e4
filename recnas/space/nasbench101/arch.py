"""One NAS-Bench-101 cell: an upper triangular matrix of edges and an operation on every inner vertex.

Vertex 0 is the cell's input and the last one its output; at most 7 vertices and 9 edges. Parts that lie on
no path from input to output do nothing: `prune` removes them, and every cell of the space is pruned.

    text    0110001.../conv3x3-bn-relu,maxpool3x3,...        rows of the matrix, then the inner operations
    dict    {"matrix": [[0, 1, ...], ...], "ops": ["input", "conv3x3-bn-relu", ..., "output"]}

Two names exist for a cell. `key` is equal exactly for isomorphic cells. `official_hash` is the name the
published table uses, found by repeated hashing of neighbourhoods.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations, product
from math import isqrt
from typing import Any

from recnas.errors import SpaceError
from recnas.space.base import nearest_name

CONV3, CONV1, POOL = "conv3x3-bn-relu", "conv1x1-bn-relu", "maxpool3x3"
OPS = (CONV3, CONV1, POOL)
INPUT, OUTPUT = "input", "output"
VERTICES = 7
EDGES = 9
_SHORT = {CONV3: "3", CONV1: "1", POOL: "p"}

Matrix = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Nb101Arch:
    """A cell as written: `matrix[i][j]` is 1 for an edge from i to j; `ops` are the inner vertices'."""

    matrix: Matrix
    ops: tuple[str, ...]

    @property
    def vertices(self) -> int:
        return len(self.matrix)

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        n = self.vertices
        return tuple((i, j) for i in range(n) for j in range(n) if self.matrix[i][j])

    @property
    def text(self) -> str:
        return "".join(str(bit) for row in self.matrix for bit in row) + "/" + ",".join(self.ops)

    @classmethod
    def from_text(cls, text: str) -> Nb101Arch:
        """Read `text` and prune; raises `SpaceError` naming what is wrong."""
        bits, slash, ops = text.strip().partition("/")
        side = isqrt(len(bits))
        if not slash or side * side != len(bits) or not set(bits) <= {"0", "1"} or side < 2:
            raise SpaceError(
                f"{text!r} is not a NAS-Bench-101 cell",
                "write the rows of the square matrix, a slash and the inner operations, e.g. 010001000/conv3x3-bn-relu",
            )
        matrix = [[int(bit) for bit in bits[i * side : (i + 1) * side]] for i in range(side)]
        return cls.from_matrix(matrix, ops.split(",") if ops else [])

    @classmethod
    def from_matrix(cls, matrix: Any, ops: Sequence[str]) -> Nb101Arch:
        """A pruned cell from a matrix and operations, with or without "input" and "output" at the ends."""
        inner = list(ops)
        if inner and inner[0] == INPUT:
            inner = inner[1:]
        if inner and inner[-1] == OUTPUT:
            inner = inner[:-1]
        try:
            rows = tuple(tuple(int(bit) for bit in row) for row in matrix)
        except (TypeError, ValueError):
            raise SpaceError(f"{matrix!r} is not a matrix of 0 and 1", "give one list per vertex") from None
        cell = cls(rows, tuple(inner))
        faults = shape_faults(cell)
        if faults:
            raise SpaceError(f"not a NAS-Bench-101 cell: {'; '.join(faults)}", f"use {', '.join(OPS)}")
        pruned = prune(cell)
        if pruned is None:
            raise SpaceError("not a NAS-Bench-101 cell: no path leads from its input to its output", "add an edge")
        return pruned


def shape_faults(cell: Nb101Arch) -> list[str]:
    """What is wrong with the writing itself, whatever the graph."""
    n = cell.vertices
    faults = []
    if n < 2 or any(len(row) != n for row in cell.matrix):
        return [f"the matrix must be square with at least 2 rows, but has rows of {[len(r) for r in cell.matrix]}"]
    if n > VERTICES:
        faults.append(f"{n} vertices, more than {VERTICES}")
    if any(bit not in (0, 1) for row in cell.matrix for bit in row):
        faults.append("the matrix must hold only 0 and 1")
    if any(cell.matrix[i][j] for i in range(n) for j in range(i + 1)):
        faults.append("the matrix must be upper triangular: an edge leads to a later vertex")
    if len(cell.ops) != n - 2:
        faults.append(f"{len(cell.ops)} operations for {n - 2} inner vertices")
    for op in dict.fromkeys(cell.ops):
        if op not in OPS:
            faults.append(f"unknown operation {op!r} ({nearest_name(str(op), OPS)})")
    return faults


def live_vertices(cell: Nb101Arch) -> tuple[int, ...]:
    """Those on a path from input to output."""
    n = cell.vertices
    reached, read = {0}, {n - 1}
    for j in range(1, n):
        if any(cell.matrix[i][j] and i in reached for i in range(j)):
            reached.add(j)
    for i in reversed(range(n - 1)):
        if any(cell.matrix[i][j] and j in read for j in range(i + 1, n)):
            read.add(i)
    return tuple(sorted(reached & read))


def prune(cell: Nb101Arch) -> Nb101Arch | None:
    """The same cell without dead vertices; None if nothing is left."""
    live = live_vertices(cell)
    if 0 not in live or cell.vertices - 1 not in live:
        return None
    if len(live) == cell.vertices:
        return cell
    matrix = tuple(tuple(cell.matrix[i][j] for j in live) for i in live)
    return Nb101Arch(matrix, tuple(cell.ops[v - 1] for v in live[1:-1]))


@lru_cache(maxsize=2**14)
def canonical(cell: Nb101Arch) -> Nb101Arch:
    """One writing for all isomorphic cells.

    Vertices are ordered by how far they are from the input (so edges lead onwards), then by operation and by
    what their neighbourhoods look like; among vertices that look alike, the order with the least matrix wins.
    """
    n = cell.vertices
    colours = _colours(cell)
    groups: dict[tuple[int, ...], list[int]] = {}
    for v in range(1, n - 1):
        groups.setdefault(colours[v], []).append(v)
    alike = [groups[colour] for colour in sorted(groups)]
    best: tuple[Matrix, tuple[int, ...]] | None = None
    for choice in product(*(permutations(group) for group in alike)):
        order = (0, *(v for group in choice for v in group), n - 1)
        matrix = tuple(tuple(cell.matrix[i][j] for j in order) for i in order)
        if best is None or matrix < best[0]:
            best = (matrix, order)
    assert best is not None
    return Nb101Arch(best[0], tuple(cell.ops[v - 1] for v in best[1][1:-1]))


def _colours(cell: Nb101Arch) -> list[tuple[int, ...]]:
    """Per vertex numbers that no renaming of vertices changes: (depth, operation, look of the neighbourhood)."""
    n = cell.vertices
    depth = [0] * n
    for j in range(1, n):
        depth[j] = 1 + max((depth[i] for i in range(j) if cell.matrix[i][j]), default=0)
    labels = [-1, *(OPS.index(op) for op in cell.ops), -2]
    look = labels
    for _ in range(3):
        seen = [
            (
                look[v],
                sorted(look[i] for i in range(v) if cell.matrix[i][v]),
                sorted(look[j] for j in range(v + 1, n) if cell.matrix[v][j]),
            )
            for v in range(n)
        ]
        ranks = sorted(seen)
        look = [ranks.index(one) for one in seen]
    return [(depth[v], labels[v], look[v]) for v in range(n)]


def key(cell: Nb101Arch) -> str:
    """Equal exactly for isomorphic cells: inner operations, and the upper triangle as a number."""
    least = canonical(cell)
    n = least.vertices
    bits = "1" + "".join(str(least.matrix[i][j]) for i in range(n) for j in range(i + 1, n))
    return f"nb101-{''.join(_SHORT[op] for op in least.ops)}-{int(bits, 2):x}"


def official_hash(cell: Nb101Arch) -> str:
    """The name of the cell in the published table, 32 hexadecimal digits.

    Every vertex starts as a digest of (edges out, edges in, label) and takes up its neighbours' digests as
    many times as there are vertices; the cell's name is the digest of the sorted list. Labels are -1 for the
    input, -2 for the output, and 0, 1, 2 in the order of `OPS`.
    """
    n = cell.vertices
    labels = [-1, *(OPS.index(op) for op in cell.ops), -2]
    names = [_md5(str((sum(cell.matrix[v]), sum(row[v] for row in cell.matrix), labels[v]))) for v in range(n)]
    for _ in range(n):
        names = [
            _md5(
                "|".join(
                    (
                        "".join(sorted(names[i] for i in range(n) if cell.matrix[i][v])),
                        "".join(sorted(names[j] for j in range(n) if cell.matrix[v][j])),
                        names[v],
                    )
                )
            )
            for v in range(n)
        ]
    return _md5(str(sorted(names)))


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()

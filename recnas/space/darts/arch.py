"""One DARTS architecture: a normal and a reduction cell, as papers write them.

    Genotype(normal=[('sep_conv_3x3', 1), ('sep_conv_3x3', 0), ...], normal_concat=range(2, 6),
             reduce=[('max_pool_3x3', 0), ...], reduce_concat=range(2, 6))

A cell reads the outputs of the two cells before it (0: the one before the last, 1: the last) and has four
nodes, 2 to 5. A node is the sum of two operations on two different earlier values; the cell's output is all
four nodes side by side. Text is read as a literal: nothing in it is ever run.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import Any

from recnas.errors import SpaceError
from recnas.space.base import nearest_name

MAX_POOL, AVG_POOL, SKIP = "max_pool_3x3", "avg_pool_3x3", "skip_connect"
SEP3, SEP5, DIL3, DIL5 = "sep_conv_3x3", "sep_conv_5x5", "dil_conv_3x3", "dil_conv_5x5"
OPS = (MAX_POOL, AVG_POOL, SKIP, SEP3, SEP5, DIL3, DIL5)
NODES = 4
INPUTS = 2
FIELDS = ("normal", "normal_concat", "reduce", "reduce_concat")

Edge = tuple[str, int]  # operation, which value it reads
Cell = tuple[tuple[Edge, Edge], ...]  # by node

_EXAMPLE = "Genotype(normal=[('sep_conv_3x3', 0), ...8 pairs], normal_concat=range(2, 6), reduce=[...], reduce_concat=range(2, 6))"


@dataclass(frozen=True)
class DartsArch:
    """Both cells as written; two writings may be the same network (`canonical`)."""

    normal: Cell
    reduce: Cell

    @property
    def text(self) -> str:
        """The published way to write it."""
        normal, reduce = ([edge for node in cell for edge in node] for cell in (self.normal, self.reduce))
        return f"Genotype(normal={normal}, normal_concat=range(2, 6), reduce={reduce}, reduce_concat=range(2, 6))"

    @classmethod
    def from_text(cls, text: str) -> DartsArch:
        """Read a genotype; raises `SpaceError` naming what is wrong."""
        fields = _fields(text)
        faults = [f"{name} is missing" for name in FIELDS if name not in fields]
        faults += [f"there is no field {name!r}" for name in fields if name not in FIELDS]
        cells = {}
        for name in ("normal", "reduce"):
            if name in fields:
                cells[name], wrong = read_cell(fields[name], name)
                faults += wrong
            concat = fields.get(f"{name}_concat")
            if concat is not None and _numbers(concat) != [2, 3, 4, 5]:
                faults.append(f"{name}_concat joins {concat!r}; here a cell joins its four nodes, range(2, 6)")
        if faults:
            raise _malformed(faults)
        return cls(cells["normal"], cells["reduce"])


def read_cell(value: Any, name: str) -> tuple[Cell, list[str]]:
    """A cell from eight (operation, input) pairs, and what is wrong with it."""
    if not isinstance(value, (list, tuple)) or len(value) != 2 * NODES:
        return (), [f"{name} must be a list of {2 * NODES} pairs (operation, input)"]
    edges: list[Edge] = []
    faults = []
    for place, pair in enumerate(value):
        if (
            not isinstance(pair, (list, tuple))
            or len(pair) != 2
            or not isinstance(pair[0], str)
            or type(pair[1]) is not int
        ):
            faults.append(f"{name}[{place}] must be a pair (operation, input), not {pair!r}")
            continue
        edges.append((pair[0], pair[1]))
    if faults:
        return (), faults
    cell = tuple((edges[2 * n], edges[2 * n + 1]) for n in range(NODES))
    return cell, cell_faults(cell, name)


def cell_faults(cell: Cell, name: str) -> list[str]:
    """Everything that keeps `cell` out of the space."""
    if len(cell) != NODES or any(len(node) != 2 for node in cell):
        return [f"{name} must have {NODES} nodes with two edges each"]
    faults = []
    for number, node in enumerate(cell, start=INPUTS):
        for op, source in node:
            if op not in OPS:
                faults.append(f"{name}, node {number}: no operation {op!r} ({nearest_name(op, OPS)})")
            if not 0 <= source < number:
                faults.append(f"{name}, node {number}: reads {source}, which is not before it")
        if node[0][1] == node[1][1]:
            faults.append(f"{name}, node {number}: reads {node[0][1]} twice; the inputs must differ")
    return faults


def canonical(arch: DartsArch) -> DartsArch:
    """The same network in its one canonical writing."""
    return DartsArch(canonical_cell(arch.normal), canonical_cell(arch.reduce))


@lru_cache(maxsize=2**14)
def canonical_cell(cell: Cell) -> Cell:
    """The least writing among all orders of the nodes and of each node's two inputs.

    Whoever reads a cell's output mixes all its channels, so the order of the nodes names nothing.
    """
    best: tuple[tuple[tuple[int, int], ...], ...] | None = None
    for order in permutations(range(NODES)):  # order[i] is the node that comes i-th
        new = {0: 0, 1: 1} | {INPUTS + old: INPUTS + place for place, old in enumerate(order)}
        if any(new[source] >= INPUTS + place for place, old in enumerate(order) for _, source in cell[old]):
            continue
        written = tuple(tuple(sorted((new[source], OPS.index(op)) for op, source in cell[old])) for old in order)
        if best is None or written < best:
            best = written
    assert best is not None
    return tuple(((OPS[a[1]], a[0]), (OPS[b[1]], b[0])) for a, b in best)


def key(arch: DartsArch) -> str:
    """Name of the network: per edge a digit for its input and one for its operation, in canonical order."""
    parts = []
    for cell in (canonical_cell(arch.normal), canonical_cell(arch.reduce)):
        parts.append("".join(f"{source}{OPS.index(op)}" for node in cell for op, source in node))
    return "darts-" + "-".join(parts)


def _fields(text: str) -> dict[str, Any]:
    """Keyword arguments of the one call in `text`, as literals; `range(a, b)` is allowed."""
    try:
        found = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise _malformed(["it is not written as a Python literal"]) from None
    if not isinstance(found, ast.Call) or not isinstance(found.func, ast.Name) or found.func.id != "Genotype":
        raise _malformed(["it must be Genotype(...)"])
    if found.args or any(word.arg is None for word in found.keywords):
        raise _malformed(["give the fields by name"])
    fields: dict[str, Any] = {}
    for word in found.keywords:
        assert word.arg is not None
        node = word.value
        try:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
                fields[word.arg] = ("range", [ast.literal_eval(argument) for argument in node.args])
            else:
                fields[word.arg] = ast.literal_eval(node)
        except (ValueError, TypeError, RecursionError):
            raise _malformed([f"{word.arg} is not a plain value"]) from None
    return fields


def _numbers(concat: Any) -> list[int] | None:
    if isinstance(concat, tuple) and len(concat) == 2 and concat[0] == "range":
        bounds = concat[1]
        whole = 1 <= len(bounds) <= 2 and all(type(bound) is int for bound in bounds)
        return list(range(*bounds))[:10] if whole else None
    return sorted(concat) if isinstance(concat, (list, tuple)) and all(type(n) is int for n in concat) else None


def _malformed(faults: list[str]) -> SpaceError:
    return SpaceError(f"not a DARTS genotype: {'; '.join(faults)}", f"write {_EXAMPLE}")

"""What a NAS-Bench-201 cell computes, and a name for it.

A cell is compiled to a short program: its live convolutions and poolings in a canonical order, each applied
to a sum of earlier values (0 is the cell's input, j the result of operation j), and the sum that leaves the
cell. Skips disappear into the sums, dead edges disappear altogether, and a pooling that two edges apply to
the same value happens once. Cells with the same program are one and the same network, weight for weight:

    341311   4(0) 3(0) 3(0), out 1+2+2+3        key nb201-40-30-30-out1223

The key is that program, so it says what it names. Three notions of "the same cell" must be told apart:

    9,445 live graphs        dead edges removed, nothing else (`live_graph`)
    6,466 published classes  the benchmark's own count (`published_class`), as stored with the official table
    5,260 programs           `key`: the same network

The published classes are not quite the same network, in both directions. They keep cells apart that differ
by an edge no path uses, and they merge cells that differ in which weights are shared: `a + a` (one
convolution, counted twice through a skip) reads like `a + b` (two convolutions) when results are written out
as text; 430 of the 6,466 classes hold cells with different numbers of parameters. Use them to reproduce
published counts, and `key` for everything else.

Deliberately not merged: cells that agree by algebra rather than by construction, such as the pooled sum and
the sum of the pooled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations, product

from recnas.space.nasbench201.arch import (
    CONV1,
    CONV3,
    EDGES,
    NONE,
    OPS,
    OUTPUT,
    POOL,
    SIZE,
    SKIP,
    Nb201Arch,
    live_edges,
)

FAMILY = "nb201"
CONVS = (CONV1, CONV3)
Value = tuple[int, ...]  # a sum: which values, as often as they count, in increasing order


@dataclass(frozen=True)
class CellOp:
    """One convolution (ReLU, convolution, normalisation) or pooling of a program.

    `label` says what it is applied to, all the way down, and which of several alike it is; it depends on
    nothing else in the cell, so that initial weights may be drawn by it.
    """

    op: str
    inputs: Value
    label: str


@dataclass(frozen=True)
class CellProgram:
    """Operations 1, 2, ... in order, and the sum that leaves the cell; an empty sum is zero."""

    ops: tuple[CellOp, ...]
    output: Value

    @property
    def key(self) -> str:
        steps = [f"{OPS.index(step.op)}{_digits(step.inputs)}" for step in self.ops]
        return "-".join([FAMILY, *steps, f"out{_digits(self.output)}"])


@lru_cache(maxsize=SIZE)
def compile_cell(arch: Nb201Arch) -> tuple[CellProgram, tuple[int, ...]]:
    """The program, and for every edge the number of the operation it became (0: none; dead, or a skip)."""
    draft = _Draft(arch)
    best, order = min((_renumber(draft, order), order) for order in draft.orders())
    steps = tuple(
        CellOp(draft.ops[old], best[new], label) for new, (old, label) in enumerate(zip(order, draft.labels(order)))
    )
    number = {old: new for new, old in enumerate(order, start=1)}
    return CellProgram(steps, best[-1]), tuple(number.get(old, 0) if old else 0 for old in draft.at_edge)


def key(arch: Nb201Arch) -> str:
    """Name of the network; equal exactly for cells with the same program."""
    return compile_cell(arch)[0].key


def published_class(arch: Nb201Arch) -> str:
    """Text that is equal for cells the benchmark's authors count as one: 6,466 different ones.

    Every node is written as the sorted sum of its inputs, with `#` for zero; a sum that passes through a
    skip is not taken apart again, and `#` stays visible in a sum. That is what makes 6,466.
    """
    nodes = {0: "0"}
    for node in range(1, OUTPUT + 1):
        terms = []
        for op, (start, end) in zip(arch.ops, EDGES):
            if end == node:
                source = nodes[start]
                zero = op == NONE or source == "#"
                terms.append("#" if zero else source if op == SKIP else f"({source})@{op}")
        nodes[node] = "+".join(sorted(terms))
    return nodes[OUTPUT]


class _Draft:
    """The live operations in the order of their edges, numbered from 1, and how they may be renumbered."""

    def __init__(self, arch: Nb201Arch) -> None:
        self.ops: dict[int, str] = {}
        self.inputs: dict[int, Value] = {}
        self.trees: dict[int, str] = {}  # an operation written out in full, weight sharing ignored
        self.at_edge: list[int] = []
        values: dict[int, Value] = {0: (0,)}
        pools: dict[Value, int] = {}
        for op, (start, end), live in zip(arch.ops, EDGES, live_edges(arch)):
            if not live:
                self.at_edge.append(0)
                continue
            source = values[start]
            if op == SKIP:
                self.at_edge.append(0)
                added = source
            else:
                number = pools.get(source, 0) if op == POOL else 0
                if not number:
                    number = len(self.ops) + 1
                    self.ops[number], self.inputs[number] = op, source
                    self.trees[number] = f"{op}({self._written(source)})"
                    if op == POOL:
                        pools[source] = number
                self.at_edge.append(number)
                added = (number,)
            values[end] = tuple(sorted(values.get(end, ()) + added))
        self.output = values.get(OUTPUT, ())

    def _written(self, value: Value) -> str:
        return "+".join(sorted("x" if number == 0 else self.trees[number] for number in value))

    def _groups(self) -> list[list[int]]:
        """Operations that read alike, together; what an operation reads stands before it."""
        by_tree: dict[str, list[int]] = {}
        for number, tree in self.trees.items():
            by_tree.setdefault(tree, []).append(number)
        return [by_tree[tree] for tree in sorted(by_tree, key=lambda tree: (len(tree), tree))]

    def orders(self) -> Iterator[tuple[int, ...]]:
        """Every order that differs only among operations that read alike."""
        for choice in product(*(permutations(group) for group in self._groups())):
            yield tuple(number for group in choice for number in group)

    def labels(self, order: Sequence[int]) -> list[str]:
        seen: dict[str, int] = {}
        labels = []
        for number in order:
            tree = self.trees[number]
            labels.append(f"{tree}#{seen.setdefault(tree, 0)}")
            seen[tree] += 1
        return labels


def _renumber(draft: _Draft, order: tuple[int, ...]) -> tuple[Value, ...]:
    """Inputs of every operation, then the output, under the new numbers."""
    number = {0: 0} | {old: new for new, old in enumerate(order, start=1)}
    sums = [*(draft.inputs[old] for old in order), draft.output]
    return tuple(tuple(sorted(number[old] for old in value)) for value in sums)


def _digits(value: Value) -> str:
    return "".join(map(str, value))

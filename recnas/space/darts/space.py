"""DARTS: two cells of four nodes, seven operations, about 10^18 architectures.

Liu, Simonyan and Yang, "DARTS: Differentiable Architecture Search" (2019). The operation `none` exists only
inside supernets: no genotype holds it, so it is no part of this space.

    space = DartsSpace()
    arch = space.sample(numpy.random.default_rng(0))
    arch.text                      # "Genotype(normal=[...], ...)"
    space.key(arch)                # equal whatever the order of nodes and of their inputs
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from math import comb
from typing import Any

from numpy.random import Generator

from recnas.errors import SpaceError
from recnas.space.blueprint import Blueprint
from recnas.space.darts.arch import (
    AVG_POOL,
    DIL3,
    DIL5,
    INPUTS,
    MAX_POOL,
    NODES,
    OPS,
    SEP3,
    SEP5,
    SKIP,
    Cell,
    DartsArch,
    Edge,
    cell_faults,
    key,
    read_cell,
)
from recnas.space.darts.skeleton import DartsBlueprint, DartsSkeleton
from recnas.space.drawing import Box, Link, Row
from recnas.space.vision import VisionSpace

NAME = "darts"

# The two cells of the paper's second-order search on CIFAR-10, known as DARTS_V2.
DARTS_V2 = (
    "Genotype(normal=[('sep_conv_3x3', 0), ('sep_conv_3x3', 1), ('sep_conv_3x3', 0), ('sep_conv_3x3', 1), "
    "('sep_conv_3x3', 1), ('skip_connect', 0), ('skip_connect', 0), ('dil_conv_3x3', 2)], normal_concat=range(2, 6), "
    "reduce=[('max_pool_3x3', 0), ('max_pool_3x3', 1), ('skip_connect', 2), ('max_pool_3x3', 1), ('max_pool_3x3', 0), "
    "('skip_connect', 2), ('skip_connect', 2), ('max_pool_3x3', 1)], reduce_concat=range(2, 6))"
)


_LABELS = {  # of an operation in drawings, and its colour
    MAX_POOL: ("max 3×3", 2),
    AVG_POOL: ("avg 3×3", 2),
    SKIP: ("skip", 4),
    SEP3: ("sep 3×3", 0),
    SEP5: ("sep 5×5", 3),
    DIL3: ("dil 3×3", 1),
    DIL5: ("dil 5×5", 5),
}


class DartsSpace(VisionSpace[DartsArch]):
    """All genotypes with equal chance. One change means another operation, or another input, on one edge."""

    name = NAME
    pattern = re.compile(r"Genotype\(.*\)", re.DOTALL)

    def sample(self, rng: Generator) -> DartsArch:
        return DartsArch(_draw(rng), _draw(rng))

    def mutate(self, arch: DartsArch, rng: Generator) -> DartsArch:
        """One change, evenly among those that give another network; another operation always can."""
        changes = list(_one_change_away(arch))
        for place in rng.permutation(len(changes)):
            if key(changes[int(place)]) != key(arch):
                return changes[int(place)]
        raise AssertionError("no change changes the network")

    def validate(self, arch: DartsArch) -> None:
        faults = cell_faults(arch.normal, "normal") + cell_faults(arch.reduce, "reduce")
        if faults:
            raise SpaceError(f"not a DARTS architecture: {'; '.join(faults)}", f"use {', '.join(OPS)}")

    def size(self) -> int:
        """Writings: the pair of inputs is unordered, the order of the nodes is counted."""
        cell = len(OPS) ** (2 * NODES)
        for node in range(NODES):
            cell *= comb(node + INPUTS, 2)
        return cell**2

    def neighbours(self, arch: DartsArch) -> Iterator[DartsArch]:
        seen = {key(arch)}
        for other in _one_change_away(arch):
            if key(other) not in seen:
                seen.add(key(other))
                yield other

    def key(self, arch: DartsArch) -> str:
        return key(arch)

    def to_dict(self, arch: DartsArch) -> dict[str, Any]:
        cells = ([list(edge) for node in cell for edge in node] for cell in (arch.normal, arch.reduce))
        return {"space": NAME, **dict(zip(("normal", "reduce"), cells))}

    def from_dict(self, data: dict[str, Any]) -> DartsArch:
        if isinstance(data, dict) and isinstance(data.get("arch"), str):
            return DartsArch.from_text(data["arch"])
        if not isinstance(data, dict) or data.get("space", NAME) != NAME or not {"normal", "reduce"} <= set(data):
            raise SpaceError(
                f"{str(data)[:80]} does not describe a DARTS architecture",
                f'write {{"space": "{NAME}", "normal": [["sep_conv_3x3", 0], ...], "reduce": [...]}} '
                'or {"arch": "Genotype(...)"}',
            )
        normal, faults = read_cell(data["normal"], "normal")
        reduce, more = read_cell(data["reduce"], "reduce")
        if faults or more:
            raise SpaceError(f"not a DARTS architecture: {'; '.join(faults + more)}", f"use {', '.join(OPS)}")
        return DartsArch(normal, reduce)

    def from_text(self, text: str) -> DartsArch:
        return DartsArch.from_text(text)

    def blueprint(
        self, arch: DartsArch, classes: int = 10, image: int = 32, channels: int = 16, cells: int = 5
    ) -> Blueprint:
        return DartsBlueprint(arch, DartsSkeleton(channels, cells, classes, image))

    def rows(self, name: str, arch: DartsArch) -> list[Row]:
        return [_row(f"{name}: normal cell", arch.normal), _row(f"{name}: reduction cell", arch.reduce)]


def _row(name: str, cell: Cell) -> Row:
    """The second input of a node passes below."""
    boxes = [
        Box("k − 2", "the output of the cell before the last", "sparse"),
        Box("k − 1", "the output of the last cell", "sparse"),
    ]
    links = []
    for number, node in enumerate(cell, start=INPUTS):
        boxes.append(Box(str(number), f"node {number}: the sum of two operations; part of the output"))
        for side, (op, source) in zip((-1, 1), node):
            links.append(Link(source, number, *_LABELS[op], side))
    return Row(name, tuple(boxes), tuple(links))


def _draw(rng: Generator) -> Cell:
    nodes = []
    for node in range(INPUTS, INPUTS + NODES):
        pairs = list(combinations(range(node), 2))
        first, second = pairs[int(rng.integers(len(pairs)))]
        one, other = (OPS[int(rng.integers(len(OPS)))] for _ in range(2))
        nodes.append(((one, first), (other, second)))
    return tuple(nodes)


def _one_change_away(arch: DartsArch) -> Iterator[DartsArch]:
    for cell in _cells_beside(arch.normal):
        yield DartsArch(cell, arch.reduce)
    for cell in _cells_beside(arch.reduce):
        yield DartsArch(arch.normal, cell)


def _cells_beside(cell: Cell) -> Iterator[Cell]:
    for number, node in enumerate(cell):
        for place, (op, source) in enumerate(node):
            other = node[1 - place]
            changed: list[Edge] = [(another, source) for another in OPS if another != op]
            taken = {source, other[1]}
            changed += [(op, another) for another in range(number + INPUTS) if another not in taken]
            for edge in changed:
                pair = (edge, other) if place == 0 else (other, edge)
                yield (*cell[:number], pair, *cell[number + 1 :])

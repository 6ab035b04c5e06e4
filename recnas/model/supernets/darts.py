"""The supernet of DARTS cells (Liu, Simonyan and Yang, 2019).

Decisions are, per node, which two earlier values it reads, and per edge one of seven operations. What DARTS
itself relaxes is something else (`relaxed`): an eighth operation, none, competes on every edge, every edge is
read, and in the end each node keeps the two edges whose best operation other than none is strongest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

from torch import Tensor

from recnas.model.supernets.base import COLOURS, Decision, Factor, Picks, SupernetSpec, membership
from recnas.space.blueprint import Shape
from recnas.space.darts.arch import INPUTS, NODES, Cell, DartsArch
from recnas.space.darts.arch import OPS as DARTS_OPS
from recnas.space.darts.skeleton import DartsBlueprint, DartsSkeleton

_KINDS = ("normal", "reduce")


class DartsSuper(SupernetSpec):
    """The supernet in `skeleton`; stem and operations are those of the discrete network."""

    def __init__(self, skeleton: DartsSkeleton) -> None:
        self.skeleton = skeleton
        self.parts = DartsBlueprint(DartsArch((), ()), skeleton)  # asked for its parts, never run
        found = []
        for kind in _KINDS:
            for node in _nodes():
                if (pairs := len(_pairs(node))) > 1:
                    found.append(Decision(f"{kind}.pair{node}", pairs))
                found += [Decision(f"{kind}.op{source}-{node}", len(DARTS_OPS)) for source in range(node)]
        self.decisions = tuple(found)

    def gates(self, picks: Picks) -> dict[str, Tensor]:
        found = {name: pick for name, pick in picks.items() if ".op" in name}
        some = next(iter(found.values()))
        for kind in _KINDS:
            for node in _nodes():
                members = membership(_pairs(node), node).to(some)
                pick = picks.get(f"{kind}.pair{node}")
                found[f"{kind}.inputs{node}"] = members[0] if pick is None else pick @ members
        return found

    @property
    def relaxed(self) -> tuple[Decision, ...]:
        return tuple(
            Decision(f"{kind}.op{source}-{node}", len(DARTS_OPS) + 1)
            for kind in _KINDS
            for node in _nodes()
            for source in range(node)
        )

    def relaxed_gates(self, shares: Picks) -> dict[str, Tensor]:
        """The share of none, the last one, adds nothing; every edge is read."""
        some = next(iter(shares.values())).detach()
        found = {f"{kind}.inputs{node}": some.new_ones(node) for kind in _KINDS for node in _nodes()}
        return found | {name: share[:-1] for name, share in shares.items()}

    def derive(self, shares: Mapping[str, Sequence[float]]) -> DartsArch:
        cells = []
        for kind in _KINDS:
            nodes = []
            for node in _nodes():
                best = [
                    max((share, -place) for place, share in enumerate(shares[f"{kind}.op{s}-{node}"][:-1]))
                    for s in range(node)
                ]
                kept = sorted(sorted(range(node), key=lambda s: (-best[s][0], s))[:2])
                one, other = ((DARTS_OPS[-best[source][1]], source) for source in kept)
                nodes.append((one, other))
            cells.append(tuple(nodes))
        return DartsArch(*cells)

    def input_shape(self) -> Shape:
        return (COLOURS, self.skeleton.image, self.skeleton.image)

    def run(self, net: Any, x: Any) -> Any:
        skeleton = self.skeleton
        before, last, reduced = self.parts.stem(net, x)
        width = skeleton.channels
        for number in range(skeleton.cells):
            reduces = number in skeleton.reductions
            width *= 2 if reduces else 1
            out = self._cell(net, f"cells.{number}", _KINDS[reduces], before, last, width, reduced)
            before, last, reduced = last, out, reduces
        return net.linear("head.linear", net.mean(net.features(last)), skeleton.classes)

    def _cell(self, net: Any, name: str, kind: str, before: Any, last: Any, width: int, reduced: bool) -> Any:
        enter = self.parts.halved if reduced else self.parts.mixed
        values = [
            enter(net, f"{name}.pre0", before, width),
            self.parts.mixed(net, f"{name}.pre1", last, width),
        ]
        for node in _nodes():
            terms: list[tuple[list[Factor], Callable[[], Any]]] = []
            for source in range(node):
                stride = 2 if kind == "reduce" and source < INPUTS else 1
                for place, op in enumerate(DARTS_OPS):
                    here = f"{name}.edge{source}-{node}.{op}"
                    make = partial(self.parts.op, net, here, op, values[source], width, stride)
                    terms.append(([(f"{kind}.inputs{node}", source), (f"{kind}.op{source}-{node}", place)], make))
            values.append(net.mix(terms))
        return net.cat(values[INPUTS:])

    def arch(self, choices: Sequence[int]) -> DartsArch:
        chosen = dict(zip((decision.name for decision in self.decisions), choices, strict=True))
        cells: list[Cell] = []
        for kind in _KINDS:
            nodes = []
            for node in _nodes():
                pair = _pairs(node)[chosen.get(f"{kind}.pair{node}", 0)]
                one, other = ((DARTS_OPS[chosen[f"{kind}.op{source}-{node}"]], source) for source in pair)
                nodes.append((one, other))
            cells.append(tuple(nodes))
        return DartsArch(*cells)

    def choices(self, arch: DartsArch) -> tuple[int, ...]:
        """Edges that the architecture does not have get the first operation."""
        chosen = {}
        for kind, cell in zip(_KINDS, (arch.normal, arch.reduce)):
            for node, edges in zip(_nodes(), cell):
                pair = tuple(sorted(source for _, source in edges))
                chosen[f"{kind}.pair{node}"] = _pairs(node).index(pair)
                chosen |= {f"{kind}.op{source}-{node}": DARTS_OPS.index(op) for op, source in edges}
        return tuple(chosen.get(decision.name, 0) for decision in self.decisions)


def _nodes() -> range:
    return range(INPUTS, INPUTS + NODES)


def _pairs(node: int) -> list[tuple[int, ...]]:
    return list(combinations(range(node), 2))

"""The supernet of NAS-Bench-201: one of five operations on each of six edges; cells share decisions, not weights."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from recnas.model.supernets.base import COLOURS, Decision, SupernetSpec
from recnas.space.blueprint import Pass, Shape
from recnas.space.nasbench201.arch import EDGES, NONE, OPS, OUTPUT, POOL, SKIP, Nb201Arch
from recnas.space.nasbench201.skeleton import Nb201Skeleton, conv_norm, run_skeleton


class Nb201Super(SupernetSpec):
    """NAS-Bench-201 in the skeleton that its networks have."""

    def __init__(self, skeleton: Nb201Skeleton) -> None:
        self.skeleton = skeleton
        self.decisions = tuple(Decision(f"edge{edge}", len(OPS)) for edge in range(len(EDGES)))

    def input_shape(self) -> Shape:
        return (COLOURS, self.skeleton.image, self.skeleton.image)

    def run(self, net: Any, x: Any) -> Any:
        return run_skeleton(self.skeleton, net, x, self._cell)

    def _cell(self, net: Any, name: str, x: Any, width: int) -> Any:
        values = [x]
        for node in range(1, OUTPUT + 1):
            terms = []
            for edge, (start, end) in enumerate(EDGES):
                if end == node:
                    for place, op in enumerate(OPS):
                        if op != NONE:
                            make = partial(self._op, net, f"{name}.edge{edge}.{op}", op, values[start], width)
                            terms.append(([(f"edge{edge}", place)], make))
            values.append(net.mix(terms, like=x))
        return values[OUTPUT]

    def _op(self, net: Pass[Any], name: str, op: str, x: Any, width: int) -> Any:
        if op == SKIP:
            return x
        if op == POOL:
            return net.pool(x, "avg", 3, 1, 1)
        return conv_norm(net, name, net.activate(x), width, op, self.skeleton)

    def arch(self, choices: Sequence[int]) -> Nb201Arch:
        return Nb201Arch(tuple(OPS[choice] for choice in choices))

    def choices(self, arch: Nb201Arch) -> tuple[int, ...]:
        return tuple(OPS.index(op) for op in arch.ops)

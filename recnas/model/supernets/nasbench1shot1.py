"""The supernets of NAS-Bench-1Shot1: per node its parents and one of three operations, and the output's parents.

Each node has the channels of the cell divided by the number of the output's parents. In NAS-Bench-101 a cell
whose output reads the input divides by one fewer and adds a projection of the input; here that projection takes
its place among the joined parts. Other cells are the same network, if the division leaves no rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any

from torch import Tensor

from recnas.errors import ConfigError
from recnas.model.supernets.base import COLOURS, Decision, Factor, Picks, SupernetSpec, membership, same
from recnas.space.blueprint import Pass, Shape
from recnas.space.nasbench1shot1 import PARENTS, OneShotArch
from recnas.space.nasbench101.arch import CONV3, OPS, POOL
from recnas.space.nasbench101.skeleton import Nb101Skeleton


class OneShotSuper(SupernetSpec):
    """One of the three NAS-Bench-1Shot1 spaces in the skeleton of NAS-Bench-101."""

    def __init__(self, number: int, skeleton: Nb101Skeleton) -> None:
        self.number, self.skeleton = number, skeleton
        *self.wanted, self.joins = PARENTS[number]
        if skeleton.channels % self.joins:
            raise ConfigError(
                f"{skeleton.channels} channels cannot be divided among the {self.joins} parents of the output.",
                f"Use a multiple of {self.joins}.",
            )
        found = []
        for node, many in enumerate(self.wanted, start=1):
            if len(self._options(node, many)) > 1:
                found.append(Decision(f"parents{node}", len(self._options(node, many))))
            found.append(Decision(f"op{node}", len(OPS)))
        found.append(Decision("output", len(self._options(self.last, self.joins))))
        self.decisions = tuple(found)

    @property
    def last(self) -> int:
        return len(self.wanted) + 1

    def _options(self, node: int, many: int) -> list[tuple[int, ...]]:
        return list(combinations(range(node), many))

    def input_shape(self) -> Shape:
        return (COLOURS, self.skeleton.image, self.skeleton.image)

    def gates(self, picks: Picks) -> dict[str, Tensor]:
        """Per node its operation and which values it reads; per joined part whose it is."""
        found = {name: pick for name, pick in picks.items() if name.startswith("op")}
        some = picks["output"]
        for node, many in enumerate(self.wanted, start=1):
            members = membership(self._options(node, many), node).to(some)
            pick = picks.get(f"parents{node}")
            found[f"inputs{node}"] = members[0] if pick is None else pick @ members
        options = self._options(self.last, self.joins)
        for part in range(self.joins):
            found[f"part{part}"] = some @ membership([(option[part],) for option in options], self.last).to(some)
        return found

    def run(self, net: Any, x: Any) -> Any:
        x = _conv_norm_relu(net, "stem", x, self.skeleton.channels, 3)
        width = self.skeleton.channels
        for stack in range(self.skeleton.stacks):
            if stack:
                x = net.pool(x, "max", 2, 2)
                width *= 2
            for number in range(self.skeleton.cells):
                x = self._cell(net, f"stacks.{stack}.{number}", x, width // self.joins)
        return net.linear("head.linear", net.mean(net.features(x)), self.skeleton.classes)

    def _cell(self, net: Any, name: str, x: Any, width: int) -> Any:
        values: list[Any] = [None]
        for node in range(1, self.last):
            project = partial(_conv_norm_relu, net, f"{name}.project{node}", x, width, 1)
            terms: list[tuple[list[Factor], Callable[[], Any]]] = [([(f"inputs{node}", 0)], project)]
            terms += [([(f"inputs{node}", i)], partial(same, values[i])) for i in range(1, node)]
            total = net.mix(terms)
            terms = []
            for place, op in enumerate(OPS):
                make = partial(self._op, net, f"{name}.vertex{node}.{place}", op, total, width)
                terms.append(([(f"op{node}", place)], make))
            values.append(net.mix(terms))
        parts = []
        for part in range(self.joins):
            options = [option[part] for option in self._options(self.last, self.joins)]
            terms = []
            for i in dict.fromkeys(options):
                project = partial(_conv_norm_relu, net, f"{name}.project{self.last}", x, width, 1)
                terms.append(([(f"part{part}", i)], partial(same, values[i]) if i else project))
            parts.append(net.mix(terms))
        return net.cat(parts)

    def _op(self, net: Pass[Any], name: str, op: str, x: Any, width: int) -> Any:
        if op == POOL:
            return net.pool(x, "max", 3, 1, 1)
        return _conv_norm_relu(net, name, x, width, 3 if op == CONV3 else 1)

    def arch(self, choices: Sequence[int]) -> OneShotArch:
        chosen = dict(zip((decision.name for decision in self.decisions), choices, strict=True))
        parents = [
            self._options(node, many)[chosen.get(f"parents{node}", 0)] for node, many in enumerate(self.wanted, start=1)
        ]
        parents.append(self._options(self.last, self.joins)[chosen["output"]])
        return OneShotArch(tuple(parents), tuple(OPS[chosen[f"op{node}"]] for node in range(1, self.last)))

    def choices(self, arch: OneShotArch) -> tuple[int, ...]:
        chosen = {"output": self._options(self.last, self.joins).index(arch.parents[-1])}
        for node, many in enumerate(self.wanted, start=1):
            chosen[f"parents{node}"] = self._options(node, many).index(arch.parents[node - 1])
            chosen[f"op{node}"] = OPS.index(arch.ops[node - 1])
        return tuple(chosen[decision.name] for decision in self.decisions)


def _conv_norm_relu(net: Pass[Any], name: str, x: Any, width: int, size: int) -> Any:
    return net.activate(net.norm(f"{name}.norm", net.conv(f"{name}.conv", x, width, size)))

"""What each supernet holds and what can be decided in it.

    nasbench201        one of five operations on each of six edges; cells share the decisions, not the weights
    darts              `recnas.model.cell_supernet_darts`
    nasbench1shot1-*   per node its parents and one of three operations, and the parents of the output
    mlp                per layer an activation, and whether there is a skip around it

The NAS-Bench-1Shot1 supernet gives each node the channels of the cell divided by the number of the output's
parents. In NAS-Bench-101 a cell whose output reads the input divides by one fewer and adds a projection of the
input; here that projection takes its place among the joined parts. Other cells are the same network, if the
division leaves no rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from math import sqrt
from typing import Any, NamedTuple

from torch import Tensor

from recnas.errors import ConfigError
from recnas.model.cell_supernet_base import COLOURS, Decision, Factor, Picks, SuperPlan, membership
from recnas.model.cell_supernet_darts import DartsSuper
from recnas.space.blueprint import Pass, Shape
from recnas.space.darts import NAME as DARTS
from recnas.space.darts_body import DartsBody
from recnas.space.mlp import ACTIVATIONS, MlpArch, MlpSpace
from recnas.space.mlp import NAME as MLP
from recnas.space.mlp_body import MlpBody
from recnas.space.nasbench1shot1 import NAME as ONE_SHOT
from recnas.space.nasbench1shot1 import PARENTS, OneShotArch
from recnas.space.nasbench101_arch import CONV3 as CONV3_OF_101
from recnas.space.nasbench101_arch import OPS as OPS_OF_101
from recnas.space.nasbench101_arch import POOL as POOL_OF_101
from recnas.space.nasbench101_body import Nb101Body
from recnas.space.nasbench201 import NAME as NASBENCH201
from recnas.space.nasbench201_arch import (
    CONV1,
    CONV3,
    EDGES,
    NONE,
    OPS,
    OUTPUT,
    POOL,
    SKIP,
    Nb201Arch,
)
from recnas.space.nasbench201_cost import STAGES, Body


class Nb201Super(SuperPlan):
    """NAS-Bench-201 in the body that `Nb201Network` has."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self.decisions = tuple(Decision(f"edge{edge}", len(OPS)) for edge in range(len(EDGES)))

    def input_shape(self) -> Shape:
        return (COLOURS, self.body.image, self.body.image)

    def run(self, net: Any, x: Any) -> Any:
        x = net.norm("stem.norm", net.conv("stem.conv", x, self.body.channels, 3))
        for stage in range(STAGES):
            if stage:
                x = self._reduction(net, f"reductions.{stage - 1}", x, self.body.width(stage))
            for cell in range(self.body.cells):
                x = self._cell(net, f"stages.{stage}.{cell}", x, self.body.width(stage))
        x = net.features(net.activate(net.norm("head.norm", x)))
        return net.linear("head.linear", net.mean(x), self.body.classes)

    def _reduction(self, net: Pass[Any], name: str, x: Any, width: int) -> Any:
        out = x
        for part, stride in (("conv_a", 2), ("conv_b", 1)):
            out = net.conv(f"{name}.{part}.conv", net.activate(out), width, 3, stride=stride)
            out = net.norm(f"{name}.{part}.norm", out)
        return net.add([net.conv(f"{name}.shortcut", net.pool(x, "avg", 2, 2), width, 1), out])

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
        assert op in (CONV1, CONV3)
        out = net.conv(f"{name}.conv", net.activate(x), width, 3 if op == CONV3 else 1, bias=self.body.cell_bias)
        return net.norm(f"{name}.norm", out, affine=self.body.cell_affine)

    def arch(self, choices: Sequence[int]) -> Nb201Arch:
        return Nb201Arch(tuple(OPS[choice] for choice in choices))

    def choices(self, arch: Nb201Arch) -> tuple[int, ...]:
        return tuple(OPS.index(op) for op in arch.ops)


class OneShotSuper(SuperPlan):
    """One of the three NAS-Bench-1Shot1 spaces in the body of NAS-Bench-101."""

    def __init__(self, number: int, body: Nb101Body) -> None:
        self.number, self.body = number, body
        *self.wanted, self.joins = PARENTS[number]
        if body.channels % self.joins:
            raise ConfigError(
                f"{body.channels} channels cannot be divided among the {self.joins} parents of the output.",
                f"Use a multiple of {self.joins}.",
            )
        found = []
        for node, many in enumerate(self.wanted, start=1):
            if len(self._options(node, many)) > 1:
                found.append(Decision(f"parents{node}", len(self._options(node, many))))
            found.append(Decision(f"op{node}", len(OPS_OF_101)))
        found.append(Decision("output", len(self._options(self.last, self.joins))))
        self.decisions = tuple(found)

    @property
    def last(self) -> int:
        return len(self.wanted) + 1

    def _options(self, node: int, many: int) -> list[tuple[int, ...]]:
        return list(combinations(range(node), many))

    def input_shape(self) -> Shape:
        return (COLOURS, self.body.image, self.body.image)

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
        x = _conv_norm_relu(net, "stem", x, self.body.channels, 3)
        width = self.body.channels
        for stack in range(self.body.stacks):
            if stack:
                x = net.pool(x, "max", 2, 2)
                width *= 2
            for number in range(self.body.cells):
                x = self._cell(net, f"stacks.{stack}.{number}", x, width // self.joins)
        return net.linear("head.linear", net.mean(net.features(x)), self.body.classes)

    def _cell(self, net: Any, name: str, x: Any, width: int) -> Any:
        values: list[Any] = [None]
        for node in range(1, self.last):
            project = partial(_conv_norm_relu, net, f"{name}.project{node}", x, width, 1)
            terms: list[tuple[list[Factor], Callable[[], Any]]] = [([(f"inputs{node}", 0)], project)]
            terms += [([(f"inputs{node}", i)], partial(_same, values[i])) for i in range(1, node)]
            total = net.mix(terms)
            terms = []
            for place, op in enumerate(OPS_OF_101):
                make = partial(self._op, net, f"{name}.vertex{node}.{place}", op, total, width)
                terms.append(([(f"op{node}", place)], make))
            values.append(net.mix(terms))
        parts = []
        for part in range(self.joins):
            options = [option[part] for option in self._options(self.last, self.joins)]
            terms = []
            for i in dict.fromkeys(options):
                project = partial(_conv_norm_relu, net, f"{name}.project{self.last}", x, width, 1)
                terms.append(([(f"part{part}", i)], partial(_same, values[i]) if i else project))
            parts.append(net.mix(terms))
        return net.cat(parts)

    def _op(self, net: Pass[Any], name: str, op: str, x: Any, width: int) -> Any:
        if op == POOL_OF_101:
            return net.pool(x, "max", 3, 1, 1)
        return _conv_norm_relu(net, name, x, width, 3 if op == CONV3_OF_101 else 1)

    def arch(self, choices: Sequence[int]) -> OneShotArch:
        chosen = dict(zip((decision.name for decision in self.decisions), choices, strict=True))
        parents = [
            self._options(node, many)[chosen.get(f"parents{node}", 0)] for node, many in enumerate(self.wanted, start=1)
        ]
        parents.append(self._options(self.last, self.joins)[chosen["output"]])
        return OneShotArch(tuple(parents), tuple(OPS_OF_101[chosen[f"op{node}"]] for node in range(1, self.last)))

    def choices(self, arch: OneShotArch) -> tuple[int, ...]:
        chosen = {"output": self._options(self.last, self.joins).index(arch.parents[-1])}
        for node, many in enumerate(self.wanted, start=1):
            chosen[f"parents{node}"] = self._options(node, many).index(arch.parents[node - 1])
            chosen[f"op{node}"] = OPS_OF_101.index(arch.ops[node - 1])
        return tuple(chosen[decision.name] for decision in self.decisions)


class MlpSuper(SuperPlan):
    """Fully connected networks of one depth and width; activations have no weights, so layers are shared whole."""

    def __init__(self, space: MlpSpace, body: MlpBody) -> None:
        self.space, self.body = space, body
        self.decisions = tuple(Decision(f"activation{n}", len(ACTIVATIONS)) for n in range(1, space.layers)) + tuple(
            Decision(f"skip{n}", 2) for n in range(2, space.layers)
        )

    def input_shape(self) -> Shape:
        return self.body.inputs

    def run(self, net: Any, x: Any) -> Any:
        space, body = self.space, self.body
        x = net.flat(x)
        first = 1.0 if body.first_gain is None else sqrt(body.first_gain / net.shape(x)[0])
        scale = sqrt(body.gain / space.width)
        for number in range(1, space.layers):
            before = self._layer(net, number, x, space.width, first if number == 1 else scale)
            terms: list[tuple[list[Factor], Callable[[], Any]]] = [
                ([(f"activation{number}", place)], partial(net.activate, before, kind, body.slope))
                for place, kind in enumerate(ACTIVATIONS)
            ]
            if number > 1:
                terms.append(([(f"skip{number}", 1)], partial(_same, x)))
            x = net.mix(terms)
        return self._layer(net, space.layers, net.features(x), body.classes, scale)

    def _layer(self, net: Pass[Any], number: int, x: Any, outputs: int, scale: float) -> Any:
        name = f"layers.{number}"
        if self.body.parametrisation == "ntk":
            return net.linear(name, x, outputs, bias=False, std=1.0, scale=scale)
        return net.linear(name, x, outputs, bias=False, std=scale)

    def arch(self, choices: Sequence[int]) -> MlpArch:
        kinds = self.space.layers - 1
        activations = tuple(ACTIVATIONS[choice] for choice in choices[:kinds])
        return MlpArch(activations, tuple(bool(choice) for choice in choices[kinds:]), self.space.width)

    def choices(self, arch: MlpArch) -> tuple[int, ...]:
        return (*(ACTIVATIONS.index(kind) for kind in arch.activations), *(int(skip) for skip in arch.skips))


def _same(x: Any) -> Any:
    return x


def _conv_norm_relu(net: Pass[Any], name: str, x: Any, width: int, size: int) -> Any:
    return net.activate(net.norm(f"{name}.norm", net.conv(f"{name}.conv", x, width, size)))


class Builder(NamedTuple):
    make: Callable[..., SuperPlan]
    sizes: tuple[str, ...]


def _nb201(classes: int, image: int, channels: int = 16, cells: int = 5) -> SuperPlan:
    return Nb201Super(Body(channels=channels, cells=cells, classes=classes, image=image))


def _darts(classes: int, image: int, channels: int = 16, cells: int = 8) -> SuperPlan:
    return DartsSuper(DartsBody(channels, cells, classes, image, affine=False, pool_norm=True))


def _one_shot(number: int, classes: int, image: int, channels: int = 18, cells: int = 3, stacks: int = 3) -> SuperPlan:
    return OneShotSuper(number, Nb101Body(channels, stacks, cells, classes, image))


def _mlp(classes: int, image: int, layers: int = 10, width: int = 1024) -> SuperPlan:
    return MlpSuper(MlpSpace(layers, width), MlpBody((COLOURS, image, image), classes, first_gain=1.0))


PLANS: dict[str, Builder] = {
    NASBENCH201: Builder(_nb201, ("channels", "cells")),
    DARTS: Builder(_darts, ("channels", "cells")),
    **{f"{ONE_SHOT}-{n}": Builder(partial(_one_shot, n), ("channels", "cells", "stacks")) for n in PARENTS},
    MLP: Builder(_mlp, ("layers", "width")),
}

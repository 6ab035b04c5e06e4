"""The supernet of the MLP space: per layer an activation, and whether there is a skip around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import sqrt
from typing import Any

from recnas.model.supernets.base import Decision, Factor, SupernetSpec, same
from recnas.space.blueprint import Pass, Shape
from recnas.space.mlp import ACTIVATIONS, MlpArch, MlpSpace
from recnas.space.mlp.skeleton import MlpSkeleton


class MlpSuper(SupernetSpec):
    """Fully connected networks of one depth and width; activations have no weights, so layers are shared whole."""

    def __init__(self, space: MlpSpace, skeleton: MlpSkeleton) -> None:
        self.space, self.skeleton = space, skeleton
        self.decisions = tuple(Decision(f"activation{n}", len(ACTIVATIONS)) for n in range(1, space.layers)) + tuple(
            Decision(f"skip{n}", 2) for n in range(2, space.layers)
        )

    def input_shape(self) -> Shape:
        return self.skeleton.inputs

    def run(self, net: Any, x: Any) -> Any:
        space, skeleton = self.space, self.skeleton
        x = net.flat(x)
        first = 1.0 if skeleton.first_gain is None else sqrt(skeleton.first_gain / net.shape(x)[0])
        scale = sqrt(skeleton.gain / space.width)
        for number in range(1, space.layers):
            before = self._layer(net, number, x, space.width, first if number == 1 else scale)
            terms: list[tuple[list[Factor], Callable[[], Any]]] = [
                ([(f"activation{number}", place)], partial(net.activate, before, kind, skeleton.slope))
                for place, kind in enumerate(ACTIVATIONS)
            ]
            if number > 1:
                terms.append(([(f"skip{number}", 1)], partial(same, x)))
            x = net.mix(terms)
        return self._layer(net, space.layers, net.features(x), skeleton.classes, scale)

    def _layer(self, net: Pass[Any], number: int, x: Any, outputs: int, scale: float) -> Any:
        name = f"layers.{number}"
        if self.skeleton.parametrisation == "ntk":
            return net.linear(name, x, outputs, bias=False, std=1.0, scale=scale)
        return net.linear(name, x, outputs, bias=False, std=scale)

    def arch(self, choices: Sequence[int]) -> MlpArch:
        kinds = self.space.layers - 1
        activations = tuple(ACTIVATIONS[choice] for choice in choices[:kinds])
        return MlpArch(activations, tuple(bool(choice) for choice in choices[kinds:]), self.space.width)

    def choices(self, arch: MlpArch) -> tuple[int, ...]:
        return (*(ACTIVATIONS.index(kind) for kind in arch.activations), *(int(skip) for skip in arch.skips))

"""The network of an MLP architecture, as a blueprint, in one of two parametrisations.

    ntk        W ~ N(0, 1); layer 1 computes W x, layer l sqrt(gain / m) W f. The scale is part of the network,
               so gradients are those the neural tangent kernel is made of; it converges as m grows.
    standard   the same function at the start, the scale drawn into the weights: W_1 ~ N(0, 1), W_l ~ N(0, gain / m).

The first layer is not divided by sqrt(d): inputs are meant to have length 1 (Eigen-NAS, assumption 1). With
`gain = 2` the layers' Gram matrices are the ones of Eigen-NAS's lemma 1. For inputs of entries of size 1
(images) set `first_gain=1.0`, which divides by sqrt(d).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod, sqrt
from typing import Any, Literal

from recnas.errors import ConfigError
from recnas.space.blueprint import Blueprint, Pass, Shape, check_at_least
from recnas.space.mlp.arch import MlpArch

Parametrisation = Literal["ntk", "standard"]


@dataclass(frozen=True)
class MlpSkeleton:
    """What surrounds the hidden layers.

    Args:
        inputs: shape of one example, flattened first.
        classes: outputs; one gives logits `[B]`.
        parametrisation: "ntk" or "standard".
        gain: variance of pre-activations is this times the mean square of what a layer reads.
        first_gain: the same for layer 1; None leaves its product unscaled.
        slope: of the leaky ReLU for negative values.
    """

    inputs: Shape = (784,)
    classes: int = 1
    parametrisation: Parametrisation = "standard"
    gain: float = 2.0
    first_gain: float | None = None
    slope: float = 0.01

    def __post_init__(self) -> None:
        check_at_least("an MLP", inputs=(prod(self.inputs), 1), classes=(self.classes, 1))
        if self.parametrisation not in ("ntk", "standard"):
            raise ConfigError(f"there is no parametrisation {self.parametrisation!r}.", "Use ntk or standard.")
        if self.gain <= 0 or (self.first_gain is not None and self.first_gain <= 0) or not 0 < self.slope < 1:
            raise ConfigError(
                f"gains must be above 0 and the slope between 0 and 1 (got {self.gain}, {self.first_gain}, {self.slope})."
            )


@dataclass(frozen=True)
class MlpBlueprint(Blueprint):
    """The network of `arch` in `skeleton`."""

    arch: MlpArch
    skeleton: MlpSkeleton

    def input_shape(self) -> Shape:
        return self.skeleton.inputs

    def run(self, net: Pass[Any], x: Any) -> Any:
        arch, skeleton = self.arch, self.skeleton
        x = net.flat(x)
        first = 1.0 if skeleton.first_gain is None else sqrt(skeleton.first_gain / net.shape(x)[0])
        x = net.activate(self._layer(net, 1, x, arch.width, first), arch.activations[0], skeleton.slope)
        scale = sqrt(skeleton.gain / arch.width)
        for number, (kind, skip) in enumerate(zip(arch.activations[1:], arch.skips), start=2):
            out = net.activate(self._layer(net, number, x, arch.width, scale), kind, skeleton.slope)
            x = net.add([out, x]) if skip else out
        return self._layer(net, arch.layers, net.features(x), skeleton.classes, scale)

    def _layer(self, net: Pass[Any], number: int, x: Any, outputs: int, scale: float) -> Any:
        name = f"layers.{number}"
        if self.skeleton.parametrisation == "ntk":
            return net.linear(name, x, outputs, bias=False, std=1.0, scale=scale)
        return net.linear(name, x, outputs, bias=False, std=scale)

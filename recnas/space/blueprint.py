"""A network written down once, then counted or run.

A `Blueprint` describes a network as calls on a `Pass`: `conv`, `norm`, `linear`, pooling, sums. Two passes
exist. `Counting` (here, no torch) walks the description with shapes and lists every parameter and
multiply-add; the pass in `recnas.model.blueprint` walks it with tensors. What is counted is therefore what is
built, before anything is built.

    network = DartsBlueprint(arch, DartsSkeleton())
    count(network)                     # Cost(params=..., macs=...)
    Network(network, seed=0)           # recnas.model.blueprint

Multiply-adds are those of one example in convolutions and linear layers; a bias counts as one per output,
normalisation, pooling and sums as nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Generic, Literal, TypeVar

from recnas.errors import ConfigError

Shape = tuple[int, ...]  # of one example: (channels, height, width), or (width,)
Init = Literal["uniform", "normal", "ones", "zeros"]
T = TypeVar("T")


@dataclass(frozen=True)
class Parameter:
    """A parameter to come. `scale` is the bound of a uniform draw, or the deviation of a normal one."""

    name: str
    shape: Shape
    init: Init
    scale: float = 1.0
    label: str = ""  # what its random stream is found by; its name by default

    @property
    def stream(self) -> str:
        return self.label or self.name


@dataclass(frozen=True)
class Cost:
    params: int
    macs: int


class Pass(ABC, Generic[T]):
    """What a blueprint may do to a value of type `T`; `name` is where parameters live."""

    @abstractmethod
    def shape(self, x: T) -> Shape:
        """Of one example."""

    @abstractmethod
    def conv(
        self,
        name: str,
        x: T,
        outputs: int,
        size: int,
        *,
        stride: int = 1,
        padding: int | None = None,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = False,
        label: str = "",
    ) -> T:
        """Convolution; without `padding` as much as keeps the side at stride 1.

        `label` names the random stream of its initial weights where the name alone would tie them to what
        else a cell holds.
        """

    @abstractmethod
    def linear(
        self,
        name: str,
        x: T,
        outputs: int,
        *,
        bias: bool = True,
        std: float | None = None,
        scale: float = 1.0,
    ) -> T:
        """`scale x W^T + b`; weights are uniform within 1 / sqrt(fan-in), or normal of deviation `std`."""

    @abstractmethod
    def norm(self, name: str, x: T, affine: bool = True) -> T:
        """Normalise every channel over the batch."""

    @abstractmethod
    def activate(self, x: T, kind: str = "relu", slope: float = 0.01) -> T: ...

    def activate_again(self, x: T, active: T) -> T:
        """Say that one more operation applies a ReLU to `x`; `active` is the result at hand."""
        return active

    @abstractmethod
    def pool(self, x: T, kind: Literal["max", "avg"], size: int, stride: int, padding: int = 0) -> T:
        """Pooling; the padding is no part of a mean."""

    @abstractmethod
    def shifted(self, x: T) -> T:
        """Without the first row and column."""

    @abstractmethod
    def leading(self, x: T, channels: int) -> T:
        """The first channels."""

    @abstractmethod
    def add(self, parts: Sequence[T]) -> T: ...

    @abstractmethod
    def cat(self, parts: Sequence[T]) -> T: ...

    @abstractmethod
    def zeros(self, like: T) -> T:
        """Nothing, in the shape of `like`."""

    @abstractmethod
    def mean(self, x: T) -> T:
        """Over positions: `(channels, height, width)` to `(channels,)`."""

    @abstractmethod
    def flat(self, x: T) -> T: ...

    def features(self, x: T) -> T:
        """Say that `x` is what the classifier reads."""
        return x

    def drop_path(self, x: T) -> T:
        """Where a whole branch may be left out while training."""
        return x

    @property
    def wants_auxiliary(self) -> bool:
        """Is a second classifier half-way to be built and run?"""
        return False

    def keep_auxiliary(self, logits: T) -> None:
        """Hand over what the second classifier says."""

    def channels(self, x: T) -> int:
        return self.shape(x)[0]


class Blueprint(ABC):
    """One network, described."""

    @abstractmethod
    def input_shape(self) -> Shape:
        """Of one example."""

    @abstractmethod
    def run(self, net: Pass[Any], x: Any) -> Any:
        """Logits `(classes,)` of `x`."""


@dataclass
class Counting(Pass[Shape]):
    """Walks a blueprint with shapes."""

    auxiliary: bool = False
    parameters: list[Parameter] = field(default_factory=list)
    norms: list[tuple[str, int]] = field(default_factory=list)
    macs: int = 0

    @property
    def wants_auxiliary(self) -> bool:
        return self.auxiliary

    def shape(self, x: Shape) -> Shape:
        return x

    def conv(
        self,
        name: str,
        x: Shape,
        outputs: int,
        size: int,
        *,
        stride: int = 1,
        padding: int | None = None,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = False,
        label: str = "",
    ) -> Shape:
        inputs, height, width = x
        pad = same_padding(size, dilation) if padding is None else padding
        reach = dilation * (size - 1) + 1
        sides = ((height + 2 * pad - reach) // stride + 1, (width + 2 * pad - reach) // stride + 1)
        if min(sides) < 1:
            raise ConfigError(
                f"{name} reads {height}x{width} pixels and leaves none.",
                "Use larger images or fewer halvings.",
            )
        fan_in = inputs // groups * size * size
        self._weight(name, (outputs, inputs // groups, size, size), fan_in, bias, prod(sides), label=label)
        return (outputs, *sides)

    def linear(
        self,
        name: str,
        x: Shape,
        outputs: int,
        *,
        bias: bool = True,
        std: float | None = None,
        scale: float = 1.0,
    ) -> Shape:
        (inputs,) = x
        self._weight(name, (outputs, inputs), inputs, bias, 1, std)
        return (outputs,)

    def _weight(
        self,
        name: str,
        shape: Shape,
        fan_in: int,
        bias: bool,
        places: int,
        std: float | None = None,
        label: str = "",
    ) -> None:
        init: Init = "uniform" if std is None else "normal"
        scale = fan_in**-0.5 if std is None else std
        label = label or name
        self.parameters.append(Parameter(f"{name}.weight", shape, init, scale, f"{label}.weight"))
        self.macs += prod(shape) * places
        if bias:
            self.parameters.append(Parameter(f"{name}.bias", shape[:1], init, scale, f"{label}.bias"))
            self.macs += shape[0] * places

    def norm(self, name: str, x: Shape, affine: bool = True) -> Shape:
        self.norms.append((name, x[0]))
        if affine:
            self.parameters.append(Parameter(f"{name}.weight", x[:1], "ones"))
            self.parameters.append(Parameter(f"{name}.bias", x[:1], "zeros"))
        return x

    def activate(self, x: Shape, kind: str = "relu", slope: float = 0.01) -> Shape:
        return x

    def pool(self, x: Shape, kind: Literal["max", "avg"], size: int, stride: int, padding: int = 0) -> Shape:
        sides = tuple((side + 2 * padding - size) // stride + 1 for side in x[1:])
        if min(sides) < 1:
            raise ConfigError(f"{x[1]}x{x[2]} pixels cannot be pooled by {size}x{size}.", "Use larger images.")
        return (x[0], *sides)

    def shifted(self, x: Shape) -> Shape:
        return (x[0], x[1] - 1, x[2] - 1)

    def leading(self, x: Shape, channels: int) -> Shape:
        return (channels, *x[1:])

    def add(self, parts: Sequence[Shape]) -> Shape:
        assert len(set(parts)) == 1, f"a sum of different shapes: {parts}"
        return parts[0]

    def cat(self, parts: Sequence[Shape]) -> Shape:
        assert len({part[1:] for part in parts}) == 1, f"different sides cannot be joined: {parts}"
        return (sum(part[0] for part in parts), *parts[0][1:])

    def zeros(self, like: Shape) -> Shape:
        return like

    def mean(self, x: Shape) -> Shape:
        return x[:1]

    def flat(self, x: Shape) -> Shape:
        return (prod(x),)


def same_padding(size: int, dilation: int = 1) -> int:
    return dilation * (size - 1) // 2


def walk(plan: Blueprint, auxiliary: bool = False) -> Counting:
    """The description gone through once; its parameters and normalisations in the order of use."""
    found = Counting(auxiliary)
    plan.run(found, plan.input_shape())
    return found


def count(plan: Blueprint, auxiliary: bool = False) -> Cost:
    """Parameters and multiply-adds; those of the second classifier only if asked for."""
    found = walk(plan, auxiliary)
    return Cost(sum(prod(parameter.shape) for parameter in found.parameters), found.macs)


def check_at_least(what: str, **values: tuple[int, int]) -> None:
    """Refuse settings below their least value, all at once; `values` are (given, least)."""
    faults = [f"{name} is {given}, less than {least}" for name, (given, least) in values.items() if given < least]
    if faults:
        raise ConfigError(f"{what} cannot be built: {'; '.join(faults)}.", "Use larger values.")

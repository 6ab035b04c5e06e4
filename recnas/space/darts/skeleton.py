"""The networks around DARTS cells, as blueprints.

    CIFAR      3x3 convolution to 3C channels; `cells` cells, those at one and two thirds of the depth reduce
    ImageNet   two strided convolutions to C channels, a third one, 28 pixels out of 224; then the same
    head       mean over positions, linear classifier; after the second reduction an auxiliary head may read too

    DartsSkeleton()                          20 cells, 36 channels: evaluation on CIFAR
    DartsSkeleton.search()                   8 cells, 16 channels, the conventions of the supernet
    DartsSkeleton.scoring()                  5 cells, 16 channels: what HNAS scores
    DartsSkeleton.imagenet()                 14 cells, 48 channels, 224 pixels

Cells are built in their canonical writing: equal keys are the same network, bit for bit. In supernets
poolings are normalised and no normalisation has a gain; evaluation networks have neither convention.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from recnas.errors import ConfigError
from recnas.space.blueprint import Blueprint, Pass, Shape, check_at_least
from recnas.space.darts.arch import (
    AVG_POOL,
    DIL3,
    DIL5,
    INPUTS,
    MAX_POOL,
    SEP3,
    SEP5,
    SKIP,
    Cell,
    DartsArch,
    canonical,
)

COLOURS = 3
STEM = 3  # the CIFAR stem is this many times as wide as the first cells
_KERNELS = {SEP3: 3, SEP5: 5, DIL3: 3, DIL5: 5}


@dataclass(frozen=True)
class DartsSkeleton:
    """Sizes and conventions.

    Args:
        channels: width of an operation in the first cells; doubled at each reduction. Even.
        cells: how many; the ones at `cells // 3` and `2 * cells // 3` reduce.
        classes: outputs.
        image: height and width, a multiple of 4 (of 32 with the ImageNet stem).
        stem: "cifar" or "imagenet".
        affine: normalisations inside cells have a gain and a bias.
        pool_norm: poolings are followed by a normalisation without gain.
    """

    channels: int = 36
    cells: int = 20
    classes: int = 10
    image: int = 32
    stem: Literal["cifar", "imagenet"] = "cifar"
    affine: bool = True
    pool_norm: bool = False

    def __post_init__(self) -> None:
        check_at_least("a DARTS network", channels=(self.channels, 2), cells=(self.cells, 1), classes=(self.classes, 1))
        if self.channels % 2:
            raise ConfigError(f"{self.channels} channels cannot be halved, as reductions do.", "Use an even number.")
        if self.stem not in ("cifar", "imagenet"):
            raise ConfigError(f"there is no stem {self.stem!r}.", "Use cifar or imagenet.")
        step = 4 if self.stem == "cifar" else 32
        if self.image < step or self.image % step:
            raise ConfigError(
                f"images of {self.image} pixels do not suit the {self.stem} stem.",
                f"Use a multiple of {step}.",
            )

    @classmethod
    def search(cls, classes: int = 10) -> DartsSkeleton:
        """The depth and conventions of the supernet."""
        return cls(16, 8, classes, affine=False, pool_norm=True)

    @classmethod
    def scoring(cls, classes: int = 10, channels: int = 16, image: int = 32) -> DartsSkeleton:
        return cls(channels, 5, classes, image)

    @classmethod
    def imagenet(cls, classes: int = 1000) -> DartsSkeleton:
        return cls(48, 14, classes, 224, "imagenet")

    @property
    def reductions(self) -> tuple[int, ...]:
        """Which cells reduce; of one or two cells the first thirds coincide."""
        return tuple(sorted({self.cells // 3, 2 * self.cells // 3}))


@dataclass(frozen=True)
class DartsBlueprint(Blueprint):
    """The network of `arch` in `skeleton`."""

    arch: DartsArch
    skeleton: DartsSkeleton

    def input_shape(self) -> Shape:
        return (COLOURS, self.skeleton.image, self.skeleton.image)

    def run(self, net: Pass[Any], x: Any) -> Any:
        skeleton, arch = self.skeleton, canonical(self.arch)
        before, last, reduced = self.stem(net, x)
        width = skeleton.channels
        for number in range(skeleton.cells):
            reduces = number in skeleton.reductions
            width *= 2 if reduces else 1
            cell = arch.reduce if reduces else arch.normal
            out = self._cell(net, f"cells.{number}", cell, before, last, width, reduces, reduced)
            before, last, reduced = last, out, reduces
            if number == 2 * skeleton.cells // 3 and net.wants_auxiliary:
                net.keep_auxiliary(self._auxiliary(net, last))
        return net.linear("head.linear", net.mean(net.features(last)), skeleton.classes)

    def stem(self, net: Pass[Any], x: Any) -> tuple[Any, Any, bool]:
        """What the first cell reads as the two cells before it, and whether they differ in side."""
        width = self.skeleton.channels
        if self.skeleton.stem == "cifar":
            x = net.norm("stem.norm", net.conv("stem.conv", x, STEM * width, 3))
            return x, x, False
        x = net.norm("stem0.norm_a", net.conv("stem0.conv_a", x, width // 2, 3, stride=2))
        x = net.norm("stem0.norm_b", net.conv("stem0.conv_b", net.activate(x), width, 3, stride=2))
        return x, net.norm("stem1.norm", net.conv("stem1.conv", net.activate(x), width, 3, stride=2)), True

    def _cell(
        self,
        net: Pass[Any],
        name: str,
        cell: Cell,
        before: Any,
        last: Any,
        width: int,
        reduces: bool,
        reduced: bool,
    ) -> Any:
        first = (
            self.halved(net, f"{name}.pre0", before, width)
            if reduced
            else self.mixed(net, f"{name}.pre0", before, width)
        )
        values = [first, self.mixed(net, f"{name}.pre1", last, width)]
        for number, node in enumerate(cell, start=INPUTS):
            parts = []
            for place, (op, source) in enumerate(node):
                stride = 2 if reduces and source < INPUTS else 1
                out = self.op(net, f"{name}.node{number}.{place}", op, values[source], width, stride)
                parts.append(out if op == SKIP and stride == 1 else net.drop_path(out))
            values.append(net.add(parts))
        return net.cat(values[INPUTS:])

    def mixed(self, net: Pass[Any], name: str, x: Any, width: int) -> Any:
        return net.norm(f"{name}.norm", net.conv(f"{name}.conv", net.activate(x), width, 1), self.skeleton.affine)

    def halved(self, net: Pass[Any], name: str, x: Any, width: int) -> Any:
        """Half the side: two 1x1 convolutions of stride 2, on the even and on the odd positions."""
        x = net.activate(x)
        even = net.conv(f"{name}.conv_a", x, width // 2, 1, stride=2)
        odd = net.conv(f"{name}.conv_b", net.shifted(x), width // 2, 1, stride=2)
        return net.norm(f"{name}.norm", net.cat([even, odd]), self.skeleton.affine)

    def op(self, net: Pass[Any], name: str, op: str, x: Any, width: int, stride: int) -> Any:
        if op == SKIP:
            return x if stride == 1 else self.halved(net, name, x, width)
        if op in (MAX_POOL, AVG_POOL):
            x = net.pool(x, "max" if op == MAX_POOL else "avg", 3, stride, 1)
            return net.norm(f"{name}.norm", x, affine=False) if self.skeleton.pool_norm else x
        rounds = 2 if op in (SEP3, SEP5) else 1
        for part in range(rounds):
            x = net.activate(x)
            here = f"{name}.{part}"
            x = net.conv(
                f"{here}.depth",
                x,
                width,
                _KERNELS[op],
                stride=stride if part == 0 else 1,
                dilation=1 if rounds == 2 else 2,
                groups=width,
            )
            x = net.norm(f"{here}.norm", net.conv(f"{here}.point", x, width, 1), self.skeleton.affine)
        return x

    def _auxiliary(self, net: Pass[Any], x: Any) -> Any:
        """The second classifier; on ImageNet its last normalisation is left out, as in the authors' runs."""
        cifar = self.skeleton.stem == "cifar"
        side = net.shape(x)[1]
        if side < 6:
            raise ConfigError(
                f"the auxiliary head reads {side}x{side} pixels and needs 6x6 or more.",
                "Use larger images, or train without it.",
            )
        x = net.pool(net.activate(x), "avg", 5, 3 if cifar and side >= 8 else 2 if side > 6 else 1)
        x = net.activate(net.norm("auxiliary.norm_a", net.conv("auxiliary.conv_a", x, 128, 1)))
        x = net.conv("auxiliary.conv_b", x, 768, 2, padding=0)
        x = net.activate(net.norm("auxiliary.norm_b", x) if cifar else x)
        return net.linear("auxiliary.linear", net.mean(x), self.skeleton.classes)

"""The network of a ResNet-like architecture, as a blueprint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recnas.space.blueprint import Blueprint, Pass, Shape, check_at_least
from recnas.space.resnet.arch import COLOURS, ResnetArch, Stage


@dataclass(frozen=True)
class ResnetSkeleton:
    """Args:
    classes: outputs.
    image: height and width.
    width: all channels are multiplied by this and rounded up, for quick looks at thin networks; 1 is the architecture.
    """

    classes: int = 10
    image: int = 32
    width: float = 1.0

    def __post_init__(self) -> None:
        check_at_least("a ResNet-like network", classes=(self.classes, 1), image=(self.image, 1))
        check_at_least("a ResNet-like network", width=(int(self.width > 0), 1))

    def scaled(self, channels: int) -> int:
        return max(1, -int(-channels * self.width // 1))


@dataclass(frozen=True)
class ResnetBlueprint(Blueprint):
    """The network of `arch` in `skeleton`."""

    arch: ResnetArch
    skeleton: ResnetSkeleton

    def input_shape(self) -> Shape:
        return (COLOURS, self.skeleton.image, self.skeleton.image)

    def run(self, net: Pass[Any], x: Any) -> Any:
        x = net.activate(self._conv(net, "stem", x, self.arch.stem, 3))
        for number, stage in enumerate(self.arch.stages):
            for block in range(stage.blocks):
                x = self._block(net, f"stages.{number}.{block}", x, stage, first=block == 0)
        x = net.activate(self._conv(net, "last", x, self.arch.last, 1))
        return net.linear("head.linear", net.mean(net.features(x)), self.skeleton.classes)

    def _block(self, net: Pass[Any], name: str, x: Any, stage: Stage, first: bool) -> Any:
        stride = stage.stride if first else 1
        k = stage.kernel
        if stage.kind == "residual":
            parts = [(stage.inner, k, stride), (stage.width, k, 1)]
        else:
            parts = [(stage.inner, 1, 1), (stage.inner, k, stride), (stage.width, 1, 1)]
        out = x
        for place, (width, size, step) in enumerate(parts):
            out = self._conv(net, f"{name}.{place}", net.activate(out) if place else out, width, size, step)
        beside = self._conv(net, f"{name}.beside", x, stage.width, 1, stride) if first else x
        return net.activate(net.add([out, beside]))

    def _conv(self, net: Pass[Any], name: str, x: Any, width: int, size: int, stride: int = 1) -> Any:
        out = net.conv(f"{name}.conv", x, self.skeleton.scaled(width), size, stride=stride)
        return net.norm(f"{name}.norm", out)

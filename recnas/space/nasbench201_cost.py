"""Parameters and multiply-adds of a NAS-Bench-201 network, by arithmetic, before any network is built.

Only live operations count, unless asked otherwise: the ranking by size depends on it (Spearman with CIFAR-10
test accuracy over the whole space: 0.82 with live operations, 0.75 with all). The multiply-adds are those of one image in all convolutions and the classifier;
a bias counts as one per output, normalisation, pooling and sums as nothing. With `Body.trained()` the
benchmark's own figures come out: 1.531546 M parameters and 220.11969 M multiply-adds for the cell of six
3x3 convolutions, 0.073306 M and 7.78305 M for the cell of none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from recnas.errors import ConfigError
from recnas.space.nasbench201_arch import CONV3, Nb201Arch
from recnas.space.nasbench201_key import CONVS, compile_cell

STAGES = 3
COLOURS = 3


@dataclass(frozen=True)
class Body:
    """The network around the cell: three stages of `cells` cells, halved and doubled in between.

    Args:
        channels: width of the first stage; the others have 2 and 4 times as many.
        cells: cells per stage.
        classes: outputs.
        image: height and width of an input, a multiple of 4.
        cell_bias: convolutions inside cells have a bias. Zero-cost work scores networks with it.
        cell_affine: normalisations inside cells have a gain and a bias. Zero-cost work leaves them out; the
            benchmark's networks were trained with them (and without `cell_bias`).
    """

    channels: int = 16
    cells: int = 5
    classes: int = 10
    image: int = 32
    cell_bias: bool = True
    cell_affine: bool = False

    def __post_init__(self) -> None:
        faults = [
            f"{name} is {getattr(self, name)}"
            for name in ("channels", "cells", "classes")
            if getattr(self, name) < 1
        ]
        if faults:
            raise ConfigError(
                f"a NAS-Bench-201 network cannot be built: {', '.join(faults)}.", "Use 1 or more."
            )
        if self.image < 4 or self.image % 4:
            raise ConfigError(
                f"images of {self.image} pixels cannot be halved twice.",
                "Use a multiple of 4: 32 for CIFAR, 16 for ImageNet16.",
            )

    def trained(self) -> Body:
        """The same as the benchmark's authors trained it."""
        return replace(self, cell_bias=False, cell_affine=True)

    def width(self, stage: int) -> int:
        return self.channels << stage

    def side(self, stage: int) -> int:
        return self.image >> stage


@dataclass(frozen=True)
class Nb201Cost:
    params: int
    macs: int


def count(arch: Nb201Arch, body: Body | None = None, keep_dead: bool = False) -> Nb201Cost:
    """What the network of `arch` has and does.

    Args:
        arch: the cell.
        body: the network around it.
        keep_dead: count convolutions on dead edges as well, as networks that build every edge do.
    """
    body = body or Body()
    ops = arch.ops if keep_dead else [step.op for step in compile_cell(arch)[0].ops]
    kernels = [9 if op == CONV3 else 1 for op in ops if op in CONVS]
    total = _conv(COLOURS, body.channels, 9, body.side(0), affine=True)
    for stage in range(STAGES):
        width, side = body.width(stage), body.side(stage)
        if stage:
            before = body.width(stage - 1)
            total = _add(total, _conv(before, width, 9, side, affine=True))
            total = _add(total, _conv(width, width, 9, side, affine=True))
            total = _add(total, _conv(before, width, 1, side))
        for kernel in kernels:
            one = _conv(width, width, kernel, side, bias=body.cell_bias, affine=body.cell_affine)
            total = _add(total, one, body.cells)
    last = body.width(STAGES - 1)
    classifier = Nb201Cost((last + 1) * body.classes, (last + 1) * body.classes)
    return _add(_add(total, classifier), Nb201Cost(2 * last, 0))


def _conv(
    inputs: int, outputs: int, kernel: int, side: int, *, bias: bool = False, affine: bool = False
) -> Nb201Cost:
    """A convolution and the normalisation behind it; `kernel` is the number of its positions."""
    weights = inputs * outputs * kernel + outputs * bias
    return Nb201Cost(weights + 2 * outputs * affine, weights * side * side)


def _add(a: Nb201Cost, b: Nb201Cost, times: int = 1) -> Nb201Cost:
    return Nb201Cost(a.params + times * b.params, a.macs + times * b.macs)

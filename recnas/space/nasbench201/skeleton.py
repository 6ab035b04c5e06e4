"""The NAS-Bench-201 network of a cell, as a blueprint.

    stem      3x3 convolution to C channels, normalisation
    stage 1   N cells of C channels
    reduction residual block of stride 2: ReLU-conv-norm twice, beside 2x2 average pooling and a 1x1 convolution
    stage 2   N cells of 2C channels; reduction; stage 3: N cells of 4C channels
    head      normalisation, ReLU, mean over positions, linear classifier

Every convolution of a cell is ReLU, convolution, normalisation; poolings leave the padding out of the mean.
`Nb201Skeleton` says C, N and the conventions inside cells: a bias and a normalisation without gain, as
zero-cost work scores networks, or the other way round (`trained()`), as the benchmark's authors trained them.

What is built is the cell's program (`recnas.space.nasbench201.key`), not its edges: dead edges cost nothing
and cells with the same key give the same network, down to the last bit of its initial weights. Each parameter
has a random stream of its own, found from its place in the skeleton and what its operation is applied to inside
the cell: adding an operation elsewhere changes nothing.

Only live operations are counted, unless asked otherwise: the ranking by size depends on it (Spearman with
CIFAR-10 test accuracy over the whole space: 0.82 with live operations, 0.75 with all). With `trained()` the
benchmark's own figures come out: 1.531546 M parameters and 220.11969 M multiply-adds for the cell of six
3x3 convolutions, 0.073306 M and 7.78305 M for the cell of none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from recnas.errors import ConfigError
from recnas.space import blueprint
from recnas.space.blueprint import Blueprint, Cost, Pass, Shape
from recnas.space.nasbench201.arch import CONV3, Nb201Arch
from recnas.space.nasbench201.key import CONVS, CellOp, CellProgram, compile_cell

STAGES = 3
COLOURS = 3


@dataclass(frozen=True)
class Nb201Skeleton:
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
            f"{name} is {getattr(self, name)}" for name in ("channels", "cells", "classes") if getattr(self, name) < 1
        ]
        if faults:
            raise ConfigError(f"a NAS-Bench-201 network cannot be built: {', '.join(faults)}.", "Use 1 or more.")
        if self.image < 4 or self.image % 4:
            raise ConfigError(
                f"images of {self.image} pixels cannot be halved twice.",
                "Use a multiple of 4: 32 for CIFAR, 16 for ImageNet16.",
            )

    def trained(self) -> Nb201Skeleton:
        """The same as the benchmark's authors trained it."""
        return replace(self, cell_bias=False, cell_affine=True)

    def width(self, stage: int) -> int:
        return self.channels << stage

    def side(self, stage: int) -> int:
        return self.image >> stage


@dataclass(frozen=True)
class Nb201Blueprint(Blueprint):
    """The network of `program` in `skeleton`; `of` takes a cell."""

    program: CellProgram
    skeleton: Nb201Skeleton

    @classmethod
    def of(cls, arch: Nb201Arch, skeleton: Nb201Skeleton | None = None) -> Nb201Blueprint:
        return cls(compile_cell(arch)[0], skeleton or Nb201Skeleton())

    def input_shape(self) -> Shape:
        return (COLOURS, self.skeleton.image, self.skeleton.image)

    def run(self, net: Pass[Any], x: Any) -> Any:
        return run_skeleton(self.skeleton, net, x, self._cell)

    def _cell(self, net: Pass[Any], name: str, x: Any, width: int) -> Any:
        """The program on `x`; sums and activations that several operations read are computed once."""
        values = [x]
        sums: dict[tuple[int, ...], Any] = {}
        active: dict[tuple[int, ...], Any] = {}

        def total(which: tuple[int, ...]) -> Any:
            if which not in sums:
                sums[which] = net.add([values[j] for j in which])
            return sums[which]

        for number, step in enumerate(self.program.ops, start=1):
            source = total(step.inputs)
            if step.op not in CONVS:
                values.append(net.pool(source, "avg", 3, 1, 1))
                continue
            # Reported once per convolution: in the benchmark each has an activation of its own.
            known = active.get(step.inputs)
            active[step.inputs] = net.activate(source) if known is None else net.activate_again(source, known)
            values.append(
                conv_norm(
                    net,
                    f"{name}.op{number}",
                    active[step.inputs],
                    width,
                    step.op,
                    self.skeleton,
                    f"{name}.{step.label}",
                )
            )
        return total(self.program.output) if self.program.output else net.zeros(x)


def run_skeleton(skeleton: Nb201Skeleton, net: Any, x: Any, cell: Any) -> Any:
    """Everything around the cells; `cell(net, name, x, width)` is one of them."""
    x = net.norm("stem.norm", net.conv("stem.conv", x, skeleton.channels, 3))
    for stage in range(STAGES):
        width = skeleton.width(stage)
        if stage:
            x = _reduction(net, f"reductions.{stage - 1}", x, width)
        for number in range(skeleton.cells):
            x = cell(net, f"stages.{stage}.{number}", x, width)
    x = net.features(net.activate(net.norm("head.norm", x)))
    return net.linear("head.linear", net.mean(x), skeleton.classes)


def conv_norm(
    net: Pass[Any], name: str, active: Any, width: int, op: str, skeleton: Nb201Skeleton, label: str = ""
) -> Any:
    """A convolution of a cell and its normalisation, on what is activated already."""
    size = 3 if op == CONV3 else 1
    out = net.conv(f"{name}.conv", active, width, size, bias=skeleton.cell_bias, label=label)
    return net.norm(f"{name}.norm", out, affine=skeleton.cell_affine)


def _reduction(net: Pass[Any], name: str, x: Any, width: int) -> Any:
    out = x
    for part, stride in (("conv_a", 2), ("conv_b", 1)):
        out = net.conv(f"{name}.{part}.conv", net.activate(out), width, 3, stride=stride)
        out = net.norm(f"{name}.{part}.norm", out)
    return net.add([net.conv(f"{name}.shortcut", net.pool(x, "avg", 2, 2), width, 1), out])


def parameters_of_edge(arch: Nb201Arch, stage: int, cell: int, edge: int) -> str | None:
    """Where the parameters of an edge's convolution are, e.g. "stages.0.2.op1"; None if it has none."""
    program, placed = compile_cell(arch)
    number = placed[edge]
    if not number or program.ops[number - 1].op not in CONVS:
        return None
    return f"stages.{stage}.{cell}.op{number}"


def count(arch: Nb201Arch, skeleton: Nb201Skeleton | None = None, keep_dead: bool = False) -> Cost:
    """What the network of `arch` has and does.

    Args:
        arch: the cell.
        skeleton: the network around it.
        keep_dead: count convolutions on dead edges as well, as networks that build every edge do.
    """
    ops = arch.ops if keep_dead else [step.op for step in compile_cell(arch)[0].ops]
    return _count(tuple(sorted(op for op in ops if op in CONVS)), skeleton or Nb201Skeleton())


@lru_cache(maxsize=512)  # the cost of a cell depends on its convolutions alone: 28 different ones in all
def _count(convolutions: tuple[str, ...], skeleton: Nb201Skeleton) -> Cost:
    steps = tuple(CellOp(op, (0,), f"{number}") for number, op in enumerate(convolutions))
    return blueprint.count(Nb201Blueprint(CellProgram(steps, (0,)), skeleton))

"""The ResNet-like space of SiGeo's CIFAR experiment: residual and bottleneck blocks under a budget.

The paper names block types and the budget (1.0 million parameters) and refers to Zen-NAS for the rest. That
project's search changes a start network step by step and has no fixed list of widths; a space needs one, so
these choices are recnas's own:

    stages      four, of stride 1, 2, 2, 2, as in Zen-NAS's start network (which may also split stages: not here)
    kernels     3, 5, 7; both block types
    widths      multiples of 8 from 8 to 256 in growing steps, for stages and inside blocks
    depth       1 to 4 per stage
    stem, last  8 to 96, and 64 to 512 channels

The budget is no part of the space: it is a limit like any other (`recnas.searchers.limits`), or `sample_within`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from numpy.random import Generator

from recnas.errors import SpaceError
from recnas.space.blueprint import Blueprint, count
from recnas.space.drawing import Box, Link, Row
from recnas.space.resnet.arch import KERNELS, KINDS, ResnetArch, Stage
from recnas.space.resnet.skeleton import ResnetBlueprint, ResnetSkeleton
from recnas.space.vision import VisionSpace

NAME = "resnet-like"
STRIDES = (1, 2, 2, 2)
WIDTHS = (8, 16, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256)
DEPTHS = (1, 2, 3, 4)
STEMS = (8, 16, 24, 32, 40, 48, 64, 80, 96)
LASTS = (64, 96, 128, 192, 256, 384, 512)
_CHOICES: dict[str, tuple[Any, ...]] = {
    "kind": KINDS,
    "kernel": KERNELS,
    "width": WIDTHS,
    "inner": WIDTHS,
    "depth": DEPTHS,
}


class ResnetSpace(VisionSpace[ResnetArch]):
    """All architectures with equal chance. One change means another value of one choice."""

    name = NAME

    def sample(self, rng: Generator) -> ResnetArch:
        def pick(options: tuple[Any, ...]) -> Any:
            return options[int(rng.integers(len(options)))]

        stages = tuple(
            Stage(**{name: pick(options) for name, options in _CHOICES.items()}, stride=stride) for stride in STRIDES
        )
        return ResnetArch(pick(STEMS), stages, pick(LASTS))

    def sample_within(
        self,
        rng: Generator,
        body: ResnetSkeleton,
        params: int | None = 1_000_000,
        macs: int | None = None,
        tries: int = 10_000,
    ) -> ResnetArch:
        """Draw until the budget is met; an error after `tries` draws says what the smallest one needed."""
        least_params = least_macs = 1 << 62
        for _ in range(tries):
            arch = self.sample(rng)
            cost = count(ResnetBlueprint(arch, body))
            if (params is None or cost.params <= params) and (macs is None or cost.macs <= macs):
                return arch
            least_params, least_macs = min(least_params, cost.params), min(least_macs, cost.macs)
        raise SpaceError(
            f"none of {tries:,} draws meets the budget of {params} parameters and {macs} multiply-adds",
            f"the smallest had {least_params:,} parameters, the quickest {least_macs:,} multiply-adds: allow more",
        )

    def mutate(self, arch: ResnetArch, rng: Generator) -> ResnetArch:
        others = list(self.neighbours(arch))
        return others[int(rng.integers(len(others)))]

    def validate(self, arch: ResnetArch) -> None:
        faults = []
        strides = tuple(stage.stride for stage in arch.stages)
        if strides != STRIDES:
            faults.append(f"stages of stride {strides} where {STRIDES} belong")
        for name, value, options in (("stem", arch.stem, STEMS), ("last", arch.last, LASTS)):
            if value not in options:
                faults.append(f"{name} is {value}, not one of {', '.join(map(str, options))}")
        for number, stage in enumerate(arch.stages, start=1):
            for name, options in _CHOICES.items():
                if getattr(stage, name) not in options:
                    faults.append(
                        f"stage {number}: {name} is {getattr(stage, name)!r}, not one of {', '.join(map(str, options))}"
                    )
        if faults:
            raise SpaceError(f"not in the ResNet-like space: {'; '.join(faults)}", "choose listed values")

    def size(self) -> int:
        stage = 1
        for options in _CHOICES.values():
            stage *= len(options)
        return len(STEMS) * len(LASTS) * stage ** len(STRIDES)

    def neighbours(self, arch: ResnetArch) -> Iterator[ResnetArch]:
        yield from (replace(arch, stem=stem) for stem in STEMS if stem != arch.stem)
        yield from (replace(arch, last=last) for last in LASTS if last != arch.last)
        for place, stage in enumerate(arch.stages):
            for name, options in _CHOICES.items():
                for option in options:
                    if option != getattr(stage, name):
                        changed = replace(stage, **{name: option})
                        yield replace(arch, stages=(*arch.stages[:place], changed, *arch.stages[place + 1 :]))

    def key(self, arch: ResnetArch) -> str:
        return arch.key

    def to_dict(self, arch: ResnetArch) -> dict[str, Any]:
        return {"space": NAME, "arch": arch.text}

    def from_dict(self, data: dict[str, Any]) -> ResnetArch:
        if not isinstance(data, dict) or data.get("space", NAME) != NAME or not isinstance(data.get("arch"), str):
            raise SpaceError(
                f"{str(data)[:80]} does not describe a ResNet-like architecture",
                f'write {{"space": "{NAME}", "arch": "SuperConvK3BNRELU(3,8,1,1)SuperResK3K3(...)..."}}',
            )
        return ResnetArch.from_text(data["arch"])

    def blueprint(self, arch: ResnetArch, classes: int = 10, image: int = 32, width: float = 1.0) -> Blueprint:
        return ResnetBlueprint(arch, ResnetSkeleton(classes, image, width))

    def rows(self, name: str, arch: ResnetArch) -> list[Row]:
        boxes = [Box(f"stem {arch.stem}", f"3x3 convolution to {arch.stem} channels", "sparse")]
        for number, stage in enumerate(arch.stages, start=1):
            title = (
                f"stage {number}: {stage.blocks} {stage.kind} blocks, {stage.kernel}x{stage.kernel}, "
                f"{stage.inner} channels inside, {stage.width} out, stride {stage.stride}"
            )
            short = f"{stage.kernel}×{stage.kernel}" if stage.kind == "residual" else f"1-{stage.kernel}-1"
            boxes.append(Box(f"{short} {stage.width}", title))
        boxes.append(Box(f"last {arch.last}", f"1x1 convolution to {arch.last} channels", "sparse"))
        return [Row(name, tuple(boxes), tuple(Link(i, i + 1) for i in range(len(boxes) - 1)))]

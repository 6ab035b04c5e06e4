"""One ResNet-like architecture: a stem, stages of residual blocks, a last 1x1 convolution.

Written as in the Zen-NAS project, whose space SiGeo's CIFAR experiment uses (Lin et al. 2021, "Zen-NAS"):

    SuperConvK3BNRELU(3,8,1,1)            stem: 3x3 convolution from 3 to 8 channels, stride 1
    SuperResK3K3(8,16,1,8,1)              residual stage: from 8 to 16 channels, stride 1, inner width 8, depth 1
    SuperResK1K5K1(16,32,2,16,2)          bottleneck stage with 5x5 in the middle, stride 2, depth 2
    SuperConvK1BNRELU(32,128,1,1)         last convolution to 128 channels

A depth of n means n blocks of two k x k convolutions, or 2 n bottlenecks (1x1, k x k, 1x1). The first block of
a stage has a projection (1x1 convolution, normalisation) beside it, the others an identity.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Literal

from recnas.errors import SpaceError

COLOURS = 3
KERNELS = (3, 5, 7)
Kind = Literal["residual", "bottleneck"]
KINDS: tuple[Kind, ...] = ("residual", "bottleneck")

_BLOCK = re.compile(r"(\w+)\(([\d,\s]*)\)")
_STAGE = re.compile(r"SuperRes(K1)?K([357])(?:K\2|K1)")
_EXAMPLE = "SuperConvK3BNRELU(3,8,1,1)SuperResK3K3(8,16,1,8,1)SuperConvK1BNRELU(16,128,1,1)"


@dataclass(frozen=True)
class Stage:
    """Args:
    kind: blocks of two k x k convolutions, or bottlenecks.
    kernel: k.
    width: channels that leave every block.
    inner: channels between the convolutions of a block.
    depth: how many blocks (pairs of them for bottlenecks).
    stride: of the first block.
    """

    kind: Kind
    kernel: int
    width: int
    inner: int
    depth: int
    stride: int

    @property
    def blocks(self) -> int:
        return self.depth * (2 if self.kind == "bottleneck" else 1)

    @property
    def name(self) -> str:
        k = self.kernel
        return f"SuperResK{k}K{k}" if self.kind == "residual" else f"SuperResK1K{k}K1"


@dataclass(frozen=True)
class ResnetArch:
    """Stem width, stages, width of the last convolution."""

    stem: int
    stages: tuple[Stage, ...]
    last: int

    @property
    def text(self) -> str:
        parts, before = [f"SuperConvK3BNRELU({COLOURS},{self.stem},1,1)"], self.stem
        for s in self.stages:
            parts.append(f"{s.name}({before},{s.width},{s.stride},{s.inner},{s.depth})")
            before = s.width
        return "".join([*parts, f"SuperConvK1BNRELU({before},{self.last},1,1)"])

    @property
    def key(self) -> str:
        """No two writings are the same network, so this is a digest of the text."""
        return f"resnet-{hashlib.sha256(self.text.encode()).hexdigest()[:32]}"

    @classmethod
    def from_text(cls, text: str) -> ResnetArch:
        """Read the published notation; raises `SpaceError` naming what is wrong."""
        text = "".join(text.split())
        blocks = [(name, [int(n) for n in numbers.split(",") if n]) for name, numbers in _BLOCK.findall(text)]
        rebuilt = "".join(f"{name}({','.join(map(str, numbers))})" for name, numbers in blocks)
        if len(blocks) < 3 or rebuilt != text:
            raise _malformed(["it must be a stem, stages and a last convolution"])
        (stem_name, stem), *stages, (last_name, last) = blocks
        faults = []
        if stem_name != "SuperConvK3BNRELU" or len(stem) != 4 or (stem[0], *stem[2:]) != (COLOURS, 1, 1):
            faults.append(f"the stem must be SuperConvK3BNRELU({COLOURS},width,1,1)")
        if last_name != "SuperConvK1BNRELU" or len(last) != 4 or last[2:] != [1, 1]:
            faults.append("the last part must be SuperConvK1BNRELU(from,width,1,1)")
        found = []
        before = stem[1] if len(stem) > 1 else 0
        for place, (name, numbers) in enumerate(stages, start=1):
            shape = _STAGE.fullmatch(name)
            bottleneck = shape is not None and shape[1] is not None
            if shape is None or len(numbers) != 5 or bottleneck != name.endswith("K1"):
                faults.append(f"stage {place}, {name}, must be SuperResK3K3 or SuperResK1K3K1 (or 5, 7) with 5 numbers")
                continue
            start, width, stride, inner, depth = numbers
            if start != before:
                faults.append(f"stage {place} reads {start} channels where {before} come in")
            before = width
            found.append(Stage("bottleneck" if bottleneck else "residual", int(shape[2]), width, inner, depth, stride))
        if len(last) == 4 and last[0] != before:
            faults.append(f"the last convolution reads {last[0]} channels where {before} come in")
        if any(min(s.width, s.inner, s.depth, s.stride) < 1 for s in found):
            faults.append("widths, depths and strides must be 1 or more")
        if faults:
            raise _malformed(faults)
        return cls(stem[1], tuple(found), last[1])


def _malformed(faults: list[str]) -> SpaceError:
    return SpaceError(f"not a ResNet-like architecture: {'; '.join(faults)}", f"write it like {_EXAMPLE}")

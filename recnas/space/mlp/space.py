"""Fully connected networks with an activation and perhaps a skip per layer: the space of Eigen-NAS.

Zhu, Liu and Cevher, "Generalization Properties of NAS under Activation and Skip Connection Search" (2022),
equation 1. With L layers of weights, widths m and binary a_l:

    f_1 = s_1(W_1 x),   f_l = s_l(W_l f_{l-1}) + a_{l-1} f_{l-1}  for 1 < l < L,   f_L = W_L f_{L-1}

    text    relu-tanh+-swish         activations in order; + marks a layer with a skip around it
    key     mlp8-rTw                 width, a letter per layer, a capital for a skip

The sigmoid is shifted to be 0 at 0, as in the paper. No layer has a bias.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from numpy.random import Generator

from recnas.errors import ConfigError, SpaceError
from recnas.space.blueprint import Blueprint
from recnas.space.drawing import Box, Link, Row
from recnas.space.mlp.arch import ACTIVATIONS, MlpArch, faults_of
from recnas.space.mlp.skeleton import MlpBlueprint, MlpSkeleton, Parametrisation
from recnas.space.vision import VisionSpace

NAME = "mlp"
_LETTERS = {"relu": "r", "leaky_relu": "l", "sigmoid": "s", "tanh": "t", "swish": "w"}


class MlpSpace(VisionSpace[MlpArch]):
    """All networks of one depth and width, evenly. One change means another activation, or a skip more or less.

    Args:
        layers: layers of weights, L; at least 3.
        width: m.
    """

    name = NAME

    def __init__(self, layers: int = 10, width: int = 1024) -> None:
        if layers < 3 or width < 1:
            raise ConfigError(
                f"an MLP space of {layers} layers and width {width} has nothing to choose.",
                "Use 3 layers or more and a width of 1 or more.",
            )
        self.layers, self.width = layers, width

    def sample(self, rng: Generator) -> MlpArch:
        kinds = tuple(ACTIVATIONS[int(i)] for i in rng.integers(len(ACTIVATIONS), size=self.layers - 1))
        return MlpArch(kinds, tuple(bool(b) for b in rng.integers(2, size=self.layers - 2)), self.width)

    def mutate(self, arch: MlpArch, rng: Generator) -> MlpArch:
        others = list(self.neighbours(arch))
        return others[int(rng.integers(len(others)))]

    def validate(self, arch: MlpArch) -> None:
        faults = faults_of(arch)
        if arch.layers != self.layers:
            faults.append(f"{arch.layers} layers where the space has {self.layers}")
        if arch.width != self.width:
            faults.append(f"width {arch.width} where the space has {self.width}")
        if faults:
            raise SpaceError(f"not a network of the MLP space: {'; '.join(faults)}", f"use {', '.join(ACTIVATIONS)}")

    def size(self) -> int:
        return len(ACTIVATIONS) ** (self.layers - 1) * 2 ** (self.layers - 2)

    def neighbours(self, arch: MlpArch) -> Iterator[MlpArch]:
        for place, now in enumerate(arch.activations):
            for kind in ACTIVATIONS:
                if kind != now:
                    changed = (*arch.activations[:place], kind, *arch.activations[place + 1 :])
                    yield MlpArch(changed, arch.skips, arch.width)
        for place, skip in enumerate(arch.skips):
            flipped = (*arch.skips[:place], not skip, *arch.skips[place + 1 :])
            yield MlpArch(arch.activations, flipped, arch.width)

    def key(self, arch: MlpArch) -> str:
        marks = (False, *arch.skips)
        letters = "".join(
            _LETTERS[kind].upper() if skip else _LETTERS[kind] for kind, skip in zip(arch.activations, marks)
        )
        if len(letters) > 40:  # names stay short; the text is what to read
            letters = f"{len(letters)}x{hashlib.sha256(letters.encode()).hexdigest()[:32]}"
        return f"mlp{arch.width}-{letters}"

    def to_dict(self, arch: MlpArch) -> dict[str, Any]:
        return {"space": NAME, "arch": arch.text, "width": arch.width}

    def from_dict(self, data: dict[str, Any]) -> MlpArch:
        if (
            not isinstance(data, dict)
            or data.get("space", NAME) != NAME
            or not isinstance(data.get("arch"), str)
            or type(data.get("width", self.width)) is not int
        ):
            raise SpaceError(
                f"{str(data)[:80]} does not describe a network of the MLP space",
                f'write {{"space": "{NAME}", "arch": "relu-tanh+-swish", "width": {self.width}}}',
            )
        return MlpArch.from_text(data["arch"], data.get("width", self.width))

    def blueprint(
        self,
        arch: MlpArch,
        classes: int = 10,
        image: int = 32,
        parametrisation: Parametrisation = "standard",
        colours: int = 3,
    ) -> Blueprint:
        skeleton = MlpSkeleton((colours, image, image), classes, parametrisation, first_gain=1.0)
        return MlpBlueprint(arch, skeleton)

    def rows(self, name: str, arch: MlpArch) -> list[Row]:
        boxes = [Box("in", "the inputs", "sparse")]
        for number, kind in enumerate(arch.activations, start=1):
            boxes.append(Box(kind.replace("_", " "), f"layer {number}: {arch.width} wide, {kind}"))
        boxes.append(Box("out", f"layer {arch.layers}: the outputs", "sparse"))
        links = [Link(i, i + 1) for i in range(len(boxes) - 1)]
        links += [Link(n - 1, n, "skip", 4, 1) for n, skip in enumerate(arch.skips, start=2) if skip]
        return [Row(f"{name}: width {arch.width}", tuple(boxes), tuple(links))]

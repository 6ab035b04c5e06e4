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
from dataclasses import dataclass
from typing import Any

from numpy.random import Generator

from recnas.errors import ConfigError, SpaceError
from recnas.space.base import Space, nearest_name

NAME = "mlp"
ACTIVATIONS = ("relu", "leaky_relu", "sigmoid", "tanh", "swish")
_LETTERS = {"relu": "r", "leaky_relu": "l", "sigmoid": "s", "tanh": "t", "swish": "w"}


@dataclass(frozen=True)
class MlpArch:
    """`activations` of layers 1 to L - 1, `skips` around layers 2 to L - 1, and the width m."""

    activations: tuple[str, ...]
    skips: tuple[bool, ...]
    width: int

    @property
    def layers(self) -> int:
        """Layers of weights, L."""
        return len(self.activations) + 1

    @property
    def text(self) -> str:
        marks = ("", *("+" if skip else "" for skip in self.skips))
        return "-".join(name + mark for name, mark in zip(self.activations, marks))

    @classmethod
    def from_text(cls, text: str, width: int) -> MlpArch:
        """The inverse of `text`; raises `SpaceError` naming what is wrong."""
        parts = text.strip().split("-")
        arch = cls(tuple(part.removesuffix("+") for part in parts), tuple(p.endswith("+") for p in parts[1:]), width)
        faults = _faults(arch)
        if parts[0].endswith("+"):
            faults.append("the first layer has no skip around it")
        if faults:
            raise SpaceError(f"{text!r} is not a network of the MLP space: {'; '.join(faults)}", _HOW)
        return arch


_HOW = "write activations in order, + for a skip, e.g. relu-tanh+-swish"


class MlpSpace(Space[MlpArch]):
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
        faults = _faults(arch)
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


def _faults(arch: MlpArch) -> list[str]:
    faults = []
    if len(arch.activations) < 2:
        faults.append(f"{len(arch.activations)} activations, fewer than 2")
    if len(arch.skips) != max(len(arch.activations) - 1, 0):
        faults.append(f"{len(arch.skips)} skips for {len(arch.activations)} activations; the first layer has none")
    for kind in dict.fromkeys(arch.activations):
        if kind not in ACTIVATIONS:
            faults.append(f"unknown activation {kind!r} ({nearest_name(str(kind), ACTIVATIONS)})")
    if type(arch.width) is not int or arch.width < 1:
        faults.append(f"width {arch.width!r}")
    return faults

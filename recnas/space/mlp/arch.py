"""One fully connected network of the MLP space; the space's own text explains the notation."""

from __future__ import annotations

from dataclasses import dataclass

from recnas.errors import SpaceError
from recnas.space.base import nearest_name

ACTIVATIONS = ("relu", "leaky_relu", "sigmoid", "tanh", "swish")


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
        faults = faults_of(arch)
        if parts[0].endswith("+"):
            faults.append("the first layer has no skip around it")
        if faults:
            raise SpaceError(f"{text!r} is not a network of the MLP space: {'; '.join(faults)}", HOW_TO_WRITE)
        return arch


HOW_TO_WRITE = "write activations in order, + for a skip, e.g. relu-tanh+-swish"


def faults_of(arch: MlpArch) -> list[str]:
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

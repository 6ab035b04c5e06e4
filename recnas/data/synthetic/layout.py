"""What a raw format has to provide to be generated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from recnas.data.synthetic.planted import F64, Inputs, Planted

Labels = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Drawn:
    """A chunk before it is text: what the click model reads, and the cells the renderer needs."""

    inputs: Inputs
    cells: Mapping[str, Any] = field(default_factory=dict)


class SideFile(Protocol):
    """A second file that belongs to the first, known only after the last chunk."""

    name: str

    def note(self, keys: npt.NDArray[np.integer]) -> None:
        """Remember the keys that a chunk refers to. Called in row order, by one thread."""

    def blocks(self) -> Iterator[bytes]:
        """The text of the file, piece by piece."""


class Layout(Protocol):
    """One raw format: laws of the columns, planted terms, and how a row is written."""

    name: str
    click_rate: float
    bytes_per_row: int  # for the forecast of disk space
    header: bytes

    def laws(self) -> Mapping[str, F64]:
        """Chance of every value of every column that a planted term names."""

    def planted(self) -> Sequence[Planted]:
        """The terms of the click model."""

    def draw(self, rng: np.random.Generator, when: F64) -> Drawn:
        """One row per entry of `when`, its place in the log from 0 (first) to 1 (last)."""

    def render(self, drawn: Drawn, clicked: Labels, rng: np.random.Generator) -> bytes:
        """The rows as text, line ends included."""

    def side_file(self) -> SideFile | None:
        """A fresh side file for one run, if the format has one."""

    def side_keys(self, drawn: Drawn) -> npt.NDArray[np.integer] | None:
        """The keys of this chunk that the side file must know."""


class NoSideFile:
    """Mixin of the formats that are one file."""

    def side_file(self) -> SideFile | None:
        return None

    def side_keys(self, drawn: Drawn) -> npt.NDArray[np.integer] | None:
        return None

"""What a space of image networks promises besides what every space does: a blueprint, and how it is drawn.

With these a space can be scored, trained, counted and drawn; it joins by a folder and a line in `registry`.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import Any, ClassVar

from recnas.errors import SpaceError
from recnas.space.base import ArchT, Space
from recnas.space.blueprint import Blueprint
from recnas.space.drawing import Row


class VisionSpace(Space[ArchT]):
    """A space whose networks read images."""

    # A whole text that is an architecture of this space; None if it is written as JSON only.
    pattern: ClassVar[re.Pattern[str] | None] = None

    @abstractmethod
    def blueprint(self, arch: ArchT, classes: int = 10, image: int = 32, *args: Any, **sizes: Any) -> Blueprint:
        """The network around an architecture.

        A space names its own sizes (channels, cells, ...). Their defaults are what training-free work scores.
        """

    @abstractmethod
    def rows(self, name: str, arch: ArchT) -> list[Row]:
        """What to draw; `name` is the title."""

    def from_text(self, text: str) -> ArchT:
        """The architecture in a text that `pattern` fits."""
        raise SpaceError(f"{self.name} has no notation of its own", "write it as JSON")

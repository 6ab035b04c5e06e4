"""Architectures as a row of independent choices, for searchers that learn a distribution over them.

Not every space is one; a space that is offers `decisions()`, and REINFORCE and BOHB work in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from recnas.errors import ConfigError
from recnas.space.base import Space

Probabilities = list[NDArray[np.float64]]


class Decisions(Protocol):
    """A two-way reading of architectures as whole numbers."""

    sizes: Sequence[int]  # how many options each decision has

    def choices(self, arch: Any) -> Sequence[int]:
        """One number per decision, each below its size."""
        ...

    def arch(self, choices: Sequence[int]) -> Any:
        """The architecture of these choices; any choices are valid."""
        ...


def decisions_of(space: Space[Any], searcher: str) -> Decisions:
    """The decisions of a space, or an error that names a searcher for spaces without."""
    offer = getattr(space, "decisions", None)
    if offer is None:
        raise ConfigError(
            f"searcher {searcher!r} needs architectures that are a row of independent choices; {space.name} is no such space.",
            "Use search.method=evolution, local or random.",
        )
    return cast(Decisions, offer())


def draw(probabilities: Probabilities, rng: Generator) -> list[int]:
    """One option per decision."""
    return [int(rng.choice(len(p), p=p)) for p in probabilities]

"""What a supernet's plan is: a description that can be run under gates, and the decisions that make gates.

A plan runs like a blueprint (`recnas.space.blueprint`), with one more call on the pass: `mix(terms)`, a sum of
operations under gates. Gates are named vectors. Decisions are categorical choices that make gates, and
together they name an architecture.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from recnas.space.blueprint import Shape

Factor = tuple[str, int]  # a gate: name of its vector, place in it
Picks = Mapping[str, Tensor]  # per decision a vector, one-hot or not
COLOURS = 3


class Decision(NamedTuple):
    name: str
    size: int


class SupernetSpec(ABC):
    """One supernet, described."""

    decisions: tuple[Decision, ...]

    @abstractmethod
    def input_shape(self) -> Shape:
        """Of one example."""

    @abstractmethod
    def run(self, net: Any, x: Any) -> Any:
        """Logits of `x`; `net` is a pass that can also `mix`."""

    @abstractmethod
    def arch(self, choices: Sequence[int]) -> Any:
        """The architecture that a choice per decision names."""

    @abstractmethod
    def choices(self, arch: Any) -> tuple[int, ...]:
        """The inverse of `arch`."""

    def gates(self, picks: Picks) -> dict[str, Tensor]:
        """Gates from picks; a decision is a gate of its own unless a space says otherwise."""
        return dict(picks)

    @property
    def relaxed(self) -> tuple[Decision, ...]:
        """What is relaxed into a mixture."""
        return self.decisions

    def relaxed_gates(self, shares: Picks) -> dict[str, Tensor]:
        return self.gates(shares)

    def derive(self, shares: Mapping[str, Sequence[float]]) -> Any:
        """The architecture that a mixture becomes: the greatest share of every decision."""
        return self.arch([argmax(shares[decision.name]) for decision in self.decisions])


def argmax(values: Sequence[float]) -> int:
    """The place of the greatest value, the first of equals."""
    return max(range(len(values)), key=lambda place: (values[place], -place))


def membership(sets: Sequence[tuple[int, ...]], size: int) -> Tensor:
    """`[len(sets), size]`: 1 where a set has a member."""
    found = torch.zeros(len(sets), size)
    for row, members in enumerate(sets):
        found[row, list(members)] = 1.0
    return found


def same(x: Any) -> Any:
    """An operation that does nothing."""
    return x

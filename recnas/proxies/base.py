"""Proxies and the statistics they share.

A *statistic* is something measured on a network (gradient moments, a Gram matrix); it knows how to compute
itself. A *proxy* names the statistics it reads and turns them into one number. `Stats` computes each
statistic once for all proxies of a pass.

    class GradNorm(Proxy):
        name, needs = "grad_norm", (GradientMoments,)

        def score(self, stats):
            return Score(sum(g.first_norm for g in stats.get(GradientMoments).weights()))
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, Self, TypeVar

import torch
from torch import Tensor

from recnas.errors import RecnasError
from recnas.proxies.network import ScoredNetwork, ScoringBatch


class ProxyError(RecnasError):
    """A proxy met numbers it cannot be computed from."""


@dataclass(frozen=True)
class Score:
    """One number and what it is made of.

    `reason` is set when the network is degenerate for this proxy (no live path, nothing varies): then
    `value` is the proxy's documented worst and the reason says why.
    """

    value: float
    terms: Mapping[str, float] = field(default_factory=dict)
    reason: str | None = None


class Statistic(Protocol):
    """Something measured once per network and shared by proxies."""

    @classmethod
    def compute(cls, stats: Stats) -> Self: ...

    @classmethod
    def passes(cls, batches: int, batch_size: int) -> float:
        """What computing it costs beside the statistics it is made of, in batches passed forward and backward."""
        ...


S = TypeVar("S", bound=Statistic)


class Stats:
    """What one pass over one network knows; each statistic is computed when first asked for."""

    def __init__(self, network: ScoredNetwork, batches: Sequence[ScoringBatch], seed: int = 0) -> None:
        self.network, self.batches, self.seed = network, batches, seed
        self._found: dict[type, Statistic] = {}

    def get(self, kind: type[S]) -> S:
        if kind not in self._found:
            self._found[kind] = kind.compute(self)
        return self._found[kind]  # type: ignore[return-value]

    def drop(self, kind: type) -> None:
        """Forget a statistic that holds much memory."""
        self._found.pop(kind, None)

    def group_of(self, name: str) -> str:
        """The parameter a leaf belongs to: a weight of the supernet may be used in several pieces."""
        groups: Mapping[str, str] | None = getattr(self.network, "groups", None)
        return name if groups is None else groups[name]


class Proxy(ABC):
    """One number about a network.

    Args (class attributes):
        name: what the user types.
        needs: the statistics it reads.
        higher_is_better: the direction in which the paper ranks with it.
        worst: the value of a degenerate network, in the bad direction.
    """

    name: str
    needs: ClassVar[tuple[type[Statistic], ...]] = ()
    higher_is_better: bool = True
    min_batches: int = 1

    @abstractmethod
    def score(self, stats: Stats) -> Score: ...

    @property
    def worst(self) -> float:
        """Finite, so that it can be ranked, averaged and written to JSON."""
        return -WORST if self.higher_is_better else WORST

    def degenerate(self, reason: str, terms: Mapping[str, float] | None = None) -> Score:
        return Score(self.worst, terms or {}, reason)


WORST = 1e30


def read(scalars: Sequence[Tensor]) -> list[float]:
    """Their values. A host waits for a device whenever it reads from it: here once for all of them."""
    if not scalars or scalars[0].device.type == "cpu":
        return [float(one) for one in scalars]
    values: list[float] = torch.stack([one.detach().double() for one in scalars]).tolist()
    return values


def check_all_finite(named: Mapping[str, Tensor], what: str = "the gradient") -> None:
    """`check_finite` of every tensor, on a device with one look."""
    for (name, tensor), total in zip(named.items(), read([tensor.sum() for tensor in named.values()])):
        if not math.isfinite(total):
            check_finite(name, tensor, what)


def check_finite(name: str, tensor: Tensor, what: str = "the gradient") -> None:
    """Raise a `ProxyError` that names the parameter; NaN is never turned into a score."""
    if not math.isfinite(float(tensor.sum())):
        bad = int((~tensor.isfinite()).sum())
        if bad:
            raise ProxyError(
                f"{what} of parameter {name!r} holds {bad} values that are NaN or infinite (of {tensor.numel()}).",
                "The weights have diverged or the inputs are not finite: check the warm-up's learning rate and the data.",
            )

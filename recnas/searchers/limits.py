"""Limits on candidates, decided before a network is touched wherever arithmetic can decide.

A `Gate` stands between the space and the searcher. Parameters, multiply-adds and embedding memory come from
a function the caller gives (`cost`) and are checked first; latency comes from a second one (`measure`),
which is only called for architectures that passed. Every draw is bounded: limits that nothing meets end in
an error that says which limit rejected what share and how far away the nearest candidate was.

Measuring is not repeatable, so each network is measured once and the figures are kept: `new_measurements`
hands them to the ledger and `remember` takes them back when a search is resumed. The gate then decides as
it did the first time.

    gate = Gate(space, LimitSettings(params=1e6), cost=lambda arch: {"params": count(arch, schema).params})
    arch = gate.draw(lambda: space.sample(rng))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic

from recnas.errors import ConfigError, SpaceError
from recnas.searchers.settings import LimitSettings
from recnas.space.base import ArchT, Space

MEASURED = ("latency_ms_1", "latency_ms_512")
ARITHMETIC = ("params", "macs", "flops", "embedding_mb")

MEASURED_TRIES = 50  # networks that are measured before a limit that none of them meets is given up

Costs = Callable[[ArchT], Mapping[str, float]]


@dataclass
class Tally:
    """What one limit has done so far."""

    checked: int = 0
    rejected: int = 0
    smallest: float = float("inf")

    def add(self, value: float, limit: float) -> bool:
        """Count one candidate; True if it meets the limit."""
        self.checked += 1
        self.smallest = min(self.smallest, value)
        self.rejected += value > limit
        return value <= limit

    @property
    def hopeless(self) -> bool:
        """So many measured, a fraction of a second each, and none of them fast enough: thousands would take hours."""
        return self.checked >= MEASURED_TRIES and self.rejected == self.checked

    @property
    def share(self) -> float:
        return self.rejected / self.checked if self.checked else 0.0


@dataclass
class Counts:
    """Draws and what became of them, per limit."""

    draws: int = 0
    admitted: int = 0
    tallies: dict[str, Tally] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able, for reports."""
        limits = {
            name: {
                "checked": t.checked,
                "rejected": t.rejected,
                "smallest": t.smallest if t.checked else None,
            }
            for name, t in self.tallies.items()
        }
        return {"draws": self.draws, "admitted": self.admitted, "limits": limits}


class Gate(Generic[ArchT]):
    """Lets through what meets the limits.

    Args:
        space: where the architectures come from.
        limits: upper limits; without any, everything passes.
        cost: figures of an architecture by arithmetic: every name of `ARITHMETIC` that has a limit
            (`flops` may be left out: two per multiply-add).
        measure: latencies in milliseconds: every name of `MEASURED` that has a limit.
    """

    def __init__(
        self,
        space: Space[ArchT],
        limits: LimitSettings | None = None,
        cost: Costs[ArchT] | None = None,
        measure: Costs[ArchT] | None = None,
    ) -> None:
        limits = limits or LimitSettings()
        self.space = space
        self.tries = limits.tries
        self.limits = {
            name: float(value) for name in ARITHMETIC + MEASURED if (value := getattr(limits, name)) is not None
        }
        self._cost = self._needed(cost, ARITHMETIC, "cost")
        self._measure = self._needed(measure, MEASURED, "measure")
        self._measured: dict[str, Mapping[str, float]] = {}
        self._fresh: dict[str, Mapping[str, float]] = {}
        self.counts = self._zero()

    def draw(self, make: Callable[[], ArchT]) -> ArchT:
        """Call `make` until its architecture meets the limits; an error with the reasons after `tries`."""
        counts = self._zero()
        arch = self.attempt(make, counts)
        if arch is None:
            raise SpaceError(*self._explain(counts))
        return arch

    def attempt(self, make: Callable[[], ArchT], counts: Counts | None = None) -> ArchT | None:
        """The same, but None after `tries`."""
        counts = self._zero() if counts is None else counts
        for _ in range(self.tries):
            arch = make()
            if self.admits(arch, counts):
                return arch
            if any(counts.tallies[name].hopeless for name in self._names(MEASURED)):
                return None
        return None

    def admits(self, arch: ArchT, counts: Counts | None = None) -> bool:
        """Whether `arch` meets every limit; counted in `self.counts`, and in `counts` if given."""
        books = [self.counts] if counts is None else [self.counts, counts]
        for book in books:
            book.draws += 1
        passed = self._meets(self._figures(self._cost, arch, ARITHMETIC), books)
        if passed and self._measure is not None:
            passed = self._meets(self._latencies(arch), books)
        for book in books:
            book.admitted += passed
        return passed

    def new_measurements(self) -> dict[str, Mapping[str, float]]:
        """What was measured since the last call, by architecture key; belongs in the ledger."""
        fresh, self._fresh = self._fresh, {}
        return fresh

    def remember(self, measured: Mapping[str, Mapping[str, float]]) -> None:
        """Take measurements back from a ledger."""
        self._measured.update(measured)

    def _meets(self, figures: Mapping[str, float], books: list[Counts]) -> bool:
        # Every limit is checked, also after one has failed, so that the shares can be trusted.
        verdicts = [
            book.tallies[name].add(value, self.limits[name]) for name, value in figures.items() for book in books
        ]
        return all(verdicts)

    def _latencies(self, arch: ArchT) -> Mapping[str, float]:
        key = self.space.key(arch)
        known = self._measured.get(key)
        if known is None or any(name not in known for name in self._names(MEASURED)):
            known = self._measured[key] = self._fresh[key] = self._figures(self._measure, arch, MEASURED)
        return {name: known[name] for name in self._names(MEASURED)}

    def _figures(self, source: Costs[ArchT] | None, arch: ArchT, group: tuple[str, ...]) -> dict[str, float]:
        if source is None:
            return {}
        given = dict(source(arch))
        if "macs" in given:
            given.setdefault("flops", 2 * given["macs"])
        wanted = self._names(group)
        missing = [name for name in wanted if name not in given]
        if missing:
            raise ConfigError(
                f"limits.{missing[0]} is set, but only {', '.join(given) or 'nothing'} is known of a candidate",
                f"remove limits.{missing[0]}",
            )
        figures = {name: float(given[name]) for name in wanted}
        broken = [f"{name} is {value}" for name, value in figures.items() if not math.isfinite(value)]
        if broken:
            raise SpaceError(
                f"the figures of {self.space.key(arch)} cannot be held against a limit: {', '.join(broken)}",
                "check the function that computes them, or remove the limit",
            )
        return figures

    def _names(self, group: tuple[str, ...]) -> list[str]:
        return [name for name in group if name in self.limits]

    def _needed(self, source: Costs[ArchT] | None, group: tuple[str, ...], what: str) -> Costs[ArchT] | None:
        names = self._names(group)
        if names and source is None:
            raise ConfigError(
                f"limits.{names[0]} is set, but this search has no `{what}` function to decide it",
                f"remove limits.{names[0]}, or give the gate a `{what}` function",
            )
        return source if names else None

    def _zero(self) -> Counts:
        return Counts(tallies={name: Tally() for name in self.limits})

    def _explain(self, counts: Counts) -> tuple[str, str]:
        tried = {name: tally for name, tally in counts.tallies.items() if tally.checked}
        shares = ", ".join(
            f"{name} <= {_number(self.limits[name])} rejected {100 * tally.share:.1f} %"
            + (f" of the {tally.checked:,} that met the others" if name in MEASURED else "")
            for name, tally in tried.items()
        )
        what = f"no architecture of {self.space.name} meets the limits: of {counts.draws:,} draws {shares}"
        hopeless = [
            f"the smallest {name} seen was {_number(tally.smallest)}; raise limits.{name} above it"
            for name, tally in tried.items()
            if tally.share == 1
        ]
        if hopeless:
            return what, ". ".join(hopeless)
        strictest = max(tried, key=lambda name: tried[name].share)
        return (
            what,
            f"each limit is met by some but all by none; raise limits.{strictest} first, or limits.tries",
        )


def _number(value: float) -> str:
    if value == int(value):
        return f"{value:,.0f}"
    return f"{value:,.3f}" if value >= 0.1 else f"{value:.3g}"

"""What a search wants: one or several named values, each to be made small or large.

Inside a search every value becomes a cost that is minimised (values to maximise change sign), so that the
rest of the package compares in one direction only. A candidate that failed costs infinity in everything:
it loses against all others without a made-up number entering any file.

Ties are broken by order: of two equal candidates the one told first comes first. Nothing here draws random
numbers, so the order is the same on every machine.

    objectives = Objectives.of({"sigeo": "max", "params": "min"})
    best_first = objectives.order(costs)  # costs: [N, M], one row per candidate in the order told

Several values are either compromises to keep apart (`pareto`: accuracy against cost) or opinions on the same
question (`vote`: several proxies). A vote ranks the candidates at hand by each value and adds the ranks up, so
values of any scale count alike and nothing has to be weighted; who is best depends on who else is there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recnas.errors import ConfigError
from recnas.space.base import nearest_name

DIRECTIONS = ("min", "max")
COMBINATIONS = ("pareto", "vote")

Costs = NDArray[np.float64]


@dataclass(frozen=True)
class Objectives:
    """Names of the values a searcher is told, and which way is better. Use `Objectives.of`."""

    names: tuple[str, ...]
    directions: tuple[str, ...]
    combine: str = "pareto"

    @classmethod
    def of(cls, directions: Mapping[str, str], combine: str = "pareto") -> Objectives:
        """From `{"name": "min" | "max"}`; the order of the names is kept."""
        if combine not in COMBINATIONS:
            raise ConfigError(f"objectives cannot be combined by {combine!r}", nearest_name(str(combine), COMBINATIONS))
        if not directions:
            raise ConfigError("a search needs at least one objective", "give one, e.g. sigeo: max")
        for name, direction in directions.items():
            if direction not in DIRECTIONS:
                raise ConfigError(
                    f"objective {name!r} has the direction {direction!r}",
                    nearest_name(str(direction), DIRECTIONS),
                )
        return cls(tuple(directions), tuple(directions.values()), combine)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def is_vote(self) -> bool:
        """Whether several values stand for opinions that are added up, so that none of them alone says who leads."""
        return len(self) > 1 and self.combine == "vote"

    @property
    def has_front(self) -> bool:
        """Whether candidates are compromises, of which many can be best; otherwise all stand in one order."""
        return len(self) > 1 and self.combine == "pareto"

    def to_dict(self) -> dict[str, str]:
        return dict(zip(self.names, self.directions))

    def faults(self, values: Mapping[str, float]) -> list[str]:
        """What keeps `values` from being told: a name too few or too many, or a value that is not a number."""
        missing = [f"{name!r} is missing" for name in self.names if name not in values]
        unknown = [f"{name!r} is not an objective" for name in values if name not in self.names]
        broken = [f"{name!r} is {value}" for name, value in values.items() if not math.isfinite(value)]
        return missing + unknown + broken

    def costs(self, values: Mapping[str, float] | None) -> tuple[float, ...]:
        """`values` as numbers to minimise; None stands for a failed candidate."""
        if values is None:
            return (math.inf,) * len(self)
        signs = (1.0 if direction == "min" else -1.0 for direction in self.directions)
        return tuple(sign * values[name] + 0.0 for sign, name in zip(signs, self.names))  # + 0.0: no -0.0

    def order(self, costs: Sequence[Sequence[float]] | Costs) -> list[int]:
        """Row numbers of `costs`, best first.

        One objective: by its value. A vote: by the sum of ranks among these rows. A front: by front, and
        within a front those in sparse regions first, so that a cut anywhere keeps a spread of compromises.
        Equal rows stay in the order given.
        """
        table = _table(costs, len(self))
        if not self.has_front:
            single = table[:, 0] if len(self) == 1 else rank_sums(table)
            return [int(i) for i in np.argsort(single, kind="stable")]
        ranks = fronts(table)
        spread = np.zeros(len(table))
        for rank in np.unique(ranks):
            members = np.flatnonzero(ranks == rank)
            spread[members] = crowding(table[members])
        return [int(i) for i in np.lexsort((np.arange(len(table)), -spread, ranks))]

    def places(self, values: Sequence[Mapping[str, float]]) -> list[int]:
        """The place of each candidate among all of these: 1 for the best, every place once."""
        place = [0] * len(values)
        for number, row in enumerate(self.order([self.costs(found) for found in values]), start=1):
            place[row] = number
        return place

    def better_than(self, here: Sequence[float], costs: Sequence[Sequence[float]] | Costs) -> list[bool]:
        """For each row of `costs` whether a search that stands at `here` should rather stand there."""
        table = _table(costs, len(self))
        if self.is_vote:
            ranks = rank_sums(np.vstack([_table([here], len(self)), table]))
            return [bool(rank < ranks[0]) for rank in ranks[1:]]
        return [dominates(row, here) for row in table.tolist()]


def rank_sums(costs: Costs) -> NDArray[np.float64]:
    """Sum over columns of each row's rank, 0 for the lowest cost; equal costs share their mean rank."""
    total = np.zeros(len(costs))
    for column in costs.T:
        _, place, count = np.unique(column, return_inverse=True, return_counts=True)
        last = np.cumsum(count)
        total += (last - (count + 1) / 2)[place.reshape(-1)]
    return total


def dominates(one: Iterable[float], other: Iterable[float]) -> bool:
    """Whether `one` is nowhere worse than `other` and somewhere better; with one cost: smaller."""
    pairs = list(zip(one, other, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def fronts(costs: Costs) -> NDArray[np.int64]:
    """Front of each row: 0 if no row dominates it, 1 if only rows of front 0 do, and so on.

    Rows are visited in lexicographic order, in which nobody is dominated by a later one; each joins the
    first front without a dominator. A front that dominates a row is preceded only by fronts that do too,
    so the right one is found by bisection. Memory stays at one row per candidate, not one per pair.
    """
    distinct, place = np.unique(costs + 0.0, axis=0, return_inverse=True)
    members: list[list[int]] = []
    rank = np.empty(len(distinct), dtype=np.int64)
    for row, point in enumerate(distinct):
        low, high = 0, len(members)
        while low < high:
            middle = (low + high) // 2
            if (distinct[members[middle]] <= point).all(axis=1).any():
                low = middle + 1
            else:
                high = middle
        if low == len(members):
            members.append([])
        members[low].append(row)
        rank[row] = low
    return rank[place.reshape(-1)]


def crowding(costs: Costs) -> NDArray[np.float64]:
    """How alone each row of one front is: the relative gap between its neighbours, summed over costs.

    The extreme rows of every cost get infinity. Failed rows (infinite costs) get 0.
    """
    distance = np.zeros(len(costs))
    whole = np.flatnonzero(np.isfinite(costs).all(axis=1))
    for column in costs[whole].T:
        order = np.argsort(column, kind="stable")
        span = column[order[-1]] - column[order[0]] if len(order) else 0.0
        if span == 0:
            continue
        ordered = column[order]
        distance[whole[order[1:-1]]] += (ordered[2:] - ordered[:-2]) / span
        distance[whole[order[[0, -1]]]] = np.inf
    return distance


def _table(costs: Sequence[Sequence[float]] | Costs, width: int) -> Costs:
    return np.asarray(costs, dtype=np.float64).reshape(-1, width)

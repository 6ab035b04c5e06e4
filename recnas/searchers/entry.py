"""Who enters a race.

The first bracket: seeds of the search, then its best candidates by its own order, of which at most `relatives` may
descend from the same first candidate. All enter with the default recipe, and where there is room with up to `recipes`.
Seeds come first because they are known to work: with a small budget those at the end of the list would never be tried.

The next ones, in turns (`later`): untrained candidates that a ranker, fitted on what was trained so far, places highest,
with the leader's recipe; mutations of the leaders with theirs; other recipes of the leaders.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

from recnas.runs.records import Candidate, Entrant
from recnas.searchers.base import SEED, Searcher
from recnas.searchers.ranker import genes, predicted
from recnas.searchers.settings import RaceSettings

Recipe = Mapping[str, Any]
T = TypeVar("T")
LEADERS = 3  # whose relatives and recipes enter a later bracket
TRIES = 1000  # draws of relatives and of recipes


@dataclass(frozen=True)
class Contender:
    """An architecture that may enter.

    Attributes:
        index: of its candidate. root: of the candidate that its line of first parents begins with.
        why: it may enter: seed, search or mutation. name: of the hand-crafted model that it is.
        features: what a ranker may know of it before it is trained.
    """

    index: int
    key: str
    arch: dict[str, Any]
    root: int
    why: str = "search"
    name: str | None = None
    features: Mapping[str, float] = field(default_factory=dict)


class Entry:
    """Chooses entrants; numbers and brackets are given later.

    Args:
        contenders: all that are known: seeds, and candidates best first by the search's own order.
        recipe: of a key, around a recipe or None for the default, number 0, 1, ...
        mutated: a neighbour of an architecture within the limits, by the number of the draw; None if there is none.
    """

    def __init__(
        self,
        settings: RaceSettings,
        contenders: Sequence[Contender],
        recipe: Callable[[str, Recipe | None, int], dict[str, Any]],
        mutated: Callable[[Contender, int], Contender | None],
    ) -> None:
        self.settings, self.contenders = settings, list(contenders)
        self._recipe, self._mutated = recipe, mutated
        self._by_key = {one.key: one for one in reversed(self.contenders)}

    def first(self, room: int) -> list[Entrant]:
        seeds = [one for one in self.contenders if one.why == SEED]
        searched = self._not_too_near([one for one in self.contenders if one.why != SEED])
        # Every seed and as many others come before any second recipe.
        count = max(math.ceil(room / self.settings.recipes), min(room, 2 * len(seeds)))
        chosen = [*seeds, *searched][:count]
        entrants = (
            _entrant(one, self._recipe(one.key, None, number), one.why)
            for number in range(self.settings.recipes)
            for one in chosen
        )
        return list(islice(_new(entrants, set()), room))

    def later(self, room: int, leaders: Sequence[Entrant], order: Sequence[Entrant]) -> list[Entrant]:
        """Entrants of a further bracket.

        Args:
            leaders: those of `order` that did not fail, of which the first few architectures count.
            order: all entrants so far: who came furthest first, and of these the best.
        """
        best: dict[str, Entrant] = {}
        for one in leaders:
            best.setdefault(one.key, one)  # each architecture with its best recipe
        leaders = list(best.values())[:LEADERS]
        sources = {
            "ranker": lambda: self._untrained(leaders, order, self._predicted(order)),
            "untrained": lambda: self._untrained(leaders, order, {}),
            "mutation": lambda: self._mutations(leaders),
            "recipe": lambda: self._other_recipes(leaders, order),
        }
        met = {_pair(one) for one in order}
        return list(islice(_new(in_turns(*(sources[name]() for name in self.settings.later)), met), room))

    def _untrained(
        self, leaders: Sequence[Entrant], order: Sequence[Entrant], places: Mapping[str, float]
    ) -> Iterator[Entrant]:
        """With the leader's recipe; by predicted places, or as they stand."""
        met = {one.key for one in order}
        found = sorted((one for one in self.contenders if one.key not in met), key=lambda one: places.get(one.key, 0.0))
        for one in self._not_too_near(found):
            recipe = leaders[0].recipe if leaders else self._recipe(one.key, None, 0)
            yield _entrant(one, recipe, "ranker" if places else one.why)

    def _predicted(self, order: Sequence[Entrant]) -> dict[str, float]:
        """The place that each contender is expected to reach; low is good."""
        reached: dict[str, float] = {}
        for place, one in enumerate(order):
            reached.setdefault(one.key, place / len(order))
        rows = {row: reached[one.key] for row, one in enumerate(self.contenders) if one.key in reached}
        found = predicted([one.features for one in self.contenders], rows)
        return {one.key: place for one, place in zip(self.contenders, found)}

    def _mutations(self, leaders: Sequence[Entrant]) -> Iterator[Entrant]:
        for draw in range(TRIES if leaders else 0):
            leader = leaders[draw % len(leaders)]
            child = self._mutated(self._by_key[leader.key], draw)
            if child is not None and child.key not in self._by_key:
                self._by_key[child.key] = child
                yield _entrant(child, leader.recipe, "mutation")

    def _other_recipes(self, leaders: Sequence[Entrant], entrants: Sequence[Entrant]) -> Iterator[Entrant]:
        for draw in range(TRIES if leaders else 0):
            leader = leaders[draw % len(leaders)]
            met = sum(one.key == leader.key for one in entrants)
            drawn = self._recipe(leader.key, leader.recipe, met + draw)
            yield _entrant(self._by_key[leader.key], drawn, "recipe")

    def _not_too_near(self, contenders: Iterable[Contender]) -> list[Contender]:
        """In their order, those last that would be one relative too many."""
        counts: Counter[int] = Counter()
        near: list[Contender] = []
        rest: list[Contender] = []
        for one in contenders:
            counts[one.root] += 1
            (near if counts[one.root] <= self.settings.relatives else rest).append(one)
        return near + rest


def contenders_of(searcher: Searcher[Any], lines: Mapping[int, Candidate], names: Mapping[str, str]) -> list[Contender]:
    """Of a search that is over: its seeds, then its candidates, best first.

    A seed that no supernet can hold has no scores and may enter all the same: in a race it is trained from scratch.

    Args:
        lines: of its ledger, by index. names: of hand-crafted models, by key.
    """
    history = [told.proposal for told in searcher.history]
    parents = {proposal.index: proposal.parents for proposal in history}
    seeds = [one for one in history if one.origin == SEED and not one.known]
    ranked = [told.proposal for told in searcher.best(len(history)) if told.proposal.origin != SEED]
    found = []
    for proposal in [*seeds, *ranked]:
        line = lines[proposal.index]
        scores = {f"score {name}": score.value for name, score in line.scores.items()}
        costs = {f"cost {name}": value for name, value in line.cost.items()}
        found.append(
            Contender(
                index=proposal.index,
                key=proposal.key,
                arch=line.arch,
                root=root_of(proposal.index, parents),
                why=SEED if proposal.origin == SEED else "search",
                name=names.get(proposal.key),
                features={**scores, **costs, **genes(line.arch)},
            )
        )
    return found


def in_turns(*sources: Iterable[T]) -> Iterator[T]:
    """One of each, again and again; a source that has ended is passed over."""
    going = [iter(source) for source in sources]
    while going:
        for source in list(going):
            try:
                yield next(source)
            except StopIteration:
                going.remove(source)


def root_of(index: int, parents: Mapping[int, Sequence[int]]) -> int:
    """The candidate that a line of first parents begins with."""
    while parents.get(index):
        index = parents[index][0]
    return index


def _pair(one: Entrant) -> tuple[str, str]:
    return one.key, json.dumps(one.recipe, sort_keys=True)


def _new(entrants: Iterable[Entrant], met: set[tuple[str, str]]) -> Iterator[Entrant]:
    """Without those that would repeat a training, of the same seed and so the same to the last bit."""
    for one in entrants:
        if _pair(one) not in met:
            met.add(_pair(one))
            yield one


def _entrant(one: Contender, recipe: Recipe, why: str) -> Entrant:
    return Entrant(number=0, index=one.index, key=one.key, arch=one.arch, recipe=dict(recipe), why=why, name=one.name)

"""Regularized evolution (Real et al., 2019) with the settings of NASRec and SiGeo.

A population of random architectures, and of seeds if there are such; then, generation by generation, a few are drawn without replacement,
the best of them becomes the parent, each child is the parent after m mutations, and as many of the oldest
leave as children arrive. Age, not quality, decides who leaves: a good architecture stays in the population
only through its offspring.

m falls in steps as the search goes on, from 6 to 1 in the published 240 generations; see `mutations_at`.

Where this departs from NASRec's code:

- A child whose network was met before is mutated further, as there; but here the initial population counts
  as met, the key names the network rather than the description, and the tries are bounded.
- A child outside the limits is made again from its parent. If `limits.tries` children in a row are outside,
  a random architecture takes the place (origin `random`).
- All candidates told are the result, not the two best of each generation, and none is lost.

With several objectives (and `combine: pareto`) the parents are the first Pareto front of the drawn ones, those in sparse regions
first, and the children take them in turn: one parent would always be an end of the front. The population's
own front does not age: the oldest of the others leave, and front members only when nobody else is left.
The values of a search come from fixed batches and do not change when read again, so nobody stays by luck.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from recnas.searchers.base import Searcher
from recnas.searchers.objective import fronts
from recnas.searchers.proposal import Proposal
from recnas.searchers.settings import EvolutionSettings
from recnas.space.base import ArchT


class Evolution(Searcher[ArchT]):
    """Regularized evolution; `settings` are explained in `EvolutionSettings`."""

    name = "evolution"
    settings_class = EvolutionSettings
    settings: EvolutionSettings

    @property
    def total(self) -> int:
        return self.settings.population + self.settings.generations * self.settings.children

    def _batches(self) -> Iterator[list[Proposal[ArchT]]]:
        first = self._first(self.settings.population, "init")
        yield first
        living = [proposal.index for proposal in first]  # oldest first
        for generation in range(self.settings.generations):
            parents = self._parents(living)
            turns = [parents[child % len(parents)] for child in range(self.settings.children)]
            children = [self._child(parent, generation) for parent in turns]
            yield children
            living += [child.index for child in children]
            costs = self._costs(living) if self.objectives.has_front else None
            living = survivors(living, costs, self.settings.children)

    def _parents(self, living: Sequence[int]) -> list[int]:
        """The best of a random share of the population; with several objectives their front."""
        drawn = self.rng.choice(len(living), size=self.settings.tournament, replace=False)
        entrants = [living[place] for place in sorted(drawn)]  # by age, so that the older wins a tie
        costs = self._costs(entrants)
        leaders = int((fronts(costs) == 0).sum()) if self.objectives.has_front else 1
        return [entrants[place] for place in self.objectives.order(costs)[:leaders]]

    def _child(self, parent: int, generation: int) -> Proposal[ArchT]:
        facts = {"generation": generation}
        count = mutations_at(generation, self.settings)
        arch = self.gate.attempt(lambda: self._mutated(self.history[parent].proposal.arch, count))
        if arch is None:
            return self._propose(self._sample_new(), "random", facts=facts)
        arch, further = self._until_new(arch, lambda seen: self.space.mutate(seen, self.rng))
        return self._propose(arch, "mutation", (parent,), count + further, facts)

    def _mutated(self, arch: ArchT, count: int) -> ArchT:
        for _ in range(count):
            arch = self.space.mutate(arch, self.rng)
        return arch

    def _costs(self, indices: Sequence[int]) -> np.ndarray:
        return np.asarray([self.history[index].costs for index in indices])


def survivors(living: Sequence[int], costs: np.ndarray | None, leaving: int) -> list[int]:
    """`living` (oldest first) without the oldest; where there is a front, it leaves only after all others.

    Args:
        living: indices of candidates.
        costs: their costs, [N, M]; None if the search has no front.
        leaving: how many go.
    """
    by_age = list(living)
    if costs is not None:
        spared = dict(zip(living, fronts(costs) == 0))
        by_age.sort(key=spared.__getitem__)  # stable: by age within both groups
    gone = set(by_age[:leaving])
    return [index for index in living if index not in gone]


def mutations_at(generation: int, settings: EvolutionSettings) -> int:
    """Mutations per child in a generation (from 0).

    `falling`: one fewer every fifth of the search, but never more often than every 20 generations. Of 240
    generations the first makes 6, the next 48 make 5, and the last 47 make 1.
    """
    if settings.mutations != "falling":
        return settings.mutations
    step = max(20, settings.generations // 5)
    return (settings.generations - generation) // step + 1

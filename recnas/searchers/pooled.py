"""What searchers that rank a pool have in common: the pool, its draws, and seeds as members of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recnas.searchers.base import SEED, Searcher
from recnas.searchers.pool import Pool, PoolScores, require_scores
from recnas.searchers.proposal import Proposal
from recnas.space.base import ArchT


class PooledSearcher(Searcher[ArchT]):
    """Its settings name the scores of the pool (`pool_scores`).

    Seeds are members like any other: they are scored with the first draw, and proposed when their scores say so.
    """

    ranks_a_pool = True

    def _begin(self, pool_scores: PoolScores | None) -> None:
        self.pool = Pool(self.space, require_scores(pool_scores, self.name), self.settings.pool_scores)
        self._seed_keys: set[str] = set()

    def _draw_members(self, size: int) -> None:
        """So many more members; seeds take the place of draws."""
        seeds = self._admitted()
        self._seed_keys |= {self.space.key(arch) for arch in seeds}
        drawn = [self.gate.draw(lambda: self.space.sample(self.rng)) for _ in range(size - len(seeds))]
        self.pool.add([*seeds, *drawn])

    def _propose_member(self, arch: ArchT, origin: str, facts: Mapping[str, Any]) -> Proposal[ArchT]:
        return self._propose(arch, SEED if self.space.key(arch) in self._seed_keys else origin, facts=facts)

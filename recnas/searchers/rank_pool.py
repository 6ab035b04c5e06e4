"""Training-free search: rank a random pool by cheap scores, then train the best few and keep the best.

One score is the classic use of a proxy (NASWOT, KNAS, ZiCo, SiGeo); Eigen-NAS is the trace bound or the
smallest eigenvalue with 5 or 20 trained; several scores are joined by the sum of their ranks, as TE-NAS does
with the condition number and a count of linear regions. With one candidate nothing is learnt from training.
Seeds are members of the pool, ranked like the others.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from recnas.searchers.objective import rank_sums
from recnas.searchers.pool import ScoreMatrix
from recnas.searchers.pooled import PooledSearcher
from recnas.searchers.proposal import Proposal
from recnas.searchers.settings import RankPoolSettings
from recnas.space.base import ArchT


class RankPool(PooledSearcher[ArchT]):
    """Proposes the best of a pool in order; values told change nothing but the result."""

    name = "rank-pool"
    settings_class = RankPoolSettings
    settings: RankPoolSettings

    @property
    def total(self) -> int:
        return self.settings.candidates

    def _batches(self) -> Iterator[list[Proposal[ArchT]]]:
        self._draw_members(self.settings.pool)
        ranks = rank_sums(as_costs(self.pool.scores(), list(self.settings.by.values())))
        order = np.argsort(ranks, kind="stable")[: self.total].tolist()
        found = [(self.pool.arch(place), ranks[place]) for place in order]
        batch = [
            self._propose_member(arch, "rank-pool", {"rank": rank, "rank_sum": float(ranks_of), "pool": len(self.pool)})
            for rank, (arch, ranks_of) in enumerate(found)
        ]
        while len(batch) < self.total:  # a pool smaller than the budget
            batch.append(self._propose(self._sample_new(), "random"))
        yield batch


def as_costs(scores: ScoreMatrix, directions: list[str]) -> ScoreMatrix:
    """ScoreMatrix [M, N] as costs [N, M] to minimise; what is not known comes last."""
    signed = [row if direction == "min" else -row for row, direction in zip(scores, directions)]
    return np.where(np.isnan(signed), np.inf, signed).T

"""Training-free search: rank a random pool by cheap figures, then train the best few and keep the best.

One figure is the classic use of a proxy (NASWOT, KNAS, ZiCo, SiGeo); Eigen-NAS is the trace bound or the
smallest eigenvalue with 5 or 20 trained; several figures are joined by the sum of their ranks, as TE-NAS does
with the condition number and a count of linear regions. With one candidate nothing is learnt from training.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from recnas.searchers.base import Searcher
from recnas.searchers.evidence import Evidence, Figures, Pool, needed
from recnas.searchers.limits import Gate
from recnas.searchers.objective import Objectives, rank_sums
from recnas.searchers.proposal import Proposal
from recnas.searchers.settings import TopSettings
from recnas.space.base import ArchT, Space


class TopOfPool(Searcher[ArchT]):
    """Proposes the best of a pool in order; values told change nothing but the result."""

    name = "top"
    stream = 6
    settings_class = TopSettings
    uses_evidence = True

    def __init__(
        self,
        space: Space[ArchT],
        objectives: Objectives,
        seed: int,
        settings: TopSettings | None = None,
        gate: Gate[ArchT] | None = None,
        evidence: Evidence | None = None,
    ) -> None:
        self.settings = settings or TopSettings()
        self.pool = Pool(space, needed(evidence, self.name), list(self.settings.by))
        super().__init__(space, objectives, seed, self.settings.redraws, gate)

    @property
    def total(self) -> int:
        return self.settings.candidates

    def _batches(self) -> Iterator[list[Proposal[ArchT]]]:
        self.pool.add([self.gate.draw(lambda: self.space.sample(self.rng)) for _ in range(self.settings.pool)])
        ranks = rank_sums(as_costs(self.pool.figures(), list(self.settings.by.values())))
        order = np.argsort(ranks, kind="stable")[: self.total].tolist()
        found = [(self.pool.arch(place), ranks[place]) for place in order]
        batch = [
            self._propose(arch, "top", facts={"rank": place, "rank_sum": float(ranks_of), "pool": len(self.pool)})
            for place, (arch, ranks_of) in enumerate(found)
        ]
        while len(batch) < self.total:  # a pool smaller than the budget
            batch.append(self._propose(self._sample_new(), "random"))
        yield batch


def as_costs(figures: Figures, directions: list[str]) -> Figures:
    """Figures [M, N] as costs [N, M] to minimise; what is not known comes last."""
    signed = [row if direction == "min" else -row for row, direction in zip(figures, directions)]
    return np.where(np.isnan(signed), np.inf, signed).T

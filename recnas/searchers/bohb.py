"""BOHB (Falkner et al. 2018): Hyperband decides how long to look, a density model decides at what.

Hyperband runs brackets of successive halving: a bracket starts with several architectures at a low level, and
the best 1/eta of each level are looked at again at the next one. Brackets take turns in how many levels they
use. With one level (a table that holds one length of training) there is nothing to halve, and what is left is
the model: TPE over independent choices.

The model splits what was told at the highest level that has enough into a good and a bad part, smooths the
frequencies of every option in both, draws from the good one and keeps the draw with the largest ratio of
densities. A share of the draws stays random. Seeds are the first of the first bracket, which they may widen.

Every look counts as one candidate, whatever its level; what it costs is for the caller to say (`cost` of a
ledger line). In spaces with levels the result is the best at the highest level reached.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from recnas.searchers.base import Searcher
from recnas.searchers.decisions import Probabilities, decisions_of, draw
from recnas.searchers.fidelity import FidelitySpace, Rung
from recnas.searchers.pool import PoolScores
from recnas.searchers.proposal import Outcome, Proposal
from recnas.searchers.settings import BohbSettings
from recnas.space.base import ArchT


class Bohb(Searcher[ArchT]):
    """`settings` are explained in `BohbSettings`; give a `FidelitySpace` to have more than one level."""

    name = "bohb"
    settings_class = BohbSettings
    settings: BohbSettings

    def _begin(self, pool_scores: PoolScores | None) -> None:
        space = self.space
        self.levels = space.levels if isinstance(space, FidelitySpace) else 1
        base = space.base if isinstance(space, FidelitySpace) else space
        self.decisions = decisions_of(base, self.name)

    @property
    def total(self) -> int:
        return self.settings.candidates

    def best(self, n: int) -> list[Outcome[ArchT]]:
        """The best at the highest level first, then those of lower levels: a longer look outweighs a better figure."""
        scored = self._scored()
        order = [scored[i] for i in self.objectives.order([told.costs for told in scored])]
        return sorted(order, key=lambda told: -self._level(told.proposal.arch))[:n]

    def _batches(self) -> Iterator[list[Proposal[ArchT]]]:
        bracket = 0
        while len(self._made) < self.total:
            steps = self.levels - 1 - bracket % self.levels  # halvings of this bracket
            first = self.levels - 1 - steps
            width = math.ceil(self.levels / (steps + 1) * self.settings.eta**steps)
            width = max(width, self.settings.block if self.levels == 1 else 1)
            left = self.total - len(self._made)
            living = self._seeded(left, {"bracket": bracket})  # of the first bracket, which begins at level 0
            living += [
                self._propose(
                    self._at(self._draw(), first), "model" if self._model else "random", facts={"bracket": bracket}
                )
                for _ in range(min(width, left) - len(living))
            ]
            yield living
            for level in range(first + 1, self.levels):
                kept = self._promoted(living)[: min(len(living) // self.settings.eta, self.total - len(self._made))]
                if not kept:
                    break
                living = [
                    self._propose(self._at(self._bare(p.arch), level), "promoted", (p.index,), 1, {"bracket": bracket})
                    for p in kept
                ]
                yield living
            bracket += 1

    def _promoted(self, living: list[Proposal[ArchT]]) -> list[Proposal[ArchT]]:
        fine = [p for p in living if self.history[p.index].values is not None]
        order = self.objectives.order([self.history[p.index].costs for p in fine])
        return [fine[i] for i in order]

    # The model

    _model: tuple[Probabilities, Probabilities] | None = None  # good and bad, of the batch in the making

    def _draw(self) -> Any:
        """An architecture without a level: from the model if there is one, new if `redraws` suffice."""
        self._model = None if self.rng.random() < self.settings.random_share else self._densities()
        if self._model is None:
            return self._bare(self._sample_new())
        good, bad = self._model
        best, best_ratio = None, -math.inf
        for _ in range(self.settings.draws):
            choices = draw(good, self.rng)
            arch = self.decisions.arch(choices)
            at_bottom = self._at(arch, 0)
            if not self._is_new(at_bottom) or not self.gate.admits(at_bottom):
                continue
            ratio = sum(math.log(g[c] / b[c]) for g, b, c in zip(good, bad, choices))
            if ratio > best_ratio:
                best, best_ratio = arch, ratio
        if best is None:  # all of them were met before, or lie outside the limits
            self._model = None
            return self._bare(self._sample_new())
        return best

    def _densities(self) -> tuple[Probabilities, Probabilities] | None:
        """Smoothed frequencies among the good and the bad at the highest level with enough of both."""
        least = self.settings.least_points or len(self.decisions.sizes) + 1
        for level in reversed(range(self.levels)):
            told = [t for t in self._scored() if self._level(t.proposal.arch) == level]
            good = max(least, int(self.settings.good_share * len(told)))
            if len(told) - good < least:
                continue
            order = self.objectives.order([t.costs for t in told])
            rows = [list(self.decisions.choices(self._bare(told[i].proposal.arch))) for i in order]
            return self._frequencies(rows[:good]), self._frequencies(rows[good:])
        return None

    def _frequencies(self, rows: list[list[int]]) -> Probabilities:
        found = []
        for place, size in enumerate(self.decisions.sizes):
            counts = np.bincount([row[place] for row in rows], minlength=size) + self.settings.smoothing
            found.append(counts / counts.sum())
        return found

    def _at(self, arch: Any, level: int) -> Any:
        return Rung(arch, level) if isinstance(self.space, FidelitySpace) else arch

    def _bare(self, arch: Any) -> Any:
        return arch.arch if isinstance(arch, Rung) else arch

    def _level(self, arch: Any) -> int:
        return arch.level if isinstance(arch, Rung) else 0

"""REINFORCE (Williams 1992) on a policy that chooses every decision by itself.

Each decision has a row of logits. A batch of architectures is drawn from their softmax; after they are told,
every logit moves by `lr` times the advantage times the derivative of the log probability. The advantage is
the reward (minus the first objective's cost) over a moving mean, in units of a moving spread, so `lr` means
the same for percent and for log loss. A failed network has the advantage -1. Several objectives: the first
one is the reward. Seeds come first and teach the policy like what it draws.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from recnas.searchers.base import Searcher
from recnas.searchers.decisions import Probabilities, decisions_of, draw
from recnas.searchers.pool import PoolScores
from recnas.searchers.proposal import Proposal
from recnas.searchers.settings import ReinforceSettings
from recnas.space.base import ArchT


class Reinforce(Searcher[ArchT]):
    """A categorical policy per decision; `settings` are explained in `ReinforceSettings`."""

    name = "reinforce"
    settings_class = ReinforceSettings
    settings: ReinforceSettings

    def _begin(self, pool_scores: PoolScores | None) -> None:
        self.decisions = decisions_of(self.space, self.name)
        self._logits = [np.zeros(size) for size in self.decisions.sizes]
        self._mean: float | None = None  # of the rewards, moving
        self._square = 0.0  # of what rewards are off the mean, moving

    @property
    def total(self) -> int:
        return self.settings.candidates

    @property
    def policy(self) -> Probabilities:
        """The probability of every option of every decision."""
        exponentials = [np.exp(row - row.max()) for row in self._logits]
        return [row / row.sum() for row in exponentials]

    def _batches(self) -> Iterator[list[Proposal[ArchT]]]:
        if seeds := self._seeded(self.total):
            yield seeds
            self._learn_from(seeds)
        while len(self._made) < self.total:
            size = min(self.settings.block, self.total - len(self._made))
            batch = [self._propose(self._draw(), "policy") for _ in range(size)]
            yield batch
            self._learn_from(batch)

    def _learn_from(self, batch: list[Proposal[ArchT]]) -> None:
        for proposal in batch:
            if not proposal.known:  # what is known taught its lesson already
                self._learn(proposal)

    def _draw(self) -> ArchT:
        policy = self.policy

        def make() -> ArchT:
            return self.decisions.arch(draw(policy, self.rng))

        found = self.gate.attempt(make)
        if found is None:  # the policy has drifted outside the limits
            return self._sample_new()
        found, _ = self._until_new(found, lambda _: make())
        # A policy that is sure of itself draws what it drew before; next to that there may be something new.
        return self._until_new(found, lambda seen: self.space.mutate(seen, self.rng))[0]

    def _learn(self, proposal: Proposal[ArchT]) -> None:
        gain = self.settings.lr * self._advantage(-self.history[proposal.index].costs[0])
        policy = self.policy
        for row, p, choice in zip(self._logits, policy, self.decisions.choices(proposal.arch)):
            row -= gain * p
            row[choice] += gain

    def _advantage(self, reward: float) -> float:
        if not math.isfinite(reward):
            return -1.0
        if self._mean is None:
            self._mean = reward
            return 0.0
        keep, off = self.settings.momentum, reward - self._mean
        self._square = keep * self._square + (1 - keep) * off * off if self._square else off * off
        self._mean = keep * self._mean + (1 - keep) * reward
        return off / math.sqrt(self._square) if self._square else 0.0

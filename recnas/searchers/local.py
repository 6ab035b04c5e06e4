"""Local search with restarts: climb from neighbour to neighbour, and start elsewhere at the top.

A climb starts at the best of a few random architectures, the first one at the best of the seeds and these. The neighbours of where it stands are shuffled and
scored block by block. After each block the climb moves to the best member of the block if that is better
(with several objectives: dominates, or wins the vote), and looks at the neighbours of the new place; if no neighbour is
better, the next climb begins.

A block is a compromise: the first improvement would be one score at a time, which no second worker could
help with, and the best of all neighbours costs some 400 scores per step in the NASRec spaces.

What any climb has proposed before is passed over, so that climbs do not run up the same hill twice.
"""

from __future__ import annotations

from collections.abc import Iterator

from recnas.searchers.base import Searcher
from recnas.searchers.proposal import Proposal
from recnas.searchers.settings import LocalSettings
from recnas.space.base import ArchT


class LocalSearch(Searcher[ArchT]):
    """Best-of-block climbing; `settings` are explained in `LocalSettings`."""

    name = "local"
    settings_class = LocalSettings
    settings: LocalSettings

    @property
    def total(self) -> int:
        return self.settings.candidates

    def _batches(self) -> Iterator[list[Proposal[ArchT]]]:
        climb = 0
        while self._left():
            facts = {"climb": climb}
            several = max(self.settings.starts, len(self.seeds)) if climb == 0 else self.settings.starts
            starts = self._first(self._left(several), "random", facts)
            yield starts
            yield from self._climb(self._best_of(starts), climb)
            climb += 1

    def _climb(self, place: int, climb: int) -> Iterator[list[Proposal[ArchT]]]:
        """Batches of neighbours until no neighbour of the last place is better."""
        untried = self._shuffled_neighbours(place)
        while self._left():
            block = self._next_block(untried, place, climb)
            if not block:
                return
            yield block
            found = [self.history[proposal.index].costs for proposal in block]
            moves = self.objectives.better_than(self.history[place].costs, found)
            better = [proposal for proposal, moved in zip(block, moves) if moved]
            if better:
                place = self._best_of(better)
                untried = self._shuffled_neighbours(place)

    def _next_block(self, untried: Iterator[ArchT], place: int, climb: int) -> list[Proposal[ArchT]]:
        block: list[Proposal[ArchT]] = []
        size = self._left(self.settings.block)
        while len(block) < size and (arch := next(untried, None)) is not None:
            if self._is_new(arch) and self.gate.admits(arch):
                block.append(self._propose(arch, "neighbour", (place,), 1, {"climb": climb}))
        return block

    def _shuffled_neighbours(self, place: int) -> Iterator[ArchT]:
        found = list(self.space.neighbours(self.history[place].proposal.arch))
        return iter([found[i] for i in self.rng.permutation(len(found))])

    def _best_of(self, batch: list[Proposal[ArchT]]) -> int:
        costs = [self.history[proposal.index].costs for proposal in batch]
        return batch[self.objectives.order(costs)[0]].index

    def _left(self, at_most: int | None = None) -> int:
        """Proposals left in the budget, or `at_most`."""
        left = self.total - len(self._made)
        return left if at_most is None else min(left, at_most)

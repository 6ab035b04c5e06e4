"""Random search: independent draws, no network twice. The yardstick every other searcher is held against."""

from __future__ import annotations

from collections.abc import Iterator

from recnas.searchers.base import Searcher
from recnas.searchers.proposal import Proposal
from recnas.searchers.settings import RandomSettings
from recnas.space.base import ArchT


class RandomSearch(Searcher[ArchT]):
    """Draws from the space within the limits; values change nothing."""

    name = "random"
    settings_class = RandomSettings
    settings: RandomSettings

    @property
    def total(self) -> int:
        return self.settings.candidates

    def _batches(self) -> Iterator[list[Proposal[ArchT]]]:
        first = min(self.total, max(self.settings.block, len(self.seeds)))
        yield self._first(first, "random")
        for start in range(first, self.total, self.settings.block):
            size = min(self.settings.block, self.total - start)
            yield [self._propose(self._sample_new(), "random") for _ in range(size)]

"""A searcher of your own: `recnas search CONFIG --out RUN search.method=MINE --plugin FILE`.

It says which architectures to propose next; recnas scores them, keeps the ledger, and replays it after a crash. So a
proposal may depend on the seed (`self.rng`) and on the values told so far, on nothing else.
"""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from recnas.searchers.base import Searcher
from recnas.searchers.proposal import Proposal
from recnas.searchers.registry import register
from recnas.searchers.settings import SearcherSettings
from recnas.space.base import ArchT


class MineSettings(SearcherSettings):
    """What the section `search` of a config may say."""

    method: Literal["MINE"] = "MINE"
    candidates: int = Field(200, ge=1)  # proposed in all
    first: int = Field(16, ge=1)  # random ones at the beginning
    block: int = Field(4, ge=1)  # proposed at a time
    parents: int = Field(4, ge=1)  # of the best so far, each is changed in turn


@register
class Mine(Searcher[ArchT]):
    """Changes the best few found so far."""

    name = "MINE"
    settings_class = MineSettings
    settings: MineSettings

    @property
    def total(self) -> int:
        return self.settings.candidates

    def _batches(self) -> Iterator[list[Proposal[ArchT]]]:
        first = min(self.total, max(self.settings.first, len(self.seeds)))
        yield self._first(first, "random")
        for start in range(first, self.total, self.settings.block):
            parents = [outcome.proposal for outcome in self.best(self.settings.parents)]
            size = min(self.settings.block, self.total - start)
            yield [self._child(parents[i % len(parents)] if parents else None) for i in range(size)]

    def _child(self, parent: Proposal[ArchT] | None) -> Proposal[ArchT]:
        """A change of the parent that the limits admit and that was not proposed before, if there is one."""
        arch = None if parent is None else self.gate.attempt(lambda: self.space.mutate(parent.arch, self.rng))
        if parent is None or arch is None:
            return self._propose(self._sample_new(), "random")
        arch, further = self._until_new(arch, lambda seen: self.space.mutate(seen, self.rng))
        return self._propose(arch, "mutation", (parent.index,), 1 + further)

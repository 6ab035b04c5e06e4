from typing import Literal

from pydantic import Field

from recnas.searchers.base import Searcher
from recnas.searchers.registry import register
from recnas.searchers.settings import SearcherSettings


class PairSettings(SearcherSettings):
    method: Literal["own-pairs"] = "own-pairs"
    candidates: int = Field(20, ge=2)


@register
class Pairs(Searcher):
    """Two at a time: children of the best."""

    name = "own-pairs"
    settings_class = PairSettings

    @property
    def total(self):
        return self.settings.candidates

    def _batches(self):
        yield self._first(2, "random")
        for start in range(2, self.total, 2):
            parent = self.best(1)[0].proposal
            children = []
            for _ in range(min(2, self.total - start)):
                arch, more = self._until_new(parent.arch, lambda seen: self.space.mutate(seen, self.rng))
                children.append(self._propose(arch, "mutation", (parent.index,), more))
            yield children

"""pytest TESTFILE: what every searcher promises: the same seed, the same proposals; a replay at every cut; limits; better than chance."""

from pathlib import Path
from typing import Any

from recnas.plugins import load_plugin
from recnas.searchers.base import Searcher
from recnas.searchers.limits import Gate
from recnas.searchers.objective import Objectives
from recnas.searchers.registry import get_searcher
from recnas.space.base import Space
from recnas.space.registry import get_space
from recnas.testing.searcher_suite import LOSS, SearcherConformance

load_plugin(Path(__file__).with_name("FILE"))


class TestMine(SearcherConformance):
    def space(self) -> Space[Any]:
        return get_space("nasrec-small", blocks=3)

    def searcher(self, seed: int = 0, objectives: Objectives = LOSS, gate: Gate[Any] | None = None) -> Searcher[Any]:
        return get_searcher("MINE", self.space(), objectives, seed, {"candidates": 40}, gate)

    def long_searcher(self, seed: int) -> Searcher[Any]:
        return get_searcher("MINE", self.space(), LOSS, seed, {"candidates": 150})

"""Samplers of Optuna keep the promises of every searcher, replay among them; and they are asked what Optuna is asked."""

from __future__ import annotations

import pytest

from recnas.errors import ConfigError
from recnas.searchers.registry import get_searcher
from recnas.space.nasbench201 import Nb201Space
from recnas.space.registry import get_space
from recnas.testing.searcher_suite import LOSS
from tests.unit.searchers.pools import CellConformance, differs

optuna = pytest.importorskip("optuna")
CELLS = Nb201Space()


class TestTpe(CellConformance):
    sampler = "tpe"
    candidates = 30
    seeds = (0, 1, 2)

    def searcher(self, seed=0, objectives=LOSS, gate=None):
        settings = {"candidates": self.candidates, "sampler": self.sampler, "block": 4}
        return get_searcher("optuna", CELLS, objectives, seed, settings, gate)

    def long_searcher(self, seed):
        return get_searcher("optuna", CELLS, LOSS, seed, {"candidates": 80, "sampler": self.sampler})


class TestNsga2(TestTpe):
    sampler = "nsga2"

    def long_searcher(self, seed):
        options = {"population_size": 10}
        return get_searcher("optuna", CELLS, LOSS, seed, {"candidates": 100, "sampler": "nsga2", "options": options})


class TestNsga3(TestNsga2):
    sampler = "nsga3"


class TestQmc(TestTpe):
    sampler = "qmc"
    improves_on_random = False


class TestRandom(TestQmc):
    sampler = "random"


def test_it_is_the_sampler_that_is_asked():
    """Optuna by itself, one trial after the other, with the same seed: where nothing is excluded or met again, the same cells."""
    searcher = get_searcher("optuna", CELLS, LOSS, 5, {"candidates": 25, "block": 1})
    study = optuna.create_study(sampler=searcher._sampler())
    decisions = CELLS.decisions()
    known = set()
    while batch := searcher.ask_batch():
        for proposal in batch:
            while True:
                trial = study.ask(searcher.distributions)
                arch = decisions.arch(list(trial.params.values()))
                if CELLS.key(arch) not in known:
                    break
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            assert arch == proposal.arch
            assert proposal.origin == "sampler"
            known.add(CELLS.key(arch))
            study.tell(trial, differs(arch))
            searcher.tell(proposal, {"loss": differs(proposal.arch)})


def test_what_is_refused():
    with pytest.raises(ConfigError, match="row of independent choices"):
        get_searcher("optuna", get_space("nasrec-small"), LOSS, 0, {})
    with pytest.raises(ConfigError, match=r"do not fit the sampler tpe.*multivariat"):
        get_searcher("optuna", CELLS, LOSS, 0, {"options": {"multivariat": True}})
    with pytest.raises(ConfigError, match="sampler"):
        get_searcher("optuna", CELLS, LOSS, 0, {"sampler": "cmaes"})

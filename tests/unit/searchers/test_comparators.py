"""Top of a pool, REINFORCE and BOHB: their own rules, and the promises of every searcher."""

from __future__ import annotations

import numpy as np
import pytest

from recnas.errors import ConfigError
from recnas.searchers.fidelity import FidelitySpace, Rung
from recnas.searchers.limits import Gate
from recnas.searchers.objective import Objectives, rank_sums
from recnas.searchers.rank_pool import as_costs
from recnas.searchers.registry import get_searcher
from recnas.searchers.settings import LimitSettings
from recnas.space.nasbench201 import Nb201Space
from recnas.space.registry import get_space
from recnas.testing.searcher_suite import LOSS
from tests.unit.searchers.pools import CellConformance, PlantedEvidence, differs

CELLS = Nb201Space()


def finish(found, value=differs):
    while batch := found.ask_batch():
        for proposal in batch:
            found.tell(proposal, None if proposal.known else {"loss": value(proposal.arch)})
    return found


class TestTop(CellConformance):
    seeds_come_first = False

    def searcher(self, seed=0, objectives=LOSS, gate=None):
        settings = {"candidates": 30, "by": {"good": "max", "kappa": "min"}, "pool": 200}
        return get_searcher("rank-pool", CELLS, objectives, seed, settings, gate, PlantedEvidence())

    def test_replay_at_every_cut_equals_the_run_in_one_go(self):
        whole = self.run(self.searcher())
        for cut in (0, 1, 13, 29, 30):
            searcher = self.searcher()
            assert searcher.replay(whole[:cut]) == cut
            assert self.run(searcher) == whole[cut:]


class TestReinforce(CellConformance):
    def searcher(self, seed=0, objectives=LOSS, gate=None):
        return get_searcher("reinforce", CELLS, objectives, seed, {"candidates": 30, "block": 4}, gate)

    def long_searcher(self, seed):
        return get_searcher("reinforce", CELLS, LOSS, seed, {"candidates": 150})


class TestBohb(CellConformance):
    def searcher(self, seed=0, objectives=LOSS, gate=None):
        return get_searcher("bohb", CELLS, objectives, seed, {"candidates": 26, "least_points": 4, "draws": 16}, gate)

    def long_searcher(self, seed):
        return get_searcher("bohb", CELLS, LOSS, seed, {"candidates": 100, "draws": 16})


class TestBohbWithLevels(CellConformance):
    improves_on_random = False  # random draws of level 0 only
    best_goes_by_value = False

    def space(self):
        return FidelitySpace(CELLS, 3)

    def values(self, arch, objectives=LOSS):
        return super().values(arch.arch, objectives)

    def searcher(self, seed=0, objectives=LOSS, gate=None):
        return get_searcher(
            "bohb", self.space(), objectives, seed, {"candidates": 26, "least_points": 3, "draws": 16}, gate
        )

    def test_best_are_different_networks_in_order_without_failures(self):
        searcher = self.searcher()
        self.run(searcher)
        best = searcher.best(10)
        order = [(-told.proposal.arch.level, told.costs[0]) for told in best]
        assert order == sorted(order)
        assert all(told.failed is None for told in best)

    def test_several_objectives_give_the_pareto_front_first(self):
        pytest.skip("levels come before fronts")

    def test_limits_are_kept(self):
        def cost(rung):
            return {"params": rung.arch.number % 1000}  # of the network, so the same at every level

        searcher = self.searcher(gate=Gate(self.space(), LimitSettings(params=600), cost))
        self.run(searcher)
        assert all(cost(told.proposal.arch)["params"] <= 600 for told in searcher.history)


# Top


def test_rank_sum_is_what_counting_gives():
    rng = np.random.default_rng(0)
    figures = rng.integers(0, 6, (2, 25)).astype(float)
    figures[0, 3] = np.nan
    slow = np.zeros(25)
    for row, sign in zip(figures, (1, -1)):
        cost = [np.inf if np.isnan(x) else sign * x for x in row]
        slow += [sum(c < mine for c in cost) + (sum(c == mine for c in cost) - 1) / 2 for mine in cost]
    np.testing.assert_allclose(rank_sums(as_costs(figures, ["min", "max"])), slow)


def test_top_proposes_the_best_of_its_pool_in_order():
    pool_scores = PlantedEvidence()
    settings = {"candidates": 5, "by": {"kappa": "min"}, "pool": 60}
    found = finish(get_searcher("rank-pool", CELLS, LOSS, 2, settings, None, pool_scores))
    ranked = sorted(pool_scores.asked, key=lambda a: pool_scores.scores([a], ["kappa"])[0, 0])
    assert [t.proposal.arch for t in found.history] == ranked[:5]
    assert found.best(1)[0].costs[0] == min(differs(a) for a in ranked[:5])


def test_dead_networks_rank_last():
    class HalfDead(PlantedEvidence):
        def scores(self, archs, names):
            return np.array([[np.nan if i % 2 else float(i) for i in range(len(archs))]])

    pool_scores = HalfDead()
    settings = {"candidates": 50, "by": {"any": "max"}, "pool": 40}
    found = finish(get_searcher("rank-pool", CELLS, LOSS, 0, settings, None, pool_scores))
    ranks = [t.proposal.facts["rank_sum"] for t in found.history if t.proposal.origin == "rank-pool"]
    assert ranks == sorted(ranks)
    assert sum(t.proposal.origin == "random" for t in found.history) == 50 - len(ranks) > 0


# REINFORCE


def test_one_step_of_the_policy_is_the_gradient_of_its_log_probability():
    """Against a finite difference of the log probability of the drawn cell."""
    found = get_searcher("reinforce", CELLS, LOSS, 0, {"candidates": 3, "lr": 0.5, "momentum": 0.0})
    found.tell(found.ask(), {"loss": 1.0})
    found.ask_batch()
    before = [np.log(row) for row in found.policy]
    drawn = found._made[1].arch
    found.tell(drawn, {"loss": 3.0})  # two worse than the baseline of 1: advantage -1 in units of its own spread
    found.ask_batch()
    choices = CELLS.decisions().choices(drawn)
    for logits, row, choice in zip(before, found.policy, choices):
        step = []
        for place in range(5):
            moved = logits.copy()
            moved[place] += 1e-6
            step.append((_log_probability(moved, choice) - _log_probability(logits, choice)) / 1e-6)
        expected = logits - 0.5 * np.array(step)
        np.testing.assert_allclose(row, np.exp(expected) / np.exp(expected).sum(), atol=1e-5)


def _log_probability(logits, choice):
    return logits[choice] - np.log(np.exp(logits).sum())


def test_the_policy_learns_the_planted_cell():
    found = finish(get_searcher("reinforce", CELLS, LOSS, 0, {"candidates": 400}))
    best = CELLS.decisions().arch([int(row.argmax()) for row in found.policy])
    assert differs(best) <= 2 / 6
    late = np.mean([told.costs[0] for told in found.history[-50:]])
    assert late < 0.65  # a random cell differs on 0.8 of the edges, and no cell is drawn twice


@pytest.mark.parametrize("name", ["reinforce", "bohb"])
def test_spaces_without_decisions_are_refused_with_an_alternative(name):
    with pytest.raises(ConfigError, match="independent choices") as error:
        get_searcher(name, get_space("nasrec-small"), LOSS, 0)
    assert "evolution" in str(error.value)


# BOHB


def test_the_model_prefers_what_the_good_part_has():
    settings = {"candidates": 60, "random_share": 0.0, "least_points": 5}
    found = finish(get_searcher("bohb", CELLS, LOSS, 1, settings), lambda arch: float(arch.ops[0] != "nor_conv_3x3"))
    shares = {
        origin: np.mean(
            [t.proposal.arch.ops[0] == "nor_conv_3x3" for t in found.history if t.proposal.origin == origin]
        )
        for origin in ("random", "model")
    }
    assert shares["model"] > 0.6 > 0.45 > shares["random"]


def test_halving_promotes_the_best_third_of_every_level():
    space = FidelitySpace(CELLS, 3)
    found = finish(get_searcher("bohb", space, LOSS, 0, {"candidates": 13}), lambda rung: differs(rung.arch))
    levels = [t.proposal.arch.level for t in found.history]
    assert levels == [0] * 9 + [1] * 3 + [2]
    bottom = sorted(found.history[:9], key=lambda t: (t.costs[0], t.proposal.index))[:3]
    assert [t.proposal.parents[0] for t in found.history[9:12]] == [t.proposal.index for t in bottom]
    assert [t.proposal.arch.arch for t in found.history[9:12]] == [t.proposal.arch.arch for t in bottom]
    assert found.best(1)[0].proposal.arch.level == 2


def test_failed_networks_are_never_promoted():
    space = FidelitySpace(CELLS, 2)
    found = get_searcher("bohb", space, Objectives.of({"loss": "min"}), 0, {"candidates": 6})
    batch = found.ask_batch()
    for proposal in batch:
        if proposal.index == 1:
            found.tell(proposal, {"loss": 5.0})
        else:
            found.tell(proposal, failed="no memory")
    assert [p.parents for p in found.ask_batch()] == [(1,)]


def test_rungs_round_trip_and_have_keys_of_their_own():
    space = FidelitySpace(CELLS, 2)
    arch = CELLS.sample(np.random.default_rng(0))
    rungs = [Rung(arch, level) for level in range(2)]
    assert [space.from_dict(space.to_dict(rung)) for rung in rungs] == rungs
    assert len({space.key(rung) for rung in rungs}) == 2
    with pytest.raises(Exception, match="no level 2"):
        space.validate(Rung(arch, 2))

"""Seeds of searchers that rank a pool, teach a policy or fill brackets: every promise kept, and where seeds come in."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from recnas.searchers.fidelity import Rung
from recnas.searchers.limits import Gate
from recnas.searchers.registry import get_searcher, searcher_names
from recnas.searchers.settings import LimitSettings
from recnas.space.nasbench201 import Nb201Space
from recnas.space.nasbench201.arch import Nb201Arch
from recnas.testing.searcher_suite import LOSS
from tests.unit.searchers import test_comparators
from tests.unit.searchers.pools import CellConformance, PlantedEvidence, differs

CELLS = Nb201Space()
SETTINGS = {
    "hnas": {"candidates": 20, "metric": "good", "kappa": "kappa", "pool": 40},
    "rank-pool": {"candidates": 30, "by": {"good": "max"}, "pool": 60},
    "reinforce": {"candidates": 30, "block": 4},
    "bohb": {"candidates": 26, "least_points": 4, "draws": 16},
    "evolution": {"population": 8, "generations": 4, "children": 2, "tournament": 4},
    "random": {"candidates": 20, "block": 4},
    "local": {"candidates": 20, "block": 4, "starts": 4},
}
if find_spec("optuna") is not None:
    SETTINGS["optuna"] = {"candidates": 20, "block": 4}
SEEDS = [Nb201Arch.from_digits(digits) for digits in ("331320", "331323", "000111", "222203")]


def searcher(kind, seed=0, objectives=LOSS, gate=None):
    pool_scores = PlantedEvidence() if kind in ("hnas", "rank-pool") else None
    return get_searcher(kind, CELLS, objectives, seed, SETTINGS[kind], gate, pool_scores)


def seeded(kind, *args, seeds=SEEDS):
    made = searcher(kind, *args)
    made.begin_with(seeds)
    return made


class Seeded(CellConformance):
    kind = "hnas"
    improves_on_random = False  # its seeds, not its search, would be compared

    def searcher(self, seed=0, objectives=LOSS, gate=None):
        return seeded(self.kind, seed, objectives, gate)


class TestSeededHnas(Seeded):
    seeds_come_first = False


class TestSeededRankPool(Seeded):
    kind = "rank-pool"
    seeds_come_first = False

    def test_replay_at_every_cut_equals_the_run_in_one_go(self):
        whole = self.run(self.searcher())
        for cut in (0, 1, 13, 29, 30):
            again = self.searcher()
            assert again.replay(whole[:cut]) == cut
            assert self.run(again) == whole[cut:]


class TestSeededReinforce(Seeded):
    kind = "reinforce"


class TestSeededBohb(Seeded):
    kind = "bohb"


class TestSeededBohbWithLevels(test_comparators.TestBohbWithLevels):
    def searcher(self, seed=0, objectives=LOSS, gate=None):
        made = super().searcher(seed, objectives, gate)
        made.begin_with([Rung(arch) for arch in SEEDS])
        return made

    def test_seeds_are_looked_at_first_and_shortly_and_the_best_go_on(self):
        whole = self.run(self.searcher())
        first = [line for line in whole if line.facts["bracket"] == 0 and line.arch["level"] == 0]
        assert [line.origin for line in first[: len(SEEDS)]] == ["seed"] * len(SEEDS)
        promoted = [line.parents[0] for line in whole if line.facts["bracket"] == 0 and line.arch["level"] == 1]
        known = {line.index: line.values["loss"] for line in first if line.values is not None}
        assert promoted == sorted(known, key=lambda index: (known[index], index))[: len(promoted)]


def test_there_is_no_searcher_without_seeds():
    assert {*SETTINGS, "optuna"} == set(searcher_names())


@pytest.mark.parametrize("kind", SETTINGS)
def test_seeds_outside_the_limits_are_left_out_and_the_draws_are_as_without(kind: str):
    def cost(arch: Nb201Arch) -> dict[str, float]:
        return {"params": 1000.0 if arch in SEEDS else 1.0}

    plain, other = (searcher(kind, 4, gate=Gate(CELLS, LimitSettings(params=100), cost)) for _ in "12")
    other.begin_with(SEEDS)
    assert [one.arch for one in plain.ask_batch()] == [one.arch for one in other.ask_batch()]
    assert other.seeds_left_out == SEEDS


@pytest.mark.parametrize("kind", ["reinforce", "bohb"])
def test_seeds_are_the_first_proposals(kind: str):
    batch = seeded(kind).ask_batch()
    assert [one.arch for one in batch[: len(SEEDS)]] == SEEDS
    assert {one.origin for one in batch[: len(SEEDS)]} == {"seed"}
    many = [Nb201Arch.from_number(number * 601) for number in range(14)]
    many = list({CELLS.key(arch): arch for arch in many}.values())
    assert len(many) >= 12
    assert [one.origin for one in seeded(kind, seeds=many).ask_batch()] == ["seed"] * len(
        many
    )  # however small a block is


def test_what_seeds_are_worth_moves_the_policy():
    """The chosen options of the better of two seeds become likelier, those of the worse one rarer."""
    good, bad = SEEDS[1], SEEDS[2]  # no operation in common on any edge
    assert all(a != b for a, b in zip(good.ops, bad.ops))
    one = seeded("reinforce", seeds=[bad, good])
    for proposal in one.ask_batch():
        one.tell(proposal, {"loss": differs(proposal.arch)})
    one.ask_batch()  # only now does it learn
    likely = [p[c] for p, c in zip(one.policy, one.decisions.choices(good))]
    rare = [p[c] for p, c in zip(one.policy, one.decisions.choices(bad))]
    gain = one.settings.lr * 1.0  # the first told is the baseline; the second is one spread better than it
    expected = np.exp(gain * 0.8) / (np.exp(gain * 0.8) + 4 * np.exp(-gain * 0.2))
    np.testing.assert_allclose(likely, expected)
    assert max(rare) < 1 / 5


def test_seeds_are_ranked_with_the_pool():
    made = seeded("rank-pool")
    batch = made.ask_batch()
    evidence = PlantedEvidence()
    by_key = {CELLS.key(arch): arch for arch in (made.pool.arch(place) for place in range(len(made.pool)))}
    assert len(by_key) <= SETTINGS["rank-pool"]["pool"]
    assert {CELLS.key(arch) for arch in SEEDS} <= set(by_key)
    scores = {key: evidence.scores([arch], ["good"])[0, 0] for key, arch in by_key.items()}
    best = sorted(scores, key=lambda key: -np.nan_to_num(scores[key], nan=-np.inf))[: made.total]
    assert [one.key for one in batch] == best
    seeds = {CELLS.key(arch) for arch in SEEDS}
    assert [one.origin for one in batch] == ["seed" if key in seeds else "rank-pool" for key in best]
    assert "seed" in {one.origin for one in batch}


def test_a_seed_is_queried_when_its_scores_say_so_and_never_twice():
    made = seeded("hnas")
    while batch := made.ask_batch():
        for one in batch:
            made.tell(one, {"loss": differs(one.arch)})
    queried = [told.proposal for told in made.history]
    assert len({one.key for one in queried}) == len(queried)
    seeds = {CELLS.key(arch) for arch in SEEDS}
    assert all((one.origin == "seed") == (one.key in seeds) for one in queried)
    assert any(one.origin == "seed" for one in queried)

"""The hybrid search: its objective against plain loops, its pool, its optimiser, and the searcher's promises."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

from recnas.errors import BackendMissing, ConfigError
from recnas.searchers.bayes import suggest
from recnas.searchers.hnas import Hnas, guarantee
from recnas.searchers.pool import Pool
from recnas.searchers.registry import get_searcher
from recnas.searchers.settings import HnasSettings
from recnas.seeds import stream
from recnas.space.nasbench201 import Nb201Space
from recnas.testing.searcher_suite import LOSS
from tests.unit.searchers.pools import CellConformance, PlantedEvidence, differs

SETTINGS = {"candidates": 20, "metric": "good", "kappa": "kappa", "pool": 40}


def searcher(seed=0, objectives=LOSS, gate=None, pool_scores=None, **changes):
    return get_searcher(
        "hnas", Nb201Space(), objectives, seed, SETTINGS | changes, gate, pool_scores or PlantedEvidence()
    )


def finish(found: Hnas) -> Hnas:
    while batch := found.ask_batch():
        for proposal in batch:
            found.tell(proposal, None if proposal.known else {"loss": differs(proposal.arch)})
    return found


class TestConformance(CellConformance):
    seeds_come_first = False
    seeds = (0, 1, 2)

    def searcher(self, seed=0, objectives=LOSS, gate=None):
        return searcher(seed, objectives, gate)


class TestConformanceReleasedUcb(CellConformance):
    seeds_come_first = False
    improves_on_random = False  # checked above

    def searcher(self, seed=0, objectives=LOSS, gate=None):
        return searcher(
            seed, objectives, gate, candidates=8, reading="released", acquisition="ucb", grow=False, pool=200
        )

    def test_ten_and_ten_are_twenty(self):
        pytest.skip("there are eight")


# The objective


@pytest.mark.parametrize(("mu", "nu", "power"), [(0.0, 1.0, 1.0), (0.3, 4.0, 1.0), (0.01, 2.5, 0.5), (0.1, 0.0, 2.0)])
def test_the_papers_objective_is_what_a_plain_loop_gives(mu, nu, power):
    rng = np.random.default_rng(0)
    m, kappa = rng.uniform(0.1, 5, 30), rng.uniform(1, 100, 30)
    slow = [k / x + mu * math.pow(abs(x * x - nu), 2 * power) for x, k in zip(m, kappa)]
    np.testing.assert_allclose(guarantee(m, kappa, mu, nu, "paper", power), slow, rtol=1e-12)


def test_the_released_objective_is_what_a_plain_loop_gives():
    rng = np.random.default_rng(1)
    m, kappa = rng.uniform(0.1, 5, 30), rng.uniform(1, 100, 30)
    slow = [0.2 * abs(x * x - 3.0**2) + k / (x + 1e-6) for x, k in zip(m, kappa)]
    np.testing.assert_allclose(guarantee(m, kappa, 0.2, 3.0**2, "released"), slow, rtol=1e-12)


def test_members_without_usable_figures_cost_infinity():
    m = np.array([1.0, np.nan, -2.0, 3.0, 0.0, 1.0])
    kappa = np.array([5.0, 5.0, 5.0, np.nan, 5.0, -1.0])
    assert np.isfinite(guarantee(m, kappa, 0.1, 1.0)).tolist() == [True, False, False, False, False, False]


def test_the_units_of_the_pool_only_move_mu():
    """kappa/M + mu (M^2 - nu)^2 with M and kappa in other units ranks as with mu' = mu M0^5 / kappa0."""
    rng = np.random.default_rng(2)
    m, kappa = rng.uniform(10, 90, 200), rng.uniform(50, 900, 200)
    m0, k0 = float(np.median(m)), float(np.median(kappa))
    mu, nu = 0.03, 1.7
    scaled = guarantee(m / m0, kappa / k0, mu, nu)
    raw = guarantee(m, kappa, mu * k0 / m0**5, nu * m0**2)
    np.testing.assert_allclose(scaled * k0 / m0, raw, rtol=1e-9)


# The loop


def test_every_query_is_the_best_of_the_pool_at_its_point():
    """Replayed by hand: draw with the same generator, drop what was queried, take the smallest."""
    pool_scores = PlantedEvidence()
    found = finish(searcher(seed=3, pool_scores=pool_scores))
    space, rng = Nb201Space(), stream(3, "searcher-hnas")
    members: dict[str, object] = {}
    units = top = None
    for told in found.history:
        for _ in range(SETTINGS["pool"]):
            arch = space.sample(rng)
            members.setdefault(space.key(arch), arch)
        live = {
            key: arch
            for key, arch in members.items()
            if key not in {t.proposal.key for t in found.history[: told.proposal.index]}
        }
        figures = PlantedEvidence().scores(list(live.values()), ["good", "kappa"])
        if units is None:
            fine = ~np.isnan(figures[0])
            units = np.median(figures[:, fine], axis=1)
            top = figures[0, fine].max() / units[0]
        facts = told.proposal.facts
        m, kappa = figures[0] / units[0], figures[1] / units[1]
        value = kappa / m + 10 ** facts["log_mu"] * (m**2 - facts["nu_root"] ** 2) ** 2
        assert facts["pool"] == len(live)
        assert 0 <= facts["nu_root"] <= top + 1e-12
        assert list(live)[int(np.nanargmin(value))] == told.proposal.key
    origins = [told.proposal.origin for told in found.history]
    assert origins == ["probe"] * 5 + ["bayes"] * 15
    np.testing.assert_allclose([t.proposal.facts["nu_root"] for t in found.history[:5]], np.linspace(0, top, 5))


def test_figures_are_asked_for_once_per_network():
    pool_scores = PlantedEvidence()
    finish(searcher(pool_scores=pool_scores))
    keys = [Nb201Space().key(arch) for arch in pool_scores.asked]
    assert len(keys) == len(set(keys))


def test_a_fixed_pool_is_drawn_once():
    pool_scores = PlantedEvidence()
    found = finish(searcher(pool_scores=pool_scores, grow=False, pool=300))
    assert len(pool_scores.asked) <= 300
    assert [t.proposal.facts["pool"] for t in found.history] == [len(pool_scores.asked) - i for i in range(20)]


def test_a_pool_that_runs_dry_is_followed_by_random_draws():
    found = finish(searcher(grow=False, pool=6))
    assert {t.proposal.origin for t in found.history[:6]} <= {"probe", "bayes"}
    assert {t.proposal.origin for t in found.history[6:]} == {"random"}


def test_dead_members_are_chosen_last():
    class MostlyDead(PlantedEvidence):
        def scores(self, archs, names):
            found = super().scores(archs, names)
            found[0] = [x if i < 3 else np.nan for i, x in enumerate(found[0])]
            return found

    found = finish(searcher(pool_scores=MostlyDead(), grow=False, pool=10, candidates=6))
    assert ["degenerate" in t.proposal.facts for t in found.history] == [False] * 3 + [True] * 3


def test_what_is_told_moves_the_search():
    """Values that praise large M and values that praise small M must not lead to the same queries."""

    def told_with(sign):
        found = searcher(seed=1, candidates=14, log_mu=(0, 4))
        while batch := found.ask_batch():
            for p in batch:
                m = PlantedEvidence().scores([p.arch], ["good"])[0, 0]
                found.tell(p, {"loss": sign * (m if np.isfinite(m) else 0)})
        return [t.proposal.key for t in found.history]

    one, other = told_with(1), told_with(-1)
    assert one[:3] == other[:3]
    assert one != other


def test_the_optimiser_finds_the_top_of_a_smooth_hill():
    told: list[tuple[tuple[float, float], float]] = []
    for k in range(15):
        point = suggest(((0.0, 1.0), (-4.0, 0.0)), tuple(told), "ei", (0, k)) if told else (0.1, -3.9)
        told.append((point, -((point[0] - 0.7) ** 2) - 0.1 * (point[1] + 1) ** 2))
    assert max(value for _, value in told) > -0.02


def test_suggestions_depend_on_nothing_but_their_arguments():
    told = (((0.2, -1.0), 1.0), ((0.6, -2.0), 3.0), ((0.2, -1.0), 2.0))
    suggest.cache_clear()
    first = suggest(((0.0, 1.0), (-4.0, 0.0)), told, "ei", (1, 2))
    suggest.cache_clear()
    np.random.seed(5)
    assert suggest(((0.0, 1.0), (-4.0, 0.0)), told, "ei", (1, 2)) == first
    assert suggest(((0.0, 1.0), (-4.0, 0.0)), told, "ei", (1, 3)) != first


# Faults


def test_without_evidence_it_says_what_is_missing():
    with pytest.raises(ConfigError, match="training-free scores"):
        get_searcher("hnas", Nb201Space(), LOSS, 0, SETTINGS)


def test_a_pool_of_dead_networks_is_an_error_that_names_the_metric():
    class Dead(PlantedEvidence):
        def scores(self, archs, names):
            return super().scores(archs, names) * np.nan

    with pytest.raises(ConfigError, match="usable good and kappa"):
        searcher(pool_scores=Dead()).ask_batch()


def test_evidence_of_the_wrong_shape_is_refused():
    class Short(PlantedEvidence):
        def scores(self, archs, names):
            return super().scores(archs, names)[:1]

    with pytest.raises(ConfigError, match="shape"):
        searcher(pool_scores=Short()).ask_batch()


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "bayes_opt", None)
    suggest.cache_clear()
    with pytest.raises(BackendMissing, match="bayesian-optimization"):
        suggest(((0.0, 1.0),), (((0.5,), 1.0),), "ei", (9, 9))


def test_the_range_of_mu_must_be_a_range():
    with pytest.raises(ValueError, match="lower one first"):
        HnasSettings(log_mu=(0.0, -4.0))


def test_a_pool_takes_every_network_once_and_forgets_none():
    space, pool_scores = Nb201Space(), PlantedEvidence()
    pool = Pool(space, pool_scores, ["good"])
    archs = [space.sample(np.random.default_rng(i)) for i in range(30)]
    pool.add(archs)
    size = len(pool)
    taken = pool.take(0)
    pool.add(archs)
    assert len(pool) == size - 1
    assert space.key(taken) not in {space.key(pool.arch(i)) for i in range(len(pool))}

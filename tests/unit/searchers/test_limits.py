"""The gate: who passes, what is counted, and what the errors say."""

import json

import numpy as np
import pytest

from recnas.data.schema import Schema
from recnas.errors import ConfigError, SpaceError
from recnas.searchers.limits import Gate
from recnas.searchers.objective import Objectives
from recnas.searchers.registry import get_searcher
from recnas.searchers.settings import LimitSettings
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.cost import count

SPACE = NasrecSpace("nasrec-small")
SCHEMA = Schema.of_shape(13, [100] * 26)


def cost(arch):
    counted = count(arch, SCHEMA)
    return {"params": counted.params, "macs": counted.macs, "embedding_mb": counted.embedding_bytes / 1e6}


def sampler(seed=0):
    rng = np.random.default_rng(seed)
    return lambda: SPACE.sample(rng)


def test_without_limits_everything_passes_and_nothing_is_computed():
    gate = Gate(SPACE, cost=lambda arch: pytest.fail("not needed"))
    assert gate.draw(sampler()) == SPACE.sample(np.random.default_rng(0))
    assert gate.counts.to_dict() == {"draws": 1, "admitted": 1, "limits": {}}


def test_draws_go_on_until_all_limits_hold():
    gate = Gate(SPACE, LimitSettings(params=300_000, flops=3e6), cost)
    make = sampler()
    for _ in range(20):
        figures = cost(gate.draw(make))
        assert figures["params"] <= 300_000
        assert 2 * figures["macs"] <= 3e6
    counts = gate.counts.to_dict()
    json.dumps(counts)
    assert counts["admitted"] == 20 < counts["draws"]
    assert counts["limits"]["params"]["rejected"] > 0


def test_limits_nothing_meets_end_in_an_error_with_shares_and_the_nearest_value():
    seen = []

    def remembered(arch):
        seen.append(cost(arch))
        return seen[-1]

    gate = Gate(SPACE, LimitSettings(params=1000, flops=2_500_000, tries=500), remembered)
    with pytest.raises(SpaceError) as caught:
        gate.draw(sampler(3))
    share = 100 * np.mean([2 * figures["macs"] > 2_500_000 for figures in seen])
    smallest = min(figures["params"] for figures in seen)
    assert len(seen) == 500
    assert 0 < share < 100
    assert caught.value.what == (
        "no architecture of nasrec-small meets the limits: of 500 draws "
        f"params <= 1,000 rejected 100.0 %, flops <= 2,500,000 rejected {share:.1f} %"
    )
    assert caught.value.fix == f"the smallest params seen was {smallest:,}; raise limits.params above it"


def test_a_latency_that_nothing_meets_is_given_up_after_a_bounded_number_of_measurements():
    measured = []

    def measure(arch):
        measured.append(arch)
        return {"latency_ms_1": 0.5}

    gate = Gate(SPACE, LimitSettings(latency_ms_1=1e-7), cost, measure)
    with pytest.raises(SpaceError, match=r"latency_ms_1 <= 1e-07 rejected 100.0 %[^$]*raise limits.latency_ms_1"):
        gate.draw(sampler())
    assert len(measured) <= 50


def test_limits_that_only_fail_together_say_so():
    flip = iter(range(10**6))

    def figures(_):
        odd = next(flip) % 2
        return {"params": 10 if odd else 1, "macs": 1 if odd else 10}

    gate = Gate(SPACE, LimitSettings(params=5, macs=5, tries=100), figures)
    with pytest.raises(SpaceError) as caught:
        gate.draw(sampler())
    assert "params <= 5 rejected 50.0 %, macs <= 5 rejected 50.0 %" in caught.value.what
    assert caught.value.fix == "each limit is met by some but all by none; raise limits.params first, or limits.tries"
    assert gate.attempt(sampler()) is None


def test_latency_is_measured_only_after_arithmetic_and_once_per_network():
    measured = []

    def measure(arch):
        measured.append(arch)
        return {"latency_ms_1": 0.25, "latency_ms_512": 4}

    gate = Gate(SPACE, LimitSettings(params=300_000, latency_ms_512=3.5, tries=50), cost, measure)
    with pytest.raises(SpaceError) as caught:
        gate.draw(sampler())
    assert all(cost(arch)["params"] <= 300_000 for arch in measured)
    assert 0 < len(measured) < 50
    assert f"latency_ms_512 <= 3.500 rejected 100.0 % of the {len(measured)} that met the others" in caught.value.what
    assert "the smallest latency_ms_512 seen was 4" in caught.value.fix
    before = len(measured)
    assert not gate.admits(measured[0])
    assert len(measured) == before
    assert set(gate.new_measurements()) == {SPACE.key(arch) for arch in measured}
    assert gate.new_measurements() == {}


def test_remembered_measurements_decide():
    arch = SPACE.sample(np.random.default_rng(0))
    gate = Gate(SPACE, LimitSettings(latency_ms_1=1), measure=lambda _: pytest.fail("was remembered"))
    gate.remember({SPACE.key(arch): {"latency_ms_1": 0.5}})
    assert gate.admits(arch)


@pytest.mark.parametrize(
    ("limits", "given", "message"),
    [
        ({"params": 5}, {}, "limits.params is set, but this search has no `cost` function"),
        ({"latency_ms_1": 5}, {"cost": cost}, "limits.latency_ms_1 is set, but this search has no `measure`"),
        (
            {"embedding_mb": 5},
            {"cost": lambda _: {"params": 1}},
            "limits.embedding_mb is set, but only params is known",
        ),
    ],
)
def test_a_limit_nobody_can_decide_is_refused(limits, given, message):
    with pytest.raises(ConfigError, match=message):
        Gate(SPACE, LimitSettings(**limits), **given).draw(sampler())


def test_a_figure_that_is_no_number_is_refused():
    gate = Gate(SPACE, LimitSettings(params=5), lambda _: {"params": float("nan")})
    with pytest.raises(SpaceError, match="params is nan"):
        gate.draw(sampler())


@pytest.mark.parametrize("name", ["evolution", "random", "local"])
def test_every_searcher_passes_the_error_on(name):
    gate = Gate(SPACE, LimitSettings(params=10, tries=30), cost)
    searcher = get_searcher(name, SPACE, Objectives.of({"loss": "min"}), 0, gate=gate)
    with pytest.raises(SpaceError, match="of 30 draws params <= 10 rejected 100"):
        searcher.ask()
    with pytest.raises(RuntimeError, match="stopped after 0 of 2048"):
        searcher.ask()

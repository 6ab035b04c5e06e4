"""Tests every searcher should pass; inherit them in your own test file.

    class TestMySearcher(SearcherConformance):
        def space(self):
            return get_space("nasrec-small")

        def searcher(self, seed=0, objectives=LOSS, gate=None):
            return MySearcher(self.space(), objectives, seed, MySettings(candidates=40), gate)

pytest then collects one test per promise of `recnas.searchers.base.Searcher`. Give the searcher 30 to 100
candidates in several batches: every cut through the search is replayed. The values are arithmetic on the
architectures' own data, so any space will do.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

from recnas.errors import RunError
from recnas.runs.records import Candidate, PhaseBegun, Record
from recnas.searchers.base import SEED, Searcher
from recnas.searchers.limits import Gate
from recnas.searchers.objective import Objectives, dominates
from recnas.searchers.proposal import Proposal
from recnas.searchers.random_search import RandomSearch
from recnas.searchers.settings import LimitSettings, RandomSettings
from recnas.space.base import Space

LOSS = Objectives.of({"loss": "min"})
LOSS_AND_GAIN = Objectives.of({"loss": "min", "gain": "max"})
VOTE = Objectives.of({"loss": "min", "gain": "max"}, combine="vote")


class SearcherConformance:
    """Override `space` and `searcher`; override the rest only where the defaults do not suit."""

    seeds = (0, 1, 2, 3, 4)  # over which the comparison with random search is averaged
    improves_on_random = True  # False for random search itself
    seeds_come_first = True  # False where they are members of a pool, proposed if their scores say so
    best_goes_by_value = True  # False where something else comes first, such as how long a candidate was trained
    _target: ClassVar[Any]

    def space(self) -> Space[Any]:
        raise NotImplementedError("return a space from `space()`")

    def searcher(self, seed: int = 0, objectives: Objectives = LOSS, gate: Gate[Any] | None = None) -> Searcher[Any]:
        raise NotImplementedError("return a new searcher from `searcher()`")

    def long_searcher(self, seed: int) -> Searcher[Any]:
        """One with candidates enough to show that it is better than random draws; the same by default."""
        return self.searcher(seed)

    # What the tests are made of

    def values(self, arch: Any, objectives: Objectives = LOSS) -> dict[str, float]:
        """`loss`: share of the description that differs from a planted one. `gain`: that from another."""
        space = self.space()
        if "_target" not in vars(type(self)):
            rng = np.random.default_rng(20240)
            type(self)._target = [list(_leaves(space.to_dict(space.sample(rng)))) for _ in range(2)]
        found = set(_leaves(space.to_dict(arch)))
        alike = [sum(leaf in found for leaf in target) / len(target) for target in type(self)._target]
        both = {"loss": 1 - alike[0], "gain": alike[1]}
        return {name: both[name] for name in objectives.names}

    def step(self, searcher: Searcher[Any], proposal: Proposal[Any]) -> Candidate:
        """Score and tell one proposal; every seventh new one fails."""
        if proposal.known:
            return searcher.tell(proposal)
        if proposal.index % 7 == 6:
            return searcher.tell(proposal, failed="no gradient")
        return searcher.tell(proposal, self.values(proposal.arch, searcher.objectives))

    def run(self, searcher: Searcher[Any], lines: int | None = None) -> list[Candidate]:
        """Records of the next `lines` candidates, or of all that are left, as a file gives them back."""
        events: list[Candidate] = []
        while not searcher.done and (lines is None or len(events) < lines):
            events.append(self.step(searcher, searcher.ask()))
        return [Candidate.model_validate(json.loads(json.dumps(event.to_json()))) for event in events]

    # The promises

    def test_makes_as_many_proposals_as_it_says(self) -> None:
        searcher = self.searcher()
        events = self.run(searcher)
        assert [event.index for event in events] == list(range(searcher.total))
        assert searcher.done
        assert searcher.ask_batch() == []
        with pytest.raises(RuntimeError, match="over"):
            searcher.ask()

    def test_proposals_are_valid_and_carry_their_key(self) -> None:
        searcher, space = self.searcher(), self.space()
        self.run(searcher)
        for told in searcher.history:
            space.validate(told.proposal.arch)
            assert told.proposal.key == space.key(told.proposal.arch)

    def test_depends_on_seed_and_values_only(self) -> None:
        np.random.seed(1)
        once = self.run(self.searcher(seed=3))
        np.random.seed(2)
        assert self.run(self.searcher(seed=3)) == once, "two runs of one seed differ"
        assert self.run(self.searcher(seed=4)) != once, "the seed changes nothing"

    def test_batches_and_single_steps_give_the_same_ledger(self) -> None:
        searcher, events = self.searcher(), []
        while batch := searcher.ask_batch():
            events += [self.step(searcher, proposal) for proposal in batch]
        assert events == self.run(self.searcher())

    def test_batches_do_not_depend_on_values_told_within_them(self) -> None:
        """Otherwise the number of workers would change the result."""
        searcher = self.searcher()
        batch = searcher.ask_batch()
        assert [self.searcher().ask_batch()[i].key for i in range(len(batch))] == [p.key for p in batch]
        with pytest.raises(RuntimeError, match="wait for values"):
            searcher.ask_batch()

    def test_replay_at_every_cut_equals_the_run_in_one_go(self) -> None:
        whole = self.run(self.searcher())
        for cut in range(len(whole) + 1):
            searcher = self.searcher()
            noise: list[Record] = [PhaseBegun(name="warmup", at=0.0)]
            assert searcher.replay([*noise, *whole[:cut]]) == cut
            assert self.run(searcher, lines=12) == whole[cut : cut + 12], f"differs after a cut at {cut}"

    def test_known_architectures_come_first_and_are_replayed(self) -> None:
        space, rng = self.space(), np.random.default_rng(77)
        known = {space.key(arch): arch for arch in (space.sample(rng) for _ in range(3))}

        def begun() -> Searcher[Any]:
            searcher = self.searcher()
            searcher.begin_with(known.values())
            return searcher

        events = self.run(begun())
        first = {event.key: event.origin for event in reversed(events)}
        assert all((origin == SEED) == (key in known) for key, origin in first.items())
        if self.seeds_come_first:
            assert [event.key for event in events[: len(known)]] == list(known)
        for cut in (1, len(known), len(events) // 2):
            resumed = begun()
            resumed.replay(events[:cut])
            assert self.run(resumed) == events[cut:], f"differs after a cut at {cut}"

    def test_ten_and_ten_are_twenty(self) -> None:
        twenty = self.run(self.searcher(), lines=20)
        ten = self.run(self.searcher(), lines=10)
        resumed = self.searcher()
        resumed.replay(ten)
        assert ten + self.run(resumed, lines=10) == twenty

    def test_replay_refuses_the_ledger_of_another_search(self) -> None:
        events = self.run(self.searcher(seed=5))
        with pytest.raises(RunError, match=r"another search: line \d+ holds"):
            self.searcher(seed=6).replay(events)
        with pytest.raises(RunError, match=f"line {len(events) + 1} is a candidate beyond"):
            self.searcher(seed=5).replay([*events, events[-1]])
        with pytest.raises(RunError, match=r"line 1: candidate 0 .* 'gain' is missing"):
            self.searcher(seed=5, objectives=LOSS_AND_GAIN).replay(events)

    def test_no_network_is_scored_twice(self) -> None:
        searcher = self.searcher()
        self.run(searcher)
        first: dict[str, int] = {}
        for told in searcher.history:
            proposal = told.proposal
            assert proposal.same_as == first.get(proposal.key), f"{proposal} hides that its key was met"
            first.setdefault(proposal.key, proposal.index)
            if proposal.same_as is not None:
                assert told.values == searcher.values_of(proposal.same_as)

    def test_refuses_what_is_not_a_number_and_names_the_candidate(self) -> None:
        for bad in (float("nan"), float("inf")):
            searcher = self.searcher()
            proposal = searcher.ask()
            with pytest.raises(RunError, match=f"candidate 0 .{proposal.key}. .* 'loss' is {bad}"):
                searcher.tell(proposal, {"loss": bad})
            assert searcher.history == [], "a refused value must leave no trace"

    def test_values_are_told_in_the_order_asked(self) -> None:
        searcher = self.searcher()
        batch = searcher.ask_batch()
        with pytest.raises(RuntimeError, match="order"):
            searcher.tell(batch[1], self.values(batch[1].arch))
        searcher.tell(batch[0].arch, self.values(batch[0].arch))  # the architecture will do too

    def test_limits_are_kept(self) -> None:
        space = self.space()

        def cost(arch: Any) -> dict[str, float]:
            return {"params": zlib.crc32(space.key(arch).encode()) % 1000}

        gate = Gate(space, LimitSettings(params=600), cost)
        searcher = self.searcher(gate=gate)
        self.run(searcher)
        assert all(cost(told.proposal.arch)["params"] <= 600 for told in searcher.history)
        assert (
            gate.counts.draws
            > gate.counts.admitted
            >= searcher.total - sum(told.proposal.known for told in searcher.history)
        )

    def test_measured_limits_are_replayed_not_measured_again(self) -> None:
        """A latency read twice is two numbers; the second must not change what was proposed."""
        noise = np.random.default_rng()

        def build() -> Searcher[Any]:
            limits = LimitSettings(latency_ms_1=0.7)
            return self.searcher(gate=Gate(self.space(), limits, measure=lambda _: {"latency_ms_1": noise.random()}))

        events = self.run(build())
        assert any(event.measured for event in events)
        for cut in (1, len(events) // 2, len(events)):
            assert build().replay(events[:cut]) == cut

    def test_parents_come_first(self) -> None:
        searcher = self.searcher()
        self.run(searcher)
        for told in searcher.history:
            proposal = told.proposal
            assert proposal.origin
            assert all(0 <= parent < proposal.index for parent in proposal.parents)
            assert proposal.changes >= len(proposal.parents) > 0 or not proposal.parents

    def test_best_are_different_networks_in_order_without_failures(self) -> None:
        searcher = self.searcher()
        self.run(searcher)
        best = searcher.best(10)
        losses = [told.costs[0] for told in best]
        assert losses == sorted(losses)
        assert len({told.proposal.key for told in best}) == len(best)
        assert all(told.failed is None for told in best)
        assert losses[0] == min(told.costs[0] for told in searcher.history)

    def test_several_objectives_give_the_pareto_front_first(self) -> None:
        searcher = self.searcher(objectives=LOSS_AND_GAIN)
        self.run(searcher)
        everything = [told.costs for told in searcher.history]
        front = searcher.front()
        assert front
        for told in front:
            assert not any(dominates(other, told.costs) for other in everything)
        assert {told.proposal.key for told in searcher.best(len(front))} == {told.proposal.key for told in front}

    def test_a_vote_goes_by_the_sum_of_ranks_and_replays(self) -> None:
        searcher = self.searcher(objectives=VOTE)
        events = self.run(searcher)
        if self.best_goes_by_value:
            told = searcher.best(len(events))
            costs = [found.costs for found in told]
            ranks = [sum((o[i] < c[i]) + (o[i] == c[i]) / 2 for o in costs for i in range(2)) for c in costs]
            assert ranks == sorted(ranks)
        half = self.searcher(objectives=VOTE)
        half.replay(events[: len(events) // 2])
        self.run(half)
        assert [told.proposal.key for told in half.history] == [told.proposal.key for told in searcher.history]

    def test_is_better_than_random_draws(self) -> None:
        if not self.improves_on_random:
            pytest.skip("not promised for this searcher")
        gains = []
        for seed in self.seeds:
            searcher = self.long_searcher(seed)
            self.run(searcher)
            settings = RandomSettings(candidates=searcher.total)
            yardstick = RandomSearch(self.space(), LOSS, seed, settings)
            self.run(yardstick)
            gains.append(yardstick.best(1)[0].costs[0] - searcher.best(1)[0].costs[0])
        assert np.mean(gains) > 0, f"no better than random draws: {gains}"


def _leaves(data: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every single value in JSON-able data, with where it stands."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, (list, tuple)) else None
    if items is None:
        yield path, repr(data)
        return
    for name, value in items:
        yield from _leaves(value, (*path, str(name)))

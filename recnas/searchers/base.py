"""What every searcher promises: ask, tell, replay.

A searcher proposes architectures and is told values. It never sees a network, a proxy or a data set, and
given (space, seed, settings) and the values told it always proposes the same architectures.

**Asking ahead.** `ask_batch` returns every proposal that can be made before a further value is known: a
population, the children of one generation, a block of neighbours. Whoever scores them may use any number of
workers; values are told in the order asked, so the ledger is the same for one worker and for eight.

**Resuming is replaying.** `replay` asks and tells again what a ledger says and compares each architecture
with the one recorded. State is nowhere stored, so nothing can disagree with the ledger. A ledger that ends
inside a batch is fine: the rest of that batch is asked next.

**No network is scored twice.** Two descriptions with one `space.key` are the same network. A drawn duplicate
is drawn again, at most `redraws` times. If the space has nothing new to give by then, the duplicate is
proposed with `same_as` set to the earlier index, and told without values: it then counts with the values of
the earlier one. A search of N candidates therefore always has N ledger lines, even in a space of eight
networks.

**Failures.** A candidate that cannot be scored is told as `failed="why"` and loses against all others. NaN
and infinity are refused: they would pass unnoticed through comparisons.

The smallest loop (a job adds a ledger and an engine):

    while batch := searcher.ask_batch():
        for proposal in batch:
            values = None if proposal.known else {"loss": score(proposal.arch)}
            ledger.append(searcher.tell(proposal, values))

To write one: subclass `Searcher`, give `_batches`, add a line to `recnas.searchers.registry`, and inherit
`recnas.testing.searcher_suite.SearcherConformance` in its tests.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Generic

import numpy as np

from recnas.errors import RunError
from recnas.runs.records import Candidate, Record
from recnas.searchers.limits import Gate
from recnas.searchers.objective import Objectives, fronts
from recnas.searchers.pool import PoolScores
from recnas.searchers.proposal import Outcome, Proposal
from recnas.searchers.settings import SearcherSettings
from recnas.seeds import SEARCHER, stream
from recnas.space.base import ArchT, Space

SEED = "seed"  # origin of what a search begins with
_OTHER_LEDGER = "the ledger belongs to another search"
_START_ANEW = (
    "repeat the command the run was started with (same space, seed, objectives, limits and search settings), "
    "or choose another --out"
)


class Searcher(ABC, Generic[ArchT]):
    """Asks, is told, replays. Subclasses say only which batches to propose.

    Args:
        space: where architectures come from.
        objectives: names and directions of the values that will be told.
        seed: whole number from 0 up; with `name` it fixes every random draw.
        settings: of `settings_class`; its defaults if None. `redraws` bounds how often a duplicate is drawn again.
        gate: limits that every proposal meets; none by default.
        pool_scores: training-free scores, for those that rank a pool.
    """

    name: ClassVar[str]
    settings_class: ClassVar[type[SearcherSettings]]
    ranks_a_pool: ClassVar[bool] = False  # whether it ranks a pool by training-free scores

    def __init__(
        self,
        space: Space[ArchT],
        objectives: Objectives,
        seed: int,
        settings: SearcherSettings | None = None,
        gate: Gate[ArchT] | None = None,
        pool_scores: PoolScores | None = None,
    ) -> None:
        self.settings: Any = settings or self.settings_class.model_validate({})
        self.seed = seed
        self.space = space
        self.objectives = objectives
        self.gate = gate or Gate(space)
        self.rng = stream(seed, SEARCHER + self.name)
        self.history: list[Outcome[ArchT]] = []  # everything told, by index
        self._redraws: int = self.settings.redraws
        self._made: list[Proposal[ArchT]] = []  # everything proposed, by index; `history` trails behind
        self._handed = 0  # how many of those the caller has
        self._first_index: dict[str, int] = {}  # by key
        self.seeds: list[ArchT] = []  # proposed before anything is drawn; members of the pool where there is one
        self.seeds_left_out: list[ArchT] = []  # those of them that a limit excludes, once the first were proposed
        self._begin(pool_scores)
        self._source = self._batches()

    def _begin(self, pool_scores: PoolScores | None) -> None:
        """Prepare what the first proposals need: a pool, a policy."""

    @property
    @abstractmethod
    def total(self) -> int:
        """How many proposals the whole search makes."""

    @abstractmethod
    def _batches(self) -> Iterator[list[Proposal[ArchT]]]:
        """Yield lists of proposals made with `_propose`; the next one is asked for once all are told."""

    @property
    def done(self) -> bool:
        return len(self.history) >= self.total

    def ask_batch(self) -> list[Proposal[ArchT]]:
        """All proposals that need no further value; empty when the search is over."""
        if self._handed == len(self._made):
            if len(self.history) < len(self._made):
                raise RuntimeError(
                    f"{len(self._made) - len(self.history)} proposals wait for values; tell them before asking on"
                )
            if self.done:
                return []
            if not next(self._source, []):
                raise RuntimeError(f"{self.name} stopped after {len(self._made)} of {self.total} proposals")
        batch = self._made[self._handed :]
        self._handed = len(self._made)
        return batch

    def ask(self) -> Proposal[ArchT]:
        """The next single proposal."""
        batch = self.ask_batch()
        if not batch:
            raise RuntimeError(f"the search is over after {self.total} proposals")
        self._handed -= len(batch) - 1
        return batch[0]

    def tell(
        self,
        proposal: Proposal[ArchT] | ArchT,
        values: Mapping[str, float] | None = None,
        failed: str | None = None,
    ) -> Candidate:
        """Take the values of the oldest proposal that has none yet; returns its record for the ledger.

        Args:
            proposal: that proposal, or its architecture.
            values: one finite number per objective; None for a known or a failed proposal.
            failed: why there are no values.
        """
        index = len(self.history)
        if index == self._handed:
            raise RuntimeError("nothing was asked that has not been told")
        expected = self._made[index]
        told_arch = proposal.arch if isinstance(proposal, Proposal) else proposal
        if told_arch != expected.arch or (isinstance(proposal, Proposal) and proposal.index != index):
            raise RuntimeError(f"values are told in the order asked: candidate {index} ({expected.key}) is next")
        outcome = self._outcome(expected, values, failed)
        self.history.append(outcome)
        return outcome.record(self.space.to_dict(expected.arch))

    def replay(self, records: Iterable[Record]) -> int:
        """Go through a ledger again; returns how many candidates it held.

        Args:
            records: all of the ledger from the first; what no searcher wrote is skipped.
        """
        if self._made:
            raise RuntimeError("only a new searcher can replay a ledger")
        lines = [(n, record) for n, record in enumerate(records, start=1) if isinstance(record, Candidate)]
        for _, candidate in lines:
            self.gate.remember(candidate.measured)
        for number, candidate in lines:
            if self.done:
                raise RunError(
                    f"{_OTHER_LEDGER}: line {number} is a candidate beyond the {self.total} of this one",
                    _START_ANEW,
                )
            self._replay_line(number, candidate)
        return len(lines)

    def begin_with(self, seeds: Iterable[ArchT]) -> None:
        """Propose these first, each network once, as far as the limits admit them; of a pool they are members."""
        if self._made:
            raise RuntimeError("only a new searcher can begin with something")
        self.seeds = list({self.space.key(arch): arch for arch in seeds}.values())

    def values_of(self, index: int) -> Mapping[str, float] | None:
        """The values told for a proposal; None if it failed."""
        return self.history[index].values

    def best(self, n: int) -> list[Outcome[ArchT]]:
        """The best `n` different networks told so far, best first; failed ones never count.

        One objective: by its value. Several: the Pareto front first, then front by front, and within each
        front those in sparse regions first. Of equals the older comes first.
        """
        scored = self._scored()
        order = self.objectives.order([told.costs for told in scored])
        return [scored[i] for i in order[:n]]

    def leader(self) -> str:
        """Who leads, in words: never one voice of a vote, which can fall when the leader changes."""
        scored = self._scored()
        if not scored:
            return ""
        if self.objectives.is_vote:
            number = self.best(1)[0].proposal.index + 1
            return f"candidate {number} leads the vote of {', '.join(self.objectives.names)} over {len(scored)}"
        best = min(scored, key=lambda outcome: outcome.costs[0])
        name = self.objectives.names[0]
        return f"best {name} {(best.values or {})[name]:.5g}"

    def front(self) -> list[Outcome[ArchT]]:
        """The networks that nothing told so far dominates, in the order told."""
        scored = self._scored()
        ranks = fronts(np.asarray([told.costs for told in scored]).reshape(len(scored), len(self.objectives)))
        return [told for told, rank in zip(scored, ranks) if rank == 0]

    def _scored(self) -> list[Outcome[ArchT]]:
        return [told for told in self.history if told.values is not None and not told.proposal.known]

    def _is_new(self, arch: ArchT) -> bool:
        return self.space.key(arch) not in self._first_index

    def _sample_new(self) -> ArchT:
        """A draw from the space within the limits, new if `redraws` suffice."""
        arch = self.gate.draw(lambda: self.space.sample(self.rng))
        return self._until_new(arch, lambda _: self.space.sample(self.rng))[0]

    def _first(self, count: int, origin: str, facts: Mapping[str, Any] | None = None) -> list[Proposal[ArchT]]:
        """So many proposals to begin with: seeds within the limits, then draws."""
        seeded = self._seeded(count, facts)
        return seeded + [self._propose(self._sample_new(), origin, facts=facts) for _ in range(count - len(seeded))]

    def _seeded(self, most: int, facts: Mapping[str, Any] | None = None) -> list[Proposal[ArchT]]:
        """Proposals of the seeds within the limits, if nothing was proposed before."""
        return [self._propose(arch, SEED, facts=facts) for arch in self._admitted()[:most]]

    def _admitted(self) -> list[ArchT]:
        """Seeds within the limits, before the first proposal; the others are noted."""
        admitted: list[ArchT] = []
        for arch in [] if self._made else self.seeds:
            (admitted if self.gate.admits(arch) else self.seeds_left_out).append(arch)
        return admitted

    def _until_new(self, arch: ArchT, again: Callable[[ArchT], ArchT]) -> tuple[ArchT, int]:
        """`arch` if no proposal has its key; otherwise what `again` makes of it, and how often it was used."""
        for redraw in range(self._redraws):
            if self._is_new(arch):
                return arch, redraw
            current = arch
            other = self.gate.attempt(lambda: again(current))  # noqa: B023 - called at once
            if other is None:
                return arch, redraw
            arch = other
        return arch, self._redraws

    def _propose(
        self,
        arch: ArchT,
        origin: str,
        parents: tuple[int, ...] = (),
        changes: int = 0,
        facts: Mapping[str, Any] | None = None,
    ) -> Proposal[ArchT]:
        """Number a proposal and remember it; a key met before makes it a known one."""
        index, key = len(self._made), self.space.key(arch)
        first = self._first_index.setdefault(key, index)
        same_as = None if first == index else first
        measured = self.gate.new_measurements()
        proposal = Proposal(index, arch, key, origin, parents, changes, same_as, facts or {}, measured)
        self._made.append(proposal)
        return proposal

    def _outcome(
        self, proposal: Proposal[ArchT], values: Mapping[str, float] | None, failed: str | None
    ) -> Outcome[ArchT]:
        name = f"candidate {proposal.index} ({proposal.key})"
        if proposal.same_as is not None:
            first = self.history[proposal.same_as]
            if values is not None and values != first.values:
                raise RunError(
                    f"{name} is the same network as candidate {proposal.same_as} but was told other values",
                    "tell a known proposal without values",
                )
            return Outcome(proposal, first.values, first.failed, first.costs)
        if (values is None) == (failed is None):
            raise RunError(f"{name} needs values or the reason why it failed, one of the two")
        if values is not None:
            values = {key: float(value) for key, value in values.items()}
            if faults := self.objectives.faults(values):
                raise RunError(
                    f"{name} cannot be told these values: {', '.join(faults)}",
                    "a candidate that cannot be scored is told as failed, with the reason",
                )
        return Outcome(proposal, values, failed, self.objectives.costs(values))

    def _replay_line(self, number: int, candidate: Candidate) -> None:
        proposal = self.ask()
        arch = json.loads(json.dumps(self.space.to_dict(proposal.arch)))
        if candidate.key != proposal.key or candidate.arch != arch:
            twin = " in another description" if candidate.key == proposal.key else ""
            raise RunError(
                f"{_OTHER_LEDGER}: line {number} holds {candidate.key} as candidate {proposal.index}, "
                f"where this search proposes {proposal.key}{twin}",
                _START_ANEW,
            )
        try:
            self.tell(proposal, candidate.values, candidate.failed)
        except (RunError, TypeError, ValueError, AttributeError) as error:
            what = error.what if isinstance(error, RunError) else str(error)
            raise RunError(f"{_OTHER_LEDGER}: line {number}: {what}", _START_ANEW) from None

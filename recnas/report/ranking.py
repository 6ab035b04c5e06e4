"""Which candidate of a search is better: by the first objective, or by the place in a vote over all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from recnas.report.kinds import is_gradient
from recnas.runs.records import Candidate
from recnas.runs.run import Run
from recnas.searchers.objective import Objectives

PLACE = "place by vote"  # what candidates of a vote are shown by; 1 is the best


class Ranking:
    """What the candidates of a run are shown by.

    ranking = Ranking(run)
    ranking.goal                    # ("sigeo", "max")
    ranking.value(run.candidates[0])
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.objectives = run.objectives
        # In a vote none of the values alone says which candidate is better.
        self.is_vote = run.manifest.combine == "vote" and len(self.objectives) > 1

    @property
    def goal(self) -> tuple[str, str] | None:
        """What candidates are shown by, and `min` or `max`; None for runs without objectives."""
        return (PLACE, "min") if self.is_vote else next(iter(self.objectives.items()), None)

    @property
    def voices(self) -> str:
        return ", ".join(self.objectives)

    @cached_property
    def places(self) -> dict[int, int]:
        """The place of every scored candidate in the vote over all of them, by its index."""
        places = vote_places(self.run.candidates, self.objectives)
        return {one.index: place for one, place in zip(self.run.candidates, places) if place is not None}

    def value(self, candidate: Candidate) -> float | None:
        """The goal of a candidate; a duplicate has that of the one it repeats."""
        if self.goal is None:
            return None
        if candidate.values is None and candidate.same_as is not None:
            candidate = self.run.by_index.get(candidate.same_as, candidate)
        if self.is_vote:
            return self.places.get(candidate.index)
        if not candidate.values or is_stand_in(candidate, self.goal[0]):
            return None
        return candidate.values.get(self.goal[0])

    @cached_property
    def best(self) -> Candidate | None:
        """The best candidate so far; a search on a supernet has none to choose from, only its last state."""
        if is_gradient(self.run):
            return None
        judged = [(value, one) for one in self.run.candidates if (value := self.value(one)) is not None]
        if not judged or self.goal is None:
            return None
        sign = 1 if self.goal[1] == "min" else -1
        return min(judged, key=lambda pair: sign * pair[0])[1]

    @property
    def winner(self) -> Candidate | None:
        """The candidate that won; of a run that did not get there, the best so far."""
        if self.run.result is not None:
            return self.run.by_index.get(self.run.result.winner.index)
        return self.best


def is_stand_in(candidate: Candidate, proxy: str) -> bool:
    """Whether a score stands for a network without a live path: it ranks last and belongs in no picture."""
    return proxy in candidate.scores and candidate.scores[proxy].reason is not None


def vote_places(candidates: Sequence[Candidate], directions: Mapping[str, str]) -> list[int | None]:
    """The place of each candidate in the vote over all of these; None for failed ones and repeats."""
    votes = [one.values if one.values and one.same_as is None else None for one in candidates]
    counted = [values for values in votes if values is not None]
    places = iter(Objectives.of(directions, "vote").places(counted) if counted else ())
    return [next(places) if values is not None else None for values in votes]

"""What `result.json` of a search holds: its winner, those it was chosen from, what was spent."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from recnas.runs.records import Metrics, PairedDifference, Record


class Winner(Record):
    key: str
    index: int
    rank: int = 0  # among the candidates, by the objectives
    arch: dict[str, Any]
    text: str | None = None  # in the notation of the space's authors, where there is one
    values: dict[str, float] | None = None
    cost: dict[str, float] = Field(default_factory=dict)


class Finalist(Record):
    """A candidate that was trained at length, over its seeds."""

    rank: int
    index: int
    key: str
    values: dict[str, float] | None = None
    cost: dict[str, float] = Field(default_factory=dict)
    valid: Metrics
    valid_std: float | None = None
    seeds: int = 1


class Budget(Record):
    """What was spent."""

    proposed: int
    scored: int = 0
    failed: int = 0
    trained: int = 0
    epochs: float = 0
    steps: int = 0
    warmup_share: float | None = None
    test_read_by: int = 1


class HandCrafted(Record):
    """The best hand-crafted model of a race, trained to its end within the same budget."""

    name: str
    key: str
    arch: dict[str, Any]
    changed: dict[str, Any] = Field(default_factory=dict)  # in its recipe, against the settings of final.train
    valid: float  # of what validation judges by, over its seeds
    cut: bool = False  # its training was ended because the budget was
    cost: dict[str, float] = Field(default_factory=dict)
    latency: dict[str, float] = Field(default_factory=dict)
    difference: PairedDifference | None = None  # the winner less it, on validation; None: it is the winner


class RaceResult(Record):
    """What a race spent, and what its winner was trained with. Budgets are in passes over rows, every one counted."""

    entrants: int
    architectures: int
    trainings: int
    whole: int  # of them were trained to their end
    cut: int = 0  # of these, ended because the budget was
    failed: int = 0
    budget_rows: int
    trained_rows: int
    recipe: dict[str, Any]  # of the winner
    changed: dict[str, Any] = Field(default_factory=dict)  # in it, against the settings of final.train
    why: str  # the winner entered
    name: str | None = None  # of the hand-crafted model that won
    latency: dict[str, float] = Field(default_factory=dict)  # of the winner, one thread
    hand_crafted: HandCrafted | None = None  # None: there was none, or all of them failed
    searched_valid: float | None = (
        None  # of the best that is none of the hand-crafted ones, if one was trained to its end
    )
    verdict: str | None = None  # the winner against the hand-crafted model, in a sentence


class SearchResult(Record):
    """`result.json` of every search, whatever the task."""

    format: Literal[2] = 2
    task: str
    method: str
    metric: str  # what chose the winner and is told of it: logloss or accuracy
    winner: Winner
    valid: Metrics
    valid_std: float | None = None
    test: Metrics
    test_std: float | None = None
    best_possible: Metrics = Field(default_factory=dict)  # on a table: the best test value there is
    objectives: dict[str, str]
    combine: str = "pareto"
    front: list[str] | None = None
    limits: dict[str, Any] = Field(default_factory=dict)
    seeds: dict[str, int]
    budget: Budget
    seconds: dict[str, float]
    data: str  # fingerprint
    finalists: tuple[Finalist, ...] = ()
    race: RaceResult | None = None  # of a search with final.race
    extras: dict[str, Any] = Field(default_factory=dict)  # of the method: NASI's alpha, DARTS's shares

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json")  # a result says everything

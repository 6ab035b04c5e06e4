"""One run directory, as everyone reads it: reports, `recnas watch`, drawings. `recnas.runs.read` makes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal, TypeVar

from recnas.runs.layout import PHASES
from recnas.runs.records import Candidate, PhaseDone, Record, RungTraining, SeedTraining, Trained
from recnas.runs.results import (
    ContestBoard,
    DataFacts,
    Leaderboard,
    Manifest,
    MetricFacts,
    Spread,
    TrainResult,
    WarmupResult,
)
from recnas.runs.search_result import SearchResult

_, SEARCH, FINALISTS, _ = PHASES
CTR = "ctr"
_ON_CLICKS = ("warmup", "train", "compare", "bench")  # kinds that know one task only
OUTCOME = "chosen"  # origin of the line in which a search on a supernet writes what it chose

T = TypeVar("T", bound=Record)


@dataclass(frozen=True)
class Phase:
    """One phase of a search; `done` of `total` candidates or trainings, where that is known."""

    name: str
    state: Literal["done", "now", "to come"]
    seconds: float | None = None
    workers: int | None = None
    done: int | None = None
    total: int | None = None


@dataclass(frozen=True)
class TrainedArch:
    """An architecture that was trained, over its seeds; without metrics if one of its trainings failed."""

    key: str
    index: int
    seeds: int
    valid: dict[str, Spread]
    cost: dict[str, float]
    seconds: float
    failed: str | None = None

    def mean(self, metric: str) -> float | None:
        return self.valid[metric].mean if metric in self.valid else None

    def std(self, metric: str) -> float | None:
        return self.valid[metric].std if metric in self.valid else None

    @property
    def flops(self) -> float | None:
        return 2 * self.cost["macs"] if "macs" in self.cost else None


@dataclass(frozen=True, eq=False)
class Run:
    """One run directory, read once."""

    path: Path
    label: str  # how figures call it
    manifest: Manifest
    records: tuple[Record, ...]  # of its ledger, in order
    lines: int  # of its ledger
    result: SearchResult | None = None
    training: TrainResult | None = None  # result of a training
    warmup: WarmupResult | None = None  # result of a warm-up, or of the warm-up of a search
    board: Leaderboard | None = None
    contest: ContestBoard | None = None  # its table so far
    winner_arch: dict[str, Any] | None = None  # of a search; the architecture of a training
    winner_trainings: tuple[SeedTraining, ...] = ()  # the winner's last ones, or those of a training, by seed
    winner_manifest: Manifest | None = None  # how those were done
    has_result: bool = False

    @property
    def kind(self) -> str:
        return self.manifest.kind

    @property
    def task(self) -> str | None:
        """ctr, images or table; None for kinds of runs without one."""
        return CTR if self.kind in _ON_CLICKS else self.manifest.task

    @property
    def config(self) -> dict[str, Any]:
        return self.manifest.config

    @property
    def data(self) -> DataFacts | None:
        return self.manifest.data

    @property
    def finished(self) -> bool:
        return self.has_result

    @property
    def is_search(self) -> bool:
        return self.kind == "search"

    @property
    def searches_clicks(self) -> bool:
        """A search for a click model, whose winner can be compared with hand-crafted ones."""
        return self.is_search and self.task == CTR

    @property
    def metric(self) -> MetricFacts:
        """What trained networks are judged by on validation."""
        return self.manifest.metric

    @property
    def objectives(self) -> dict[str, Any]:
        """Names and directions of what a search ranks by: the first of them, or all in a vote."""
        return dict(self.manifest.objectives)

    def setting(self, path: str) -> Any:
        """One value of the config, such as `search.method`; None where this kind of search has no such setting."""
        value: Any = self.config
        for name in path.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        return value

    @property
    def method(self) -> str:
        return str(self.setting("search.method") or "")

    @property
    def share(self) -> float | None:
        """Share of the training rows that warmed the supernet."""
        return self.setting("warmup.data_share")

    # Records

    def of(self, kind: type[T]) -> list[T]:
        return [record for record in self.records if isinstance(record, kind)]

    @cached_property
    def candidates(self) -> list[Candidate]:
        return self.of(Candidate)

    @cached_property
    def by_index(self) -> dict[int, Candidate]:
        return {candidate.index: candidate for candidate in self.candidates}

    @cached_property
    def first_by_key(self) -> dict[str, Candidate]:
        """Of candidates that are the same network, the one that was proposed first."""
        return {candidate.key: candidate for candidate in reversed(self.candidates)}

    @cached_property
    def trained(self) -> list[Trained]:
        """One per (architecture, seed): finalists of a search, or rows of a table."""
        return self.of(Trained)

    @cached_property
    def trained_archs(self) -> list[TrainedArch]:
        by_key: dict[str, list[Trained]] = {}
        for record in self.trained:
            by_key.setdefault(record.key, []).append(record)
        return [_over_seeds(records) for records in by_key.values()]

    @property
    def winner_key(self) -> str | None:
        return self.result.winner.key if self.result is not None else None

    @cached_property
    def test_losses(self) -> list[float]:
        """Test log losses of the winner's trainings, or of a training, one per seed."""
        tests = [training.test for training in self.winner_trainings if training.test is not None]
        return [loss for test in tests if (loss := test.get("logloss")) is not None]

    # Phases

    @property
    def races(self) -> bool:
        """Whether finalists race instead of being trained once each."""
        return self.manifest.race_rows is not None

    @cached_property
    def race_lines(self) -> list[RungTraining]:
        """How far each training of a race is."""
        return list({(line.entrant, line.seed): line for line in self.of(RungTraining)}.values())

    @cached_property
    def raced_rows(self) -> int:
        """Rows that its trainings have read."""
        return sum(line.trained_rows for line in self.race_lines)

    @property
    def trainings_asked(self) -> int:
        """Trainings of finalists that a whole run has; 0 for a race, which only its budget ends."""
        if FINALISTS not in self.manifest.phases or self.races:
            return 0
        return int(self.setting("final.candidates") or 0) * int(self.setting("final.seeds") or 1)

    @property
    def proposed(self) -> int:
        """Candidates so far; the outcome of a search on a supernet is none of its steps."""
        return sum(candidate.origin != OUTCOME for candidate in self.candidates)

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """The phases of a search in order; of the one under way how far it is."""
        ended = {done.name: done for done in self.of(PhaseDone)}
        now = next((name for name in self.manifest.phases if name not in ended), None)
        found = []
        for name in self.manifest.phases:
            if name in ended:
                found.append(Phase(name, "done", ended[name].seconds, ended[name].workers))
            elif name == now:
                found.append(Phase(name, "now", None, None, *self._progress(name)))
            else:
                found.append(Phase(name, "to come"))
        return tuple(found)

    def _progress(self, phase: str) -> tuple[int | None, int | None]:
        if phase == SEARCH:
            return self.proposed, self.manifest.proposals
        if phase == FINALISTS and self.races:
            return self.raced_rows, self.manifest.race_rows
        if phase == FINALISTS:
            return len(self.trained), self.trainings_asked
        return None, None


def _over_seeds(records: Sequence[Trained]) -> TrainedArch:
    first = records[0]
    failed = next((record.failed for record in records if record.failed is not None), None)
    valid: dict[str, Spread] = {}
    for metric in first.valid if failed is None else ():
        values = tuple(record.valid.get(metric) for record in records)
        known = [value for value in values if value is not None]
        whole = len(known) == len(values)
        mean = fmean(known) if whole else None
        std = stdev(known) if whole and len(known) > 1 else None
        valid[metric] = Spread(mean=mean, std=std, values=values)
    seconds = sum(record.seconds for record in records)
    return TrainedArch(first.key, first.index, len(records), valid, first.cost, seconds, failed)

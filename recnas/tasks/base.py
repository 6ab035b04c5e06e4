"""What a search must know of its task: the contract between `recnas.jobs.search` and what is searched.

A task owns its data and says how candidates are evaluated, trained and judged. The search owns the phases, the
ledger and the result. To add a task: subclass `Task`, give it settings, add a line to `registry`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from recnas.devices import choose_device
from recnas.engines.base import Work
from recnas.engines.execution import Execution
from recnas.runs.folder import RunDir
from recnas.runs.layout import PHASES
from recnas.runs.records import Metrics
from recnas.searchers.objective import Objectives
from recnas.searchers.pool import PoolScores
from recnas.searchers.settings import LimitSettings, SearcherSettings
from recnas.space.base import Space

if TYPE_CHECKING:
    from recnas.tasks.racing import Racing
    from recnas.tasks.seeds import Seed

WARMUP, SEARCH, FINALISTS, WINNER = PHASES


@dataclass(frozen=True)
class Metric:
    """What validation chooses by and test is told in."""

    name: str
    direction: Literal["min", "max"]

    def cost(self, metrics: Metrics) -> float:
        """Low is good; infinite where it is not known."""
        value = metrics.get(self.name)
        if value is None:
            return float("inf")
        return value if self.direction == "min" else -value


@dataclass(frozen=True)
class Final:
    """What was read of the winner at the end."""

    test: Metrics
    test_std: float | None = None
    valid: Metrics = field(default_factory=dict)  # where there was no finalist training to say it
    best_possible: Metrics = field(default_factory=dict)
    extras: dict[str, Any] = field(default_factory=dict)


class Task(ABC):
    """One thing to search. Constructed from its settings; opens its data, checks what can be checked."""

    name: ClassVar[str]
    metric: ClassVar[Metric]
    phases: ClassVar[tuple[str, ...]]

    config: Any  # its settings
    space: Space[Any]  # that candidates are drawn from
    objectives: Objectives
    seed: int
    searcher: SearcherSettings
    limits: LimitSettings
    threads: int | None = None  # asked for by the settings
    finalists: int = 1
    finalist_seeds: int = 1
    seeds: Sequence[Seed] = ()  # what the search begins with
    racing: Racing | None = None  # where finalists race

    @abstractmethod
    def sources(self, out: Path | str) -> dict[str, Any]:
        """What a manifest says of the data: at least `data` with a fingerprint."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Of the data that results belong to."""

    @abstractmethod
    def cost(self, arch: Any) -> Mapping[str, float]:
        """What is known of an architecture by arithmetic: params, macs, ..."""

    def measure(self, arch: Any) -> Mapping[str, float]:
        """What must be measured, such as latency; only asked for where a limit or an objective names it."""
        return {}

    @property
    def proxies(self) -> tuple[str, ...]:
        """Names of the proxies that every candidate is scored by, objectives or not."""
        return ()

    def plain(self, arch: Any) -> Any:
        """The architecture of a candidate, where candidates carry more than that."""
        return arch

    def describe(self, arch: Any) -> dict[str, Any]:
        return self.space.to_dict(arch)

    def devices(self) -> Mapping[str, str]:
        """Which device every phase asks for, by the name of the setting."""
        return {}

    def check_devices(self, how: Execution) -> None:
        """Before anything is spent: a GPU that is asked for must be there. On a Ray cluster it may be elsewhere."""
        if how.address is None:
            for setting, asked in self.devices().items():
                choose_device(asked, setting)

    def warn(self, how: Execution) -> None:  # noqa: B027 - nothing to say by default
        """Say what a user should know of the data before time is spent on them."""

    def prepare(self, run: RunDir, how: Execution) -> None:  # noqa: B027 - most have none
        """The phase `warmup`, for tasks that have it; what is there already is not made again.

        Here and in `finish`, `how.threads` is the number of threads of the run.
        """

    @abstractmethod
    def evaluator(self, run: RunDir) -> Work:
        """Described architecture in, `Evaluation` out."""

    def pool_scores(self, run: RunDir, how: Execution) -> PoolScores | None:
        """Training-free scores, for searchers that rank a pool."""
        return None

    def finalist_work(self, run: RunDir) -> Work | None:
        """`TrainRequest` in, `Training` out; None where the evaluation was the training."""
        return None

    @abstractmethod
    def finish(self, arch: Any, run: RunDir, how: Execution) -> Final:
        """Retrain the winner, or look it up. Test is read here, once."""

    def budget(self, scored: int, trained: int, candidates: list[Any]) -> dict[str, float]:
        """What the search spent besides counts: epochs, a share of the data."""
        return {}

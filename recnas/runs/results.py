"""What the files of a run directory hold besides the lines of its ledger, as typed records.

manifest.json       Manifest            leaderboard.json    Leaderboard
result.json         SearchResult (of a search, `search_result`), TrainResult (of a training), WarmupResult (of a warm-up)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import ConfigDict, Field, ValidationError

from recnas import files
from recnas.errors import RunError
from recnas.runs.records import Metrics, PairedDifference, Record

R = TypeVar("R", bound=Record)
Direction = Literal["min", "max"]


def read_json(path: Path) -> dict[str, Any] | None:
    """An object of JSON; None if there is no such file."""
    try:
        value = files.read_json(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise RunError(f"{path} is damaged: it is no JSON object.", "Restore it, or delete it and resume the run.")
    return value


def read_record(kind: type[R], path: Path) -> R | None:
    """The record a file holds; None if there is no such file."""
    value = read_json(path)
    return None if value is None else as_record(kind, value, path)


def as_record(kind: type[R], value: dict[str, Any], path: Path) -> R:
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(str(part) for part in fault["loc"]) or "the file"
        raise RunError(
            f"{path} is not what this version of recnas writes: {where}: {fault['msg'][:80]}.",
            "The run was written by another version of recnas, or changed since. Start a new run directory.",
        ) from None


class DataFacts(Record):
    """The data of a run. `path` is where they are now, if they are prepared ones; else what they are called."""

    model_config = ConfigDict(extra="ignore")
    fingerprint: str
    path: str | None = None


class MetricFacts(Record):
    """What trained networks are judged by on validation."""

    name: str = "logloss"
    direction: Direction = "min"


class Decidable(Record):
    """The smallest differences in log loss that so many rows can show."""

    rows: int
    usual: float  # between two models as unlike as usual
    least: float  # much alike
    most: float  # very unlike


class Manifest(Record):
    """What a run was asked for. Which parts there are depends on its kind; all but `kind` may be absent."""

    model_config = ConfigDict(extra="ignore")
    kind: str
    versions: dict[str, str] = Field(default_factory=dict)
    plugins: dict[str, str] = Field(default_factory=dict)  # name and version of those it uses parts of
    data: DataFacts | None = None
    threads: int | None = None
    config: dict[str, Any] = Field(default_factory=dict)  # settings of a search or a warm-up
    settings: dict[str, Any] = Field(default_factory=dict)  # of a training or a comparison
    # Of a search
    task: str | None = None
    phases: tuple[str, ...] = ()
    objectives: dict[str, Direction] = Field(default_factory=dict)
    directions: dict[str, Direction] = Field(
        default_factory=dict
    )  # of everything candidates are scored by, objectives or not
    combine: str = "pareto"
    metric: MetricFacts = MetricFacts()
    proposals: int | None = None
    race_rows: int | None = None  # that all trainings of its race may read together
    decidable: dict[str, Decidable] = Field(default_factory=dict)  # by split
    # Of a training or a comparison
    arch: dict[str, Any] | None = None
    on: str = "train"  # rows it was trained on
    tune: int | None = None
    budget: float | None = None  # of tuning, in times of the training rows
    first_seed: int | None = None


class Spread(Record):
    """A metric over training seeds."""

    mean: float | None
    std: float | None = None
    values: tuple[float | None, ...] = ()

    def __str__(self) -> str:
        around = "" if self.std is None else f" ± {self.std:.5f}"
        return "-" if self.mean is None else f"{self.mean:.5f}{around}"


class TrainResult(Record):
    """`result.json` of a training."""

    key: str
    data: str
    seeds: tuple[int, ...]
    params: int
    macs: int
    embedding_params: int
    valid: dict[str, Spread] = Field(default_factory=dict)
    test: dict[str, Spread] = Field(default_factory=dict)
    worse_than_constant: bool = False  # the mean loss is above that of always predicting the split's click rate

    def to_json(self) -> dict[str, Any]:
        """Everything, but for a split that was not evaluated."""
        unread = {split for split in ("valid", "test") if not getattr(self, split)}
        return self.model_dump(mode="json", exclude=unread)


class SubnetLosses(Record):
    """Over the random subnets that were checked."""

    archs: int = 0
    mean: float | None = None
    std: float | None = None


class WarmupResult(Record):
    """`result.json` of a warm-up."""

    share: float  # of the training rows
    steps: int
    rows: int
    batch_size: int
    seconds: float
    valid_logloss_of_subnets: SubnetLosses = SubnetLosses()

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json")


class ComparedModel(Record):
    """One model of a comparison, over its seeds."""

    rank: int
    model: str  # its label
    id: str
    searched: bool  # an architecture, rather than a hand-crafted model
    seeds: tuple[int, ...]
    trials: int
    trained_rows: int = 0  # by tuning and by all seeds, every pass counted
    tuned_rows: int = 0  # of these by tuning
    whole: int = 0  # trials that were trained to their end; the others dropped out of a race
    best_epochs: tuple[float | None, ...] = ()  # by seed: whose weights were kept; None without early stopping
    choice: dict[str, Any]
    valid: dict[str, Spread]
    test: dict[str, Spread]
    params: int | None
    embedding_params: int | None
    macs: int | None
    train_rows: int
    flops: int | None
    latency: dict[str, float] | None
    rows_per_second: float | None
    difference: PairedDifference | None  # to the reference
    to_guess: PairedDifference  # to always predicting the click rate
    verdict: str | None

    def value(self, split: Literal["valid", "test"], metric: str) -> Spread:
        return getattr(self, split).get(metric) or Spread(mean=None)


class Headline(Record):
    """The two models that the first sentence is about."""

    model: str
    other: str
    difference: PairedDifference


class Contestant(Record):
    """One arm of a contest, over its seeds so far."""

    arm: str
    seeds: tuple[int, ...]
    winners: tuple[str, ...]  # by seed
    valid: Spread  # log loss
    test: Spread
    auc: Spread
    rows: float  # training rows per seed, warm-up and retraining among them
    warmup_rows: float
    flops: float | None
    latency_ms_1: float | None  # medians of one thread
    latency_ms_512: float | None
    embedding_mb: float | None
    failed: dict[int, str] = Field(default_factory=dict)  # by seed


class ContestDifference(Record):
    """`model` less `other` on the same test rows, over all seeds of both."""

    model: str
    other: str
    difference: PairedDifference


class ContestBoard(Record):
    """`result.json` of a contest: what is known so far."""

    data: str
    rows: dict[str, int]
    budget: float  # of each arm and seed, in passes over the training rows
    seeds: tuple[int, ...]  # asked for
    arms: tuple[Contestant, ...]
    missing: tuple[str, ...] = ()  # arms and seeds that have not been run yet
    differences: tuple[ContestDifference, ...] = ()
    verdict: str

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json")


class MetricColumn(Record):
    """A metric that is reported, as tables show it."""

    name: str
    title: str
    digits: int


class Leaderboard(Record):
    """`leaderboard.json` of a comparison."""

    data: str
    rows: dict[str, int]
    weight: dict[str, float] | None = None  # sums of the rows' weights, where they have some
    reference: str
    seeds: tuple[int, ...]
    tune: int
    budget: float | None = None  # of tuning, in times of the training rows
    guess: Metrics  # the constant guess: its click rate and test log loss
    metrics: tuple[MetricColumn, ...] = ()
    models: tuple[ComparedModel, ...]
    headline: Headline | None
    failed: dict[str, str]
    skipped: dict[str, str] = Field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json")  # a board says everything

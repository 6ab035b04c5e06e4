"""The lines of a ledger, as typed records.

Whoever writes a line makes a record, whoever reads one gets it back: a report, `recnas watch` and the Python
interface never look for keys. A line that is no such record was written by something else and is refused by
name. To add a kind of line: a class here, with an `event` of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from recnas.errors import RunError

Metrics = dict[
    str, float | int | None
]  # by name, counts of rows among them; None where it is not defined (AUC of one class)


class Record(BaseModel):
    """Frozen; keys and types are checked, numbers are finite."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def to_json(self) -> dict[str, Any]:
        """Without what has its default, so that lines stay short."""
        values = self.model_dump(mode="json", exclude_defaults=True)
        event = getattr(self, "event", None)
        return values if event is None else {"event": event, **values}


class PairedDifference(Record):
    """Of two models on the same rows, the first less the other; a negative log loss favours the first."""

    logloss: float
    logloss_interval: tuple[float, float]
    auc: float | None  # None if all rows have one label
    auc_interval: tuple[float, float] | None
    real: bool  # the interval of the log loss does not contain zero
    resamples: int
    level: float


class ScoreRecord(Record):
    """One score of a network: its value, what it is made of, and why it is a stand-in if it is one."""

    value: float
    terms: dict[str, float] = {}
    reason: str | None = None


class Candidate(Record):
    """What a searcher proposed and what it was worth."""

    event: Literal["candidate"] = "candidate"
    index: int
    key: str
    arch: dict[str, Any]
    origin: str
    parents: tuple[int, ...] = ()
    changes: int = 0
    values: dict[str, float] | None = None
    failed: str | None = None
    same_as: int | None = None
    facts: dict[str, Any] = {}  # of the method: a generation, a rung, a draw of the mixture
    measured: dict[str, dict[str, float]] = {}
    scores: dict[str, ScoreRecord] = {}
    cost: dict[str, float] = {}
    seconds: float = 0.0


class Trained(Record):
    """One training from scratch: of a finalist, or of an architecture of a table."""

    event: Literal["trained"] = "trained"
    index: int  # number of the candidate, or place in the list of a table
    rank: int | None = None  # among the finalists, from 0
    key: str
    arch: dict[str, Any]
    seed: int
    cost: dict[str, float] = {}
    valid: Metrics = {}
    test: Metrics = {}
    failed: str | None = None
    train_loss: float | None = None
    steps: int = 0
    seconds: float = 0.0
    curve: tuple[float, ...] = ()  # of a table with rungs: validation log loss at each


class Entrant(Record):
    """An architecture with a recipe that enters the race of a search."""

    event: Literal["entrant"] = "entrant"
    number: int  # in the race, from 0
    bracket: int = 0
    index: int  # of the candidate it is, or descends from
    key: str
    arch: dict[str, Any]
    recipe: dict[str, Any]  # of its training
    why: str  # it entered: seed, search, ranker, mutation, recipe
    name: str | None = None  # of the hand-crafted model that it is
    measured: dict[str, dict[str, float]] = {}  # what limits measured to arrive here


class RungTraining(Record):
    """One training of a race, as far as one rung."""

    event: Literal["rung"] = "rung"
    entrant: int
    rung: int  # from 0
    seed: int
    steps: int  # from its beginning on
    trained_rows: int  # likewise; every pass over a row counted
    valid: Metrics = {}  # what it is judged by
    best_epoch: float | None = None  # whose weights are kept so far; None without checks
    ended: bool = False  # nothing is left to train
    cut: bool = False  # ended because the budget was
    failed: str | None = None
    checkpoint: str | None = None  # folder within the run; gone once the entrant has dropped out
    seconds: float = 0.0


class Versus(Record):
    """The winner of a race against its best hand-crafted model, on the rows of validation."""

    event: Literal["versus"] = "versus"
    winner: int  # numbers of entrants
    other: int
    difference: PairedDifference


class Scored(Record):
    """One architecture of a list and its scores."""

    event: Literal["scored"] = "scored"
    key: str
    arch: dict[str, Any]
    text: str | None = None  # in the notation of the space's authors, where there is one
    scores: dict[str, ScoreRecord] = {}
    failed: str | None = None
    facts: dict[str, Any] = {}  # of a warm-up before it
    seconds: float = 0.0


class SeedTraining(Record):
    """One seed of a training run; a split that was not evaluated is None."""

    event: Literal["seed"] = "seed"
    seed: int
    steps: int = 0
    seconds: float = 0.0
    train_curve: list[tuple[int, float]]  # steps and mean losses since the last report
    checks: list[Metrics] = []  # on validation, in order; "step" among them
    best_epoch: float | None = None  # whose weights were kept; None without early stopping
    valid: Metrics | None = None
    test: Metrics | None = None


class CheckedSubnet(Record):
    """A random subnet of a warmed supernet, with the shared weights."""

    event: Literal["subnet"] = "subnet"
    key: str
    arch: dict[str, Any]
    valid: Metrics


class FinalTest(Record):
    """The winner's look at the test part, made once."""

    event: Literal["test"] = "test"
    key: str
    valid: Metrics = {}
    test: Metrics = {}


class PhaseBegun(Record):
    """A phase that began, for the first time or again after an interruption."""

    event: Literal["begin"] = "begin"
    name: str
    at: float  # seconds since 1970
    earlier: float = 0.0  # seconds of the parts before interruptions


class PhaseDone(Record):
    """A phase that ended; `seconds` counts the parts before interruptions too."""

    event: Literal["phase"] = "phase"
    name: str
    seconds: float
    workers: int = 1


class RandomTrace(Record):
    """NASI: the trace of a random architecture, for nu."""

    event: Literal["random"] = "random"
    index: int
    trace: float


class ModelTraining(Record):
    """One training of a comparison: a tuning trial, as far as one rung if it is in a race, or one seed of the chosen settings."""

    event: Literal["trial", "seed"]
    id: str
    model: str  # its label
    choice: dict[str, Any]
    seed: int
    trial: int | None = None
    rung: int | None = None  # of a race, from 0; a trial has a line for each
    ended: bool = False  # in a race: nothing is left to train
    cut: bool = False  # likewise: ended because the budget was
    params: int | None = None
    macs: int | None = None
    embedding_params: int | None = None
    steps: int | None = None
    train_rows: int = 0
    trained_rows: int = 0  # every pass over a row counted
    train_loss: float | None = None
    best_epoch: float | None = None  # whose weights were kept; None without early stopping
    checks: list[Metrics] = []  # on validation, in order; "step" among them
    valid: Metrics = {}
    test: Metrics = {}
    failed: str | None = None
    seconds: float | None = None
    rows_per_second: float | None = None


class ModelLatency(Record):
    """How fast an untrained network of a comparison answers."""

    event: Literal["latency"] = "latency"
    id: str
    model: str
    p50_ms_1: float
    p99_ms_1: float
    p50_ms_512: float
    p99_ms_512: float

    @property
    def times(self) -> dict[str, float]:
        return self.model_dump(exclude={"event", "id", "model"})


class ArmRun(Record):
    """A search of a contest that ended, and what its winner was read to be worth."""

    event: Literal["arm"] = "arm"
    arm: str
    seed: int
    failed: str | None = None  # why there is no winner
    winner: str = ""  # its name, if it is a known model; else its key
    key: str = ""
    recipe: dict[str, Any] = {}  # what of its training is not as the arm's settings have it
    valid: Metrics = {}
    test: Metrics = {}
    warmup_rows: int = 0  # that trained a supernet
    trained_rows: int = 0  # that trained candidates, every pass counted
    retrained_rows: int = 0  # that trained the winner once more
    cost: dict[str, float] = {}  # of the winner
    latency: dict[str, float] = {}  # likewise, one thread
    seconds: float = 0.0

    @property
    def rows(self) -> int:
        return self.warmup_rows + self.trained_rows + self.retrained_rows


class TwoLayerTraining(Record):
    """A network of SiGeo's experiment 1."""

    event: Literal["network"] = "network"
    seed: int
    width: int
    statistics: list[dict[str, float]]  # after every warm-up
    train_loss: float
    test_loss: float


SearchLine = Annotated[
    Candidate | Trained | Entrant | RungTraining | Versus | FinalTest | PhaseBegun | PhaseDone | RandomTrace,
    Field(discriminator="event"),
]
CompareLine = Annotated[ModelTraining | ModelLatency, Field(discriminator="event")]
_LINES: dict[str, TypeAdapter[Any]] = {
    "search": TypeAdapter(SearchLine),
    "compare": TypeAdapter(CompareLine),
    "train": TypeAdapter(SeedTraining),
    "warmup": TypeAdapter(CheckedSubnet),
    "bench": TypeAdapter(Trained),
    "scores": TypeAdapter(Scored),
    "experiment1": TypeAdapter(TwoLayerTraining),
    "contest": TypeAdapter(ArmRun),
}
KINDS = tuple(_LINES)  # of runs whose lines are records


def read_lines(kind: str, lines: Iterable[Mapping[str, Any]], source: str) -> list[Any]:
    """The records of a run's ledger, in order; `kind` is the run's, `source` its file, for messages."""
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(_LINES[kind].validate_python(dict(line)))
        except ValidationError as error:
            fault = error.errors()[0]
            where = ".".join(str(part) for part in fault["loc"]) or "event"
            raise RunError(
                f"{source} line {number} is not a line of a {kind} run: {where}: {fault['msg'][:80]}.",
                "The run was written by another version of recnas, or changed since. Start a new run directory.",
            ) from None
    return records

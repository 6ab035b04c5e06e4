"""What a tracker is told: of a run its name and settings, then points of curves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from pydantic import model_serializer

from recnas.config import Settings

TrackerName = Literal["tensorboard", "mlflow", "wandb"]


class Point(NamedTuple):
    """One value of one curve."""

    series: str  # such as valid/logloss/seed-0
    step: int
    value: float


@dataclass(frozen=True)
class TrackedRun:
    """A run as trackers see it.

    Args:
        folder: where this tracker keeps the runs of this place; `known` is what it called this run before, if it did.
    """

    name: str
    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)  # by dotted key
    folder: Path = Path()
    known: str | None = None


class Tracker(Protocol):
    """Any of its methods may raise: the run then goes on without it."""

    def begin(self, run: TrackedRun) -> str:
        """Start or continue; what it calls the run, to be given back when the run goes on."""

    def send(self, points: list[Point]) -> None: ...

    def end(self) -> None: ...


class Tracked(Settings):
    """Settings that name trackers: no part of what is asked for, so a run without them is written down as it always was."""

    track: tuple[TrackerName, ...] = ()  # who is told of the run while it is written: tensorboard, mlflow, wandb

    @model_serializer(mode="wrap")
    def _without_nobody(self, write: Any) -> dict[str, Any]:
        values: dict[str, Any] = write(self)
        if not values.get("track"):
            values.pop("track", None)
        return values


def flat(settings: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """{"final": {"rows": 5}} is {"final.rows": 5}."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        found |= flat(value, f"{above}{key}.") if isinstance(value, Mapping) and value else {above + key: value}
    return found

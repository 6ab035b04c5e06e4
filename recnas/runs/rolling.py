"""What searches and comparisons say over the origins of a rolling split: `result.json` of a run of kind `rolling`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from recnas.runs.records import Record
from recnas.runs.results import Spread

ROLLING = "rolling"  # the kind of run
Job = Literal["search", "compare"]


class OriginDifference(Record):
    """A model less the reference on test, over origins: each origin is one pair."""

    mean: float  # log loss; negative favours the model
    interval: tuple[float, float] | None  # 95 %, Student's t over origins; None for a single one
    real: bool  # it does not contain zero
    by_origin: tuple[float, ...]


class RolledModel(Record):
    """One model, or the winners of a search, over the origins: `Spread.values` are by origin, the earliest first."""

    model: str
    test: dict[str, Spread]
    valid: dict[str, Spread]
    difference: OriginDifference | None = None
    winners: tuple[str, ...] = ()  # of a search: the key of each origin's architecture


class RollingResult(Record):
    """Means over origins. What each origin says by itself is in its own run below this one."""

    job: Job
    data: str
    origins: tuple[str, ...]
    reference: str | None = None
    models: tuple[RolledModel, ...]
    failed: dict[str, str] = Field(default_factory=dict)  # models that did not come through in every origin

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json")

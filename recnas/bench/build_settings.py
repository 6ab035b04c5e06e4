"""What `recnas bench build` puts every architecture of a table through."""

from __future__ import annotations

from pydantic import Field, model_validator

from recnas.config import Settings
from recnas.space.settings import SpaceSettings
from recnas.train.settings import OnePass


class BenchSettings(Settings):
    """What every architecture of a table is put through."""

    space: SpaceSettings = SpaceSettings()
    seed: int = Field(0, ge=0)  # of the list of architectures
    rows: int | None = Field(200_000, ge=1)  # training rows; null: all
    eval_rows: int | None = Field(50_000, ge=1)  # of validation and of test; null: all
    rungs: tuple[float, ...] = ()  # shares of a training after which validation is read too, such as [0.0625, 0.25]
    train: OnePass = OnePass()

    @model_validator(mode="after")
    def _rungs_are_those_of_a_race(self) -> BenchSettings:
        if list(self.rungs) != sorted(set(self.rungs)) or not all(0 < share < 1 for share in self.rungs):
            raise ValueError("rungs must be shares of a training, rising and between 0 and 1, such as [0.0625, 0.25]")
        if self.rungs and self.train.schedule == "cosine":
            raise ValueError(
                "rungs are for curves as a race sees them, which has no schedule=cosine (its rate would still be high at "
                "every rung); set train.schedule=constant"
            )
        return self

"""What each searcher can be told. The defaults of `evolution` are the published search of NASRec and SiGeo.

`redraws` bounds the hunt for an architecture that has not been proposed yet; see `recnas.search.base`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from recnas.config import Settings


class EvolutionSettings(Settings):
    """Regularized evolution: 128 + 240 x 8 = 2,048 candidates by default."""

    population: int = Field(128, ge=2)
    generations: int = Field(240, ge=0)
    children: int = Field(8, ge=1, validate_default=True)  # per generation; as many of the oldest leave
    tournament: int = Field(
        64, ge=1, validate_default=True
    )  # drawn per generation; the best of them is the parent
    mutations: Literal["falling"] | int = "falling"  # per child: the published schedule, or a fixed number
    redraws: int = Field(100, ge=0)

    @field_validator("children", "tournament")
    @classmethod
    def _fits_the_population(cls, value: int, info: ValidationInfo) -> int:
        population = info.data.get("population")
        if population is not None and value > population:
            raise ValueError(f"{info.field_name} cannot exceed population, which is {population}")
        return value

    @field_validator("mutations")
    @classmethod
    def _at_least_one(cls, value: str | int) -> str | int:
        if isinstance(value, int) and value < 1:
            raise ValueError("mutations must be 'falling' or a whole number from 1 up")
        return value


class RandomSettings(Settings):
    """Independent draws from the space."""

    candidates: int = Field(2048, ge=1)
    block: int = Field(32, ge=1)  # proposed at a time; the draws do not depend on it
    redraws: int = Field(100, ge=0)


class LocalSettings(Settings):
    """Climbs from the best of a few random starts, from neighbour to neighbour."""

    candidates: int = Field(2048, ge=1)
    starts: int = Field(8, ge=1)  # random architectures per climb, of which the best is the start
    block: int = Field(32, ge=1)  # neighbours scored before the climb moves on
    redraws: int = Field(100, ge=0)


class LimitSettings(Settings):
    """Upper limits every candidate must meet; None means no limit."""

    params: float | None = Field(None, gt=0)  # of the network, embedding tables not counted
    macs: float | None = Field(None, gt=0)  # multiply-adds per row of data
    flops: float | None = Field(None, gt=0)  # two per multiply-add
    embedding_mb: float | None = Field(None, gt=0)
    latency_ms_1: float | None = Field(None, gt=0)  # measured, batch of 1
    latency_ms_512: float | None = Field(None, gt=0)  # measured, batch of 512
    tries: int = Field(2000, ge=1)  # draws before giving up

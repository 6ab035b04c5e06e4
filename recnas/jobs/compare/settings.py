"""`recnas compare CONFIG`."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from recnas.config import Settings
from recnas.devices import Device
from recnas.train.settings import TrainSettings


class CompareConfig(Settings):
    """Which models are compared, and how each is trained."""

    data: str | None = None  # folder of the prepared data
    models: list[str] = Field(["all"], min_length=1)  # hand-crafted models, RUN:best, ARCH.json, or all
    reference: str | None = None  # what the others are compared with; null: the first
    seeds: int = Field(3, ge=1)  # trainings per model
    seed: int = Field(0, ge=0)  # the first of them
    tune: int = Field(0, ge=0)  # tuning trials per model; 0: its defaults
    budget: float | None = Field(
        None, gt=0
    )  # what tuning may train on per model, in times of the training rows, instead of a number of trials
    latency_on: Device = "cpu"  # where latency is measured: where the model will serve; cpu: one thread, cuda: a GPU
    train: TrainSettings = TrainSettings()
    options: dict[str, dict[str, Any]] = Field({})  # by model: its own options, and its lr, dropout, embeddings.l2 ...

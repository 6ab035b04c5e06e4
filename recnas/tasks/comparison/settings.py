"""`recnas compare CONFIG`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from recnas.config import apply_overrides, check_settings
from recnas.devices import known_device
from recnas.searchers.settings import HalvingSettings
from recnas.track.base import Tracked
from recnas.train.settings import TrainSettings

NOWHERE = "none"  # of latency_on
LatencyOn = Annotated[str, AfterValidator(lambda asked: asked if asked == NOWHERE else known_device(asked))]


class CompareConfig(Tracked):
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
    halving: HalvingSettings = HalvingSettings()  # how a budget is spent: a race of each model's recipes
    latency_on: LatencyOn = (
        "cpu"  # where latency is measured: where the model will serve; cpu: one thread, cuda: a GPU; none: nowhere
    )
    train: TrainSettings = TrainSettings()
    options: dict[str, dict[str, Any]] = Field({})  # by model: its own options, and its lr, dropout, embeddings.l2 ...


def compare_config(
    values: dict[str, Any], overrides: Sequence[str], source: str, faults: Sequence[str] = ()
) -> CompareConfig:
    """The settings in `values` with "key=value" overrides; keys that are none of a comparison are of the training."""
    own = [item for item in overrides if item.split("=")[0].split(".")[0] in CompareConfig.model_fields]
    of_training = [item for item in overrides if item not in own]
    of_config = set(values.get("options") or {})
    found = apply_overrides(values, own)
    _leave_out(values, of_config - {item.split("=")[0].split(".")[1] for item in own if item.startswith("options.")})
    training = values.pop("train", None) or {}
    found += apply_overrides(training, of_training)
    settings = check_settings(TrainSettings, training, source, [*found, *faults], of_training)
    return check_settings(CompareConfig, {**values, "train": settings}, source, (), own)


def _leave_out(values: dict[str, Any], of_config: set[str]) -> None:
    """Options that a config has for models which are not compared: a user may choose fewer models than it has."""
    models = values.get("models")
    if isinstance(models, list) and "all" not in models and isinstance(values.get("options"), dict):
        for name in of_config - set(models):
            values["options"].pop(name, None)

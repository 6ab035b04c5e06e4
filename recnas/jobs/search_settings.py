"""Settings of `recnas search`: what a search config may hold."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from recnas.config import Settings
from recnas.jobs.scoring import ScoreSettings
from recnas.jobs.settings import SpaceSettings, WarmupShare
from recnas.search.objective import Objectives
from recnas.search.settings import EvolutionSettings, LimitSettings, LocalSettings, RandomSettings
from recnas.train.settings import TrainSettings

COSTS = ("params", "macs", "flops", "embedding_mb")  # known by arithmetic
LATENCIES = ("latency_ms_1", "latency_ms_512")  # measured
SHARED_LOSS = "valid_logloss"  # of the shared weights with the last layer fine-tuned


class SearchMethod(Settings):
    """Who proposes candidates; only the settings of the chosen method count."""

    method: Literal["evolution", "random", "local"] = "evolution"
    evolution: EvolutionSettings = EvolutionSettings()
    random: RandomSettings = RandomSettings()
    local: LocalSettings = LocalSettings()

    @property
    def chosen(self) -> Settings:
        return getattr(self, self.method)


class OneShotSettings(Settings):
    """`evaluator: one-shot`: validation log loss under the shared weights after fine-tuning the last layer."""

    steps: int = Field(500, ge=0)
    lr: float = Field(0.04, gt=0)
    batch_size: int = Field(512, ge=1)
    valid_rows: int = Field(100_000, ge=1)


class FinalSettings(Settings):
    """What happens to the best candidates."""

    top: int = Field(15, ge=1)  # trained from scratch; validation chooses
    seeds: int = Field(1, ge=1)  # trainings of each
    rows: int | None = Field(None, ge=1)  # training rows of each; null: all
    train: TrainSettings = TrainSettings()
    retrain: Literal["train", "train+valid"] = "train"  # what the winner is trained on before test is read
    retrain_seeds: int = Field(1, ge=1)
    retrain_train: TrainSettings | None = None  # null: as `train`


class SearchConfig(Settings):
    """`recnas search CONFIG`."""

    data: str
    seed: int = Field(0, ge=0)
    space: SpaceSettings = SpaceSettings()
    warmup: WarmupShare = WarmupShare()
    train: TrainSettings = TrainSettings()  # of the supernet
    evaluator: Literal["proxy", "one-shot"] = "proxy"
    score: ScoreSettings = ScoreSettings()
    one_shot: OneShotSettings = OneShotSettings()
    objectives: dict[str, Literal["min", "max"]] = Field(
        default_factory=dict
    )  # empty: the first proxy, in its own direction
    limits: LimitSettings = LimitSettings()
    search: SearchMethod = SearchMethod()
    final: FinalSettings = FinalSettings()

    @model_validator(mode="after")
    def _objectives_can_be_measured(self) -> SearchConfig:
        measured = [SHARED_LOSS] if self.evaluator == "one-shot" else list(self.score.proxies)
        known = [*measured, *COSTS, *LATENCIES]
        unknown = [name for name in self.objectives if name not in known]
        if unknown:
            raise ValueError(
                f"objectives has {', '.join(map(repr, unknown))}; this search knows {', '.join(known)}"
            )
        return self

    def goals(self) -> Objectives:
        if self.objectives:
            return Objectives.of(dict(self.objectives))
        if self.evaluator == "one-shot":
            return Objectives.of({SHARED_LOSS: "min"})
        from recnas.proxies.registry import get_proxies

        (first, *_) = get_proxies(self.score.proxies[:1])
        return Objectives.of({first.name: "max" if first.higher_is_better else "min"})

    def facts(self) -> dict[str, Any]:
        """What must be the same for a run to be continued: everything but the number of threads."""
        return self.model_dump(
            mode="json",
            exclude={
                "train": {"threads", "checkpoint_seconds"},
                "final": {
                    "train": {"threads", "checkpoint_seconds"},
                    "retrain_train": {"threads", "checkpoint_seconds"},
                },
            },
        )

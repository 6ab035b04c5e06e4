"""Settings of `recnas search`: what a search config may hold."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from recnas.config import Settings
from recnas.jobs.scoring import ScoreSettings
from recnas.jobs.settings import SpaceSettings, WarmupShare
from recnas.searchers.objective import Objectives
from recnas.searchers.settings import (
    BohbSettings,
    EvolutionSettings,
    HnasSettings,
    LimitSettings,
    LocalSettings,
    RandomSettings,
    ReinforceSettings,
    TopSettings,
)
from recnas.train.settings import SupernetSettings, TrainSettings

COSTS = ("params", "macs", "flops", "embedding_mb")  # known by arithmetic
LATENCIES = ("latency_ms_1", "latency_ms_512")  # measured
SHARED_LOSS = "valid_logloss"  # of the shared weights with the last layer fine-tuned, or after a short training


class SearchMethod(Settings):
    """Who proposes candidates; only the settings of the chosen method count."""

    method: Literal["evolution", "random", "local", "hnas", "top", "reinforce", "bohb"] = "evolution"
    evolution: EvolutionSettings = EvolutionSettings()
    random: RandomSettings = RandomSettings()
    local: LocalSettings = LocalSettings()
    hnas: HnasSettings = HnasSettings()
    top: TopSettings = TopSettings()
    reinforce: ReinforceSettings = ReinforceSettings()
    bohb: BohbSettings = BohbSettings()

    @property
    def chosen(self) -> Settings:
        return getattr(self, self.method)

    @property
    def unused(self) -> set[str]:
        """Sections that say nothing about a run: it can be continued when they are new or changed."""
        return {"hnas", "top", "reinforce", "bohb"} - {self.method}


class OneShotSettings(Settings):
    """`evaluator: one-shot`: validation log loss under the shared weights after fine-tuning the last layer."""

    steps: int = Field(500, ge=0)
    lr: float = Field(0.04, gt=0)
    batch_size: int = Field(512, ge=1)
    valid_rows: int = Field(100_000, ge=1)


class ShortSettings(Settings):
    """`evaluator: train`: validation log loss of a candidate after a short training from scratch."""

    rows: int | None = Field(100_000, ge=1)  # training rows; null: all
    valid_rows: int | None = Field(None, ge=1)  # null: all
    train: TrainSettings = TrainSettings()


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
    train: SupernetSettings = SupernetSettings()
    evaluator: Literal["proxy", "one-shot", "train"] = "proxy"
    score: ScoreSettings = ScoreSettings()
    one_shot: OneShotSettings = OneShotSettings()
    short: ShortSettings = ShortSettings()
    objectives: dict[str, Literal["min", "max"]] = Field(
        default_factory=dict
    )  # empty: the first proxy, in its own direction
    combine: Literal["pareto", "vote"] = "pareto"  # several objectives: keep compromises, or add up ranks
    limits: LimitSettings = LimitSettings()
    search: SearchMethod = SearchMethod()
    final: FinalSettings = FinalSettings()

    @model_validator(mode="after")
    def _objectives_can_be_measured(self) -> SearchConfig:
        measured = list(self.score.proxies) if self.evaluator == "proxy" else [SHARED_LOSS]
        known = [*measured, *COSTS, *LATENCIES]
        unknown = [name for name in self.objectives if name not in known]
        if unknown:
            raise ValueError(
                f"objectives has {', '.join(map(repr, unknown))}; this search knows {', '.join(known)}; objectives={{}} goes by "
                "the first proxy alone"
            )
        return self

    @model_validator(mode="after")
    def _method_and_evaluator_fit(self) -> SearchConfig:
        if self.search.method in ("hnas", "top") and self.evaluator != "train":
            raise ValueError(f"search.method {self.search.method} ranks a pool by proxies and trains what it chooses: set evaluator: train")
        return self

    @property
    def pool_size(self) -> int:
        """Architectures that a method with a pool draws, and scores, over the whole search; 0 for the others."""
        if self.search.method == "hnas":
            return self.search.hnas.pool * (self.search.hnas.candidates if self.search.hnas.grow else 1)
        return self.search.top.pool if self.search.method == "top" else 0

    def goals(self) -> Objectives:
        if self.objectives:
            return Objectives.of(dict(self.objectives), self.combine)
        if self.evaluator != "proxy":
            return Objectives.of({SHARED_LOSS: "min"})
        from recnas.proxies.registry import get_proxies

        (first, *_) = get_proxies(self.score.proxies[:1])
        return Objectives.of({first.name: "max" if first.higher_is_better else "min"})

    def facts(self) -> dict[str, Any]:
        """What a manifest keeps; sections that say nothing about this run are left out."""
        kept = self.model_dump(mode="json", exclude={"search": self.search.unused})
        if self.evaluator != "train":
            del kept["short"]
        if self.combine == "pareto":  # said by what it leaves out: several objectives without a vote
            del kept["combine"]
        return kept

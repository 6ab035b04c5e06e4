"""Settings of `recnas search`: what the config of each task may hold."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from recnas.bench.nasbench201 import DATASETS
from recnas.config import Settings
from recnas.errors import ConfigError
from recnas.evaluators.base import VALID_ACCURACY, VALID_LOGLOSS
from recnas.evaluators.settings import (
    QueryTraining,
    ScoreSettings,
    SharedWeightsSettings,
    VisionScoreSettings,
)
from recnas.evaluators.unjudged import UNJUDGED
from recnas.searchers.gradient.settings import DartsSettings, NasiSettings
from recnas.searchers.limits import ARITHMETIC, MEASURED
from recnas.searchers.objective import Objectives
from recnas.searchers.registry import AnySearcher
from recnas.searchers.settings import EvolutionSettings, LimitSettings, RaceSettings
from recnas.space.nasbench201 import NAME as NASBENCH201
from recnas.space.networks import cost, vision_space, vision_spaces
from recnas.space.settings import SpaceSettings
from recnas.track.base import Tracked
from recnas.train.images import ImageSource, ImageSplit, ImageTraining
from recnas.train.settings import SupernetSettings, TrainSettings, WarmupShare

Objective = dict[str, Literal["min", "max"]]
_NOT_THE_RESULT = {"threads", "checkpoint_seconds"}


def _check_objectives(objectives: Objective, known: list[str]) -> None:
    unknown = [name for name in objectives if name not in known]
    if unknown:
        raise ValueError(
            f"objectives has {', '.join(map(repr, unknown))}; this search knows {', '.join(known)}; objectives={{}} "
            "goes by the first proxy alone"
        )


def _goals(objectives: Objective, combine: str, proxies: tuple[str, ...] | None, measured: Objective) -> Objectives:
    """What was asked for; else the first proxy in its own direction, or what the evaluator measures."""
    if objectives:
        return Objectives.of(dict(objectives), combine)
    if proxies is None:
        return Objectives.of(dict(measured))
    from recnas.proxies.registry import get_proxies

    (first, *_) = get_proxies(proxies[:1])
    return Objectives.of({first.name: "max" if first.higher_is_better else "min"})


# Clicks


class CtrFinal(Settings):
    """What happens to the best candidates: `candidates` of them are trained, or with `race` many enter a race."""

    candidates: int = Field(15, ge=1)  # trained from scratch; validation chooses
    seeds: int = Field(1, ge=1)  # trainings of each
    rows: int | None = Field(None, ge=1)  # training rows of each; null: all
    train: TrainSettings = TrainSettings()
    race: RaceSettings | None = None  # instead of `candidates` and `seeds`: who is trained how long; null: no race
    retrain_on: Literal["train", "train+valid"] = "train"  # what the winner is trained on before test is read
    retrain_seeds: int = Field(1, ge=1)  # of the winner's last training; the mean is reported
    retrain_settings: TrainSettings | None = None  # null: as `train`

    @property
    def retrains(self) -> bool:
        """Whether the winner is trained once more. That of a race is not, if it was raced as it would be trained."""
        as_raced = self.retrain_settings is None and self.retrain_on == "train" and self.rows is None
        return self.race is None or not as_raced

    @model_validator(mode="after")
    def _rungs_can_be_compared(self) -> CtrFinal:
        if self.race is not None and self.train.schedule == "cosine":
            raise ValueError(
                "race looks at trainings that go on, and under schedule cosine their rate is still high then: set "
                "train.schedule=plateau or constant"
            )
        return self

    @model_validator(mode="after")
    def _validation_is_left_to_stop_by(self) -> CtrFinal:
        if self.retrain_on == "train+valid" and (self.retrain_settings or self.train).stop.patience is not None:
            raise ValueError(
                "with retrain_on train+valid no validation rows are left that say when to stop: set "
                "retrain_settings.epochs, retrain_settings.schedule=cosine and retrain_settings.stop.patience=null"
            )
        return self


class CtrSearchConfig(Tracked):
    """`recnas search CONFIG` on prepared ad logs."""

    task: Literal["ctr"] = "ctr"
    data: str  # folder of the prepared data
    seed: int = Field(0, ge=0)  # of everything that is drawn
    space: SpaceSettings = SpaceSettings()
    warmup: WarmupShare = WarmupShare()
    supernet: SupernetSettings = SupernetSettings()
    evaluator: Literal["proxy", "shared-weights", "training", "none"] = (
        "proxy"  # what candidates are judged by before the finalists are trained; none: they stand in the order drawn
    )
    score: ScoreSettings = ScoreSettings()
    shared_weights: SharedWeightsSettings = SharedWeightsSettings()
    query_training: QueryTraining = QueryTraining()
    objectives: Objective = Field(default_factory=dict)  # empty: the first proxy, in its own direction
    combine: Literal["pareto", "vote"] = "pareto"  # several objectives: keep compromises, or add up ranks
    limits: LimitSettings = LimitSettings()
    search: AnySearcher = EvolutionSettings()
    final: CtrFinal = CtrFinal()

    @model_validator(mode="after")
    def _objectives_can_be_measured(self) -> CtrSearchConfig:
        measured = list(self.score.proxies) if self.evaluator == "proxy" else [self._measured]
        _check_objectives(self.objectives, [*measured, *ARITHMETIC, *MEASURED])
        return self

    @model_validator(mode="after")
    def _proxies_have_batches_enough(self) -> CtrSearchConfig:
        from recnas.proxies.registry import get_proxies

        for proxy in get_proxies(self.score.proxies) if self.evaluator == "proxy" else ():
            if self.score.batches < proxy.min_batches:  # said now, not after the warm-up
                raise ValueError(
                    f"score.batches is {self.score.batches}, and {proxy.name} compares at least {proxy.min_batches}"
                )
        return self

    @property
    def _measured(self) -> str:
        return UNJUDGED if self.evaluator == "none" else VALID_LOGLOSS

    @model_validator(mode="after")
    def _method_and_evaluator_fit(self) -> CtrSearchConfig:
        if self.search.pool_scores and self.evaluator != "training":
            raise ValueError(
                f"search.method {self.search.method} ranks a pool by proxies and trains what it chooses: "
                "set evaluator: training"
            )
        return self

    def goals(self) -> Objectives:
        proxies = self.score.proxies if self.evaluator == "proxy" else None
        return _goals(self.objectives, self.combine, proxies, {self._measured: "min"})

    @property
    def needs_supernet(self) -> bool:
        """Whether anything is scored by shared weights."""
        return self.evaluator in ("proxy", "shared-weights") or bool(self.search.pool_scores)

    def identity(self) -> dict[str, Any]:
        """What must be the same for a run to be continued: everything but where things lie and threads."""
        return self.model_dump(
            mode="json",
            exclude={
                "query_training": {"train": _NOT_THE_RESULT},
                "supernet": _NOT_THE_RESULT,
                "final": {"train": _NOT_THE_RESULT, "retrain_settings": _NOT_THE_RESULT},
            },
        )


# Images


class VisionSpaceSettings(Settings):
    """The space, and the sizes of the networks that are scored and trained."""

    name: str  # of the space
    network: dict[str, Any] = Field(default_factory=dict)  # such as channels and cells; see recnas.space.networks

    @field_validator("name")
    @classmethod
    def _reads_images(cls, value: str) -> str:
        if value not in vision_spaces():
            raise ValueError(f"networks of this space do not read images; choose one of {', '.join(vision_spaces())}")
        return value

    @model_validator(mode="after")
    def _networks_have_these_sizes(self) -> VisionSpaceSettings:
        some = vision_space(self.name).sample(np.random.default_rng(0))
        try:
            cost(self.name, some, **self.network)
        except ConfigError as error:
            raise ValueError(f"network: {error.what}") from None
        return self

    @property
    def space(self) -> SpaceSettings:
        return SpaceSettings(name=self.name)


class ImageFinal(Settings):
    """What happens to the best candidates."""

    candidates: int = Field(3, ge=1)  # trained from scratch; validation chooses
    seeds: int = Field(1, ge=1)  # trainings of each
    train: ImageTraining = ImageTraining(epochs=10)


class ImageSearchConfig(Tracked):
    """`recnas search CONFIG` with a vision space whose networks are trained here."""

    task: Literal["images"] = "images"
    space: VisionSpaceSettings
    seed: int = Field(0, ge=0)  # of everything that is drawn
    images: ImageSource = ImageSource()
    split: ImageSplit = ImageSplit()
    evaluator: Literal["proxy", "training"] = (
        "training"  # what candidates are judged by before the finalists are trained
    )
    score: VisionScoreSettings = VisionScoreSettings()
    query_training: ImageTraining = ImageTraining()
    objectives: Objective = Field(default_factory=dict)  # empty: the validation accuracy, or the first proxy
    combine: Literal["pareto", "vote"] = "pareto"  # several objectives: keep compromises, or add up ranks
    limits: LimitSettings = LimitSettings()
    search: AnySearcher = EvolutionSettings()
    final: ImageFinal = ImageFinal()

    @model_validator(mode="after")
    def _objectives_can_be_measured(self) -> ImageSearchConfig:
        measured = list(self.score.proxies) if self.evaluator == "proxy" else [VALID_ACCURACY]
        _check_objectives(self.objectives, [*measured, "params", "macs", "flops"])
        return self

    def goals(self) -> Objectives:
        proxies = self.score.proxies if self.evaluator == "proxy" else None
        return _goals(self.objectives, self.combine, proxies, {VALID_ACCURACY: "max"})

    def identity(self) -> dict[str, Any]:
        return self.model_dump(mode="json")


# A table


class QuerySettings(Settings):
    """What a search may look at."""

    dataset: str = "cifar10"  # whose validation accuracy is looked up
    epochs: int = 12  # of the training that is looked up
    levels: tuple[int, ...] = ()  # for bohb: lengths of training, short to long; empty: `epochs` alone


class TableFinal(Settings):
    """What is read about the winner."""

    datasets: tuple[str, ...] = DATASETS  # whose test accuracy is reported
    epochs: int = 200  # of the training that is looked up


class TableSpace(Settings):
    name: Literal["nasbench201"]  # of the space


class TableSearchConfig(Tracked):
    """`recnas search CONFIG` on NAS-Bench-201, whose every cell others have trained."""

    task: Literal["table"] = "table"
    space: TableSpace
    table: str | None = None  # nb201.parquet; null: in the folder RECNAS_TABLES names
    scores: str | None = None  # a score table, for methods that rank by training-free scores
    seed: int = Field(0, ge=0)  # of everything that is drawn
    query: QuerySettings = QuerySettings()
    limits: LimitSettings = LimitSettings()
    search: AnySearcher = EvolutionSettings()
    final: TableFinal = TableFinal()

    @model_validator(mode="after")
    def _levels_are_for_bohb(self) -> TableSearchConfig:
        if len(self.query.levels) > 1 and self.search.method != "bohb":
            raise ValueError(
                f"query.levels is for bohb; {self.search.method} looks at one length of training: set query.epochs"
            )
        return self

    def goals(self) -> Objectives:
        return Objectives.of({VALID_ACCURACY: "max"})

    def identity(self) -> dict[str, Any]:
        return self.model_dump(mode="json")


# Gradient searches on a supernet of cells


class SupernetSpace(Settings):
    """The space, and the sizes of its supernet: `channels`, `cells`, `stacks`, or `layers` and `width`."""

    name: str  # of the space
    supernet: dict[str, int] = Field(default_factory=dict)  # sizes; empty: the defaults of the space

    @field_validator("name")
    @classmethod
    def _has_a_supernet(cls, value: str) -> str:
        from recnas.model.supernets.registry import SUPERNETS

        if value not in SUPERNETS:
            raise ValueError(f"there is no supernet of this space; choose one of {', '.join(SUPERNETS)}")
        return value

    @property
    def space(self) -> SpaceSettings:
        """The MLP space is made for a depth and a width; the others are the same for every supernet."""
        return SpaceSettings(name=self.name, **(self.supernet if self.name == "mlp" else {}))


class GradientSearchConfig(Tracked):
    """`recnas search CONFIG` with `search.method: nasi` or `darts`."""

    task: Literal["images"] = "images"
    space: SupernetSpace
    seed: int = Field(0, ge=0)  # of everything that is drawn
    images: ImageSource = ImageSource()
    table: str | None = None  # of nasbench201: nb201.parquet; null: in the folder RECNAS_TABLES names, if it is set
    search: NasiSettings | DartsSettings = Field(discriminator="method")

    def identity(self) -> dict[str, Any]:
        return self.model_dump(mode="json")


# Scoring cells without a search


class CellScoring(VisionScoreSettings):
    """How cells of a table are scored: of which space, on which images."""

    space: SpaceSettings = SpaceSettings(name=NASBENCH201)
    images: ImageSource = ImageSource(rows=640)
    batches: int = Field(2, ge=1)  # of images, the same for every cell
    channels: int | None = Field(16, ge=1)
    cells: int | None = Field(5, ge=1)

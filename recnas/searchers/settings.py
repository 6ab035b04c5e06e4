"""What each searcher can be told. The defaults of `evolution` are the published search of NASRec and SiGeo.

`redraws` bounds the hunt for an architecture that has not been proposed yet; see `recnas.searchers.base`.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, ValidationInfo, field_validator, model_serializer

from recnas.config import Settings
from recnas.devices import Device


class SearcherSettings(Settings):
    """What every searcher can be told; `method` is its name."""

    method: str
    redraws: int = Field(100, ge=0)  # draws in search of an architecture that was not proposed before
    seeds: tuple[str, ...] = ()  # to begin with: zoo, published, one of either, ARCH.json, RUN:best; cells

    @property
    def proposals(self) -> int:
        """How many candidates the whole search proposes."""
        return int(self.candidates)  # type: ignore[attr-defined]  # all but evolution count them

    @property
    def pool_scores(self) -> tuple[str, ...]:
        """Names of the scores a pool is ranked by; nothing for searchers without one."""
        return ()

    @property
    def pool_size(self) -> int:
        """Architectures that a method with a pool draws, and scores, over the whole search."""
        return 0

    @property
    def room(self) -> tuple[int, str]:
        """How many seeds there can be, and the setting that says so."""
        return self.proposals, "candidates"


class EvolutionSettings(SearcherSettings):
    """Regularized evolution: 128 + 240 x 8 = 2,048 candidates by default."""

    method: Literal["evolution"] = "evolution"
    population: int = Field(128, ge=2)  # living architectures; as many random ones come first
    generations: int = Field(240, ge=0)  # after the random ones
    children: int = Field(8, ge=1, validate_default=True)  # per generation; as many of the oldest leave
    tournament: int = Field(64, ge=1, validate_default=True)  # drawn per generation; the best of them is the parent
    mutations: Literal["falling"] | int = "falling"  # per child: the published schedule, or a fixed number

    @property
    def proposals(self) -> int:
        return self.population + self.generations * self.children

    @property
    def room(self) -> tuple[int, str]:
        return self.population, "population"

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


class RandomSettings(SearcherSettings):
    """Independent draws from the space."""

    method: Literal["random"] = "random"
    candidates: int = Field(2048, ge=1)  # proposed in all
    block: int = Field(32, ge=1)  # proposed at a time; the draws do not depend on it


class LocalSettings(SearcherSettings):
    """Climbs from the best of a few random starts, from neighbour to neighbour."""

    method: Literal["local"] = "local"
    candidates: int = Field(2048, ge=1)  # proposed in all
    starts: int = Field(8, ge=1)  # random architectures per climb, of which the best is the start
    block: int = Field(32, ge=1)  # neighbours scored before the climb moves on


class HnasSettings(SearcherSettings):
    """The hybrid search: 20 queries, 2,000 fresh architectures in the pool before each, as published for NAS-Bench-201."""

    method: Literal["hnas"] = "hnas"
    candidates: int = Field(20, ge=1)  # queries: architectures that are trained
    metric: str = "ntk_trace"  # M: positive, and high for good networks
    kappa: str | None = "ntk_cond"  # null: 1 for every network
    reading: Literal["paper", "released"] = "paper"  # of the bound: the paper's equation 7, or the released code's
    power: float = Field(1.0, gt=0)  # t of F(x) = x^(2 t); the paper's reading only
    units: Literal["pool", "raw"] = "pool"  # M and kappa over their medians; the released reading is always raw
    pool: int = Field(2000, ge=1)  # architectures drawn at a time
    grow: bool = True  # draw before every query, or once
    log_mu: tuple[float, float] = (-4.0, 0.0)  # range of log10 of the weight mu that is tried
    nu_quantile: float = Field(1.0, gt=0, le=1)  # of the pool's M, the highest root of nu; 1 is the largest
    nu_top: float | None = Field(None, gt=0)  # the same as a number; the released code has 5000
    probe_share: float = Field(0.25, ge=0, le=1)  # of the queries, before Bayesian optimisation begins
    acquisition: Literal["ei", "ucb"] = (
        "ei"  # of Bayesian optimisation: expected improvement, or upper confidence bound
    )

    @property
    def pool_scores(self) -> tuple[str, ...]:
        return (self.metric, *([self.kappa] if self.kappa else []))

    @property
    def pool_size(self) -> int:
        return self.pool * (self.candidates if self.grow else 1)

    @property
    def room(self) -> tuple[int, str]:
        return self.pool, "pool"

    @field_validator("log_mu")
    @classmethod
    def _a_range(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not value[0] < value[1]:
            raise ValueError("log_mu must be two numbers, the lower one first")
        return value


class RankPoolSettings(SearcherSettings):
    """The best of a random pool by training-free scores."""

    method: Literal["rank-pool"] = "rank-pool"
    candidates: int = Field(20, ge=1)  # trained; validation chooses
    by: dict[str, Literal["min", "max"]] = Field(default={"naswot": "max"}, min_length=1)  # joined by rank sum
    pool: int = Field(1000, ge=1)  # architectures drawn and scored

    @property
    def pool_scores(self) -> tuple[str, ...]:
        return tuple(self.by)

    @property
    def pool_size(self) -> int:
        return self.pool

    @property
    def room(self) -> tuple[int, str]:
        return self.pool, "pool"


class ReinforceSettings(SearcherSettings):
    """Policy gradient over independent choices."""

    method: Literal["reinforce"] = "reinforce"
    candidates: int = Field(2048, ge=1)  # proposed in all
    block: int = Field(1, ge=1)  # drawn from one policy before it learns
    lr: float = Field(0.2, gt=0)  # learning rate of the policy
    momentum: float = Field(0.9, ge=0, lt=1)  # of the baseline and of the spread of rewards


class BohbSettings(SearcherSettings):
    """Hyperband with a density model; the model's defaults are BOHB's."""

    method: Literal["bohb"] = "bohb"
    candidates: int = Field(2048, ge=1)  # looks in all, at whatever level
    eta: int = Field(3, ge=2)  # one of so many goes on to the next level
    block: int = Field(4, ge=1)  # proposed at a time where there is one level
    random_share: float = Field(1 / 3, ge=0, le=1)  # of the proposals, drawn without the model
    good_share: float = Field(0.15, gt=0, lt=1)  # of what was evaluated, modelled as good
    least_points: int | None = Field(None, ge=1)  # on each side of the model; null: decisions + 1
    draws: int = Field(64, ge=1)  # from the good density, of which the best ratio is kept
    smoothing: float = Field(1.0, gt=0)  # added to the count of every option


class OptunaSettings(SearcherSettings):
    """A sampler of Optuna, in spaces whose architectures are a row of independent choices."""

    method: Literal["optuna"] = "optuna"
    candidates: int = Field(500, ge=1)  # proposed in all
    sampler: Literal["tpe", "nsga2", "nsga3", "qmc", "random"] = "tpe"  # of optuna.samplers
    options: dict[str, Any] = Field(default_factory=dict)  # of the sampler, such as {multivariate: true}
    block: int = Field(4, ge=1)  # proposed at a time, before the first of them is told


USUAL_PASSES = 5.0  # best after three, on generated and real rows, and two more that show it


class HalvingSettings(Settings):
    """Many short trainings first, of which the best go on: successive halving."""

    rungs: tuple[float, ...] = (0.25, 0.75, 2.25)  # passes after which the best go on; then comes a training's end
    eta: int = Field(3, ge=2)  # one of so many goes on to the next rung
    usual_passes: float = Field(
        USUAL_PASSES, gt=0
    )  # that a training to its end is reckoned with: until its best, and until validation ends it

    @field_validator("rungs")
    @classmethod
    def _rising(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if not value or list(value) != sorted(set(value)) or value[0] <= 0:
            raise ValueError("rungs must be passes over the training rows, rising, such as [0.25, 1]")
        return value


class RaceSettings(HalvingSettings):
    """Successive halving over architectures and recipes."""

    budget: float = Field(60.0, gt=0)  # of all its trainings together, in passes over the training rows
    brackets: int = Field(2, ge=1)  # races one after the other, each with a share of the budget
    recipes: int = Field(2, ge=1)  # most recipes an architecture enters with; the first is final.train as it is
    later: tuple[Literal["ranker", "untrained", "mutation", "recipe"], ...] = Field(
        ("ranker", "mutation", "recipe"), min_length=1
    )  # who enters further brackets, in turns: untrained ones by the ranker or as they stand, mutations and recipes of the leaders
    relatives: int = Field(2, ge=1)  # most searched ones of a bracket that descend from the same candidate
    seeds: int = Field(1, ge=1)  # trainings of each that is trained to its end; their mean decides


class LimitSettings(Settings):
    """Upper limits every candidate must meet; None means no limit."""

    params: float | None = Field(None, gt=0)  # of the network, embedding tables not counted
    macs: float | None = Field(None, gt=0)  # multiply-adds per row of data
    flops: float | None = Field(None, gt=0)  # two per multiply-add
    embedding_mb: float | None = Field(None, gt=0)  # of the embedding tables
    latency_ms_1: float | None = Field(None, gt=0)  # measured, batch of 1
    latency_ms_512: float | None = Field(None, gt=0)  # measured, batch of 512
    latency_on: Device = "cpu"  # where latency is measured: where the model will serve; cpu: one thread, cuda: a GPU
    tries: int = Field(2000, ge=1)  # draws before giving up

    @model_serializer(mode="wrap")
    def _as_before_where_nothing_is_said(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Runs that were begun without this setting go on."""
        found: dict[str, Any] = handler(self)
        if found.get("latency_on") == "cpu":
            del found["latency_on"]
        return found

"""Clicks: NASRec-like spaces on prepared ad logs.

RUN/warmup/         the warmed supernet, as `recnas warmup` leaves it
RUN/finalists/      checkpoints of finalists while they are trained
RUN/race/           likewise, of a race
RUN/winner/         the winner's training: weights, curve, metrics
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recnas.bench.decidable import decidable
from recnas.data.prepared import PreparedData
from recnas.data.quality import warn_of_data
from recnas.engines.base import Work
from recnas.engines.execution import Execution
from recnas.evaluators.pool_scores import ROOT, ScoredPool
from recnas.evaluators.proxy import ProxyEvaluator, freeze
from recnas.evaluators.settings import ScoreSettings
from recnas.evaluators.shared_weights import SharedWeightsEvaluator
from recnas.evaluators.training import TrainingEvaluator, TrainWork
from recnas.evaluators.unjudged import Unjudged
from recnas.model.nasrec.subnet import Subnet
from recnas.progress import Progress
from recnas.runs.folder import RunDir
from recnas.runs.identity import data_facts
from recnas.runs.records import Metrics
from recnas.space.nasrec.arch import NasrecArch
from recnas.space.nasrec.cost import count
from recnas.space.settings import make_ctr_space
from recnas.tasks.base import FINALISTS, SEARCH, WARMUP, WINNER, Final, Metric, Task
from recnas.tasks.racing import Racing
from recnas.tasks.seeds import seeds_of
from recnas.tasks.settings import CtrSearchConfig
from recnas.train.latency import latency_ms, latency_percentiles
from recnas.train.settings import CheckSettings, TrainSettings, WarmupConfig
from recnas.train.setup import check_stopping, net_shape
from recnas.train.standalone import train
from recnas.train.warmup import load_warmed, warmup


class CtrTask(Task):
    """`recnas search` on clicks."""

    name = "ctr"
    metric = Metric("logloss", "min")
    phases = (WARMUP, SEARCH, FINALISTS, WINNER)

    def __init__(self, config: CtrSearchConfig) -> None:
        self.config = config
        self.data = PreparedData.open(config.data)
        self.space = make_ctr_space(config.space, self.data.schema.n_sparse)
        self.objectives = config.goals()
        self.seed, self.searcher, self.limits = config.seed, config.search, config.limits
        self.threads = config.supernet.threads
        self.finalists, self.finalist_seeds = config.final.candidates, config.final.seeds

        train = config.final.train
        self.seeds = seeds_of(self.searcher, self.space, self.data.schema, train.embeddings.width, self.cost)
        if config.final.race is not None:
            self.racing = Racing(config, config.final.race, self.data)
        for settings, _ in self._watched():  # now, not when the first finalist is trained
            check_stopping(settings, self.data, Progress(quiet=True))

    def _watched(self) -> list[tuple[TrainSettings, int | None]]:
        """Settings of trainings that may look at validation, with their training rows."""
        final, query = self.config.final, self.config.query_training
        found = [(final.train, final.rows)]
        if self.config.evaluator == "training":
            found.append((query.train, query.rows))
        if final.retrain_settings is not None and final.retrain_on == "train":
            found.append((final.retrain_settings, None))
        return found

    def sources(self, out: Path | str) -> dict[str, Any]:
        race = {} if self.racing is None else {"race_rows": self.racing.course.budget}
        shown = {split: one.model_dump() for split, one in decidable(self.data).items()}
        return {"data": data_facts(self.data.path, self.data.fingerprint, out), "decidable": shown, **race}

    @property
    def proxies(self) -> tuple[str, ...]:
        return self.config.score.proxies if self.config.evaluator == "proxy" else ()

    @property
    def fingerprint(self) -> str:
        return self.data.fingerprint

    def cost(self, arch: NasrecArch) -> Mapping[str, float]:
        settings = self.config.final.train
        cost = count(arch, self.data.schema, width=settings.embeddings.width, layernorm=settings.layernorm)
        return {
            "params": cost.params,
            "macs": cost.macs,
            "flops": 2 * cost.macs,
            "embedding_mb": cost.embedding_bytes / 1e6,
        }

    def measure(self, arch: NasrecArch) -> Mapping[str, float]:
        return latency_ms(*self._timed(arch), on=self.limits.latency_on)

    def latency(self, arch: NasrecArch) -> Mapping[str, float]:
        """As comparisons measure it."""
        return latency_percentiles(*self._timed(arch), on=self.limits.latency_on)

    def _timed(self, arch: NasrecArch) -> tuple[Subnet, int, int, int]:
        shape = net_shape(self.data.schema, self.config.final.train)
        return Subnet(arch, shape), shape.n_dense, shape.n_sparse, arch.table_width(shape.width, shape.labels)

    def devices(self) -> Mapping[str, str]:
        config = self.config
        found = {"supernet.device": config.supernet.device} if config.needs_supernet else {}
        if config.evaluator == "training":
            found["query_training.train.device"] = config.query_training.train.device
        elif config.evaluator == "proxy":
            found["score.device"] = config.score.device
        if config.final.retrain_settings is not None:
            found["final.retrain_settings.device"] = config.final.retrain_settings.device
        return found | {"final.train.device": config.final.train.device, "limits.latency_on": self.limits.latency_on}

    def warn(self, how: Execution) -> None:
        warn_of_data(self.data, how.progress)
        for settings, rows in self._watched():
            check_stopping(settings, self.data, how.progress, rows)

    def prepare(self, run: RunDir, how: Execution) -> None:
        folder = run.path / WARMUP
        if self.config.needs_supernet and not (folder / "result.json").exists():
            warmup(self._warmup_config(how.threads), folder, how.progress)

    def _warmup_config(self, threads: int | None = None) -> WarmupConfig:
        config = self.config
        return WarmupConfig(
            data=config.data,
            seed=config.seed,
            space=config.space,
            warmup=config.warmup,
            supernet=config.supernet.model_copy(update={"threads": threads}),
            check=CheckSettings(archs=0),
        )

    def evaluator(self, run: RunDir) -> Work:
        config = self.config
        if config.evaluator == "none":
            return Unjudged()
        if config.evaluator == "training":
            query, queries = config.query_training, str(run.path / "queries")
            work = TrainWork(config.data, config.space, query.train, query.rows, query.valid_rows, ("valid",), queries)
            return TrainingEvaluator(work, config.seed)
        if config.evaluator == "shared-weights":
            folder = run.path / WARMUP
            supernet, embeddings, _, _ = load_warmed(folder, self._warmup_config())
            frozen = SharedWeightsEvaluator.freeze(
                folder / "frozen", supernet, embeddings, {"data": self.data.fingerprint}
            )
            return SharedWeightsEvaluator(
                str(frozen), config.data, config.space, config.supernet, config.shared_weights, config.seed
            )
        return self._by_proxies(run, config.score)

    def _by_proxies(self, run: RunDir, settings: ScoreSettings) -> ProxyEvaluator:
        folder = run.path / WARMUP
        supernet, embeddings, _, _ = load_warmed(folder, self._warmup_config())
        made_from = {
            "data": self.data.fingerprint,
            "supernet": supernet.describe(),
            "warmup": self._warmup_config().model_dump(mode="json"),
        }
        frozen = freeze(folder / "frozen", supernet, embeddings, self.data, settings, made_from)
        warmed = self.config.warmup.data_share > 0
        return ProxyEvaluator(str(frozen), self.config.space, supernet.shape, settings, warmed)

    def pool_scores(self, run: RunDir, how: Execution) -> ScoredPool | None:
        names = tuple(dict.fromkeys(name.removesuffix(ROOT) for name in self.searcher.pool_scores))
        if not names:
            return None
        work = self._by_proxies(run, self.config.score.with_proxies(names))
        return ScoredPool(self.space, work, how, run.path / "pool.jsonl")

    def finalist_work(self, run: RunDir) -> TrainWork:
        final, folder = self.config.final, str(run.path / FINALISTS)
        return TrainWork(self.config.data, self.config.space, final.train, final.rows, None, ("valid",), folder)

    def finish(self, arch: NasrecArch, run: RunDir, how: Execution) -> Final:
        final = self.config.final
        result = train(
            arch,
            self.data,
            run.path / WINNER,
            (final.retrain_settings or final.train).model_copy(update={"threads": how.threads}),
            final.retrain_seeds,
            self.seed,
            how.progress,
            on=final.retrain_on,
        )
        test: Metrics = {name: spread.mean for name, spread in result.test.items()}
        return Final(test, result.test["logloss"].std)

    def budget(self, scored: int, trained: int, candidates: list[Any]) -> dict[str, float]:
        return {"warmup_share": self.config.warmup.data_share}

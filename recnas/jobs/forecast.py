"""What a search will need, before it starts: memory and minutes per phase, by arithmetic and one probe.

Time is multiply-adds divided by what this machine's matrix product reaches, times a factor per phase that
was measured on the 2-core machine recnas is developed on (memory traffic, small operators, Python). It is a
forecast: half or twice is possible, an order of magnitude is not.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import numpy as np
import torch

from recnas.data.prepared import PreparedData
from recnas.errors import ConfigError
from recnas.jobs.scoring import ScoreSettings
from recnas.jobs.search_settings import SearchConfig
from recnas.jobs.settings import make_space
from recnas.machine import available_cores, available_memory
from recnas.progress import human_bytes
from recnas.proxies.gradients import GradientMoments
from recnas.proxies.gram import ExactNtk, Gram
from recnas.proxies.registry import get_proxies
from recnas.searchers.registry import planned
from recnas.space.nasrec.cost import count
from recnas.threads import one_thread
from recnas.train.paths import PathSampler

SAMPLES = 64  # architectures whose mean cost stands for a candidate's
PASSES = 3  # forward, and the two products of backward
# Seconds that pass for each second of pure matrix products, all cores busy.
OVERHEAD = {"warmup": 2.2, "search": 2.0, "train": 2.6}
GRAM_ROWS = 128  # a Gram matrix of a batch of so many costs about one more pass of it; measured at 256 and 512
LIBRARIES = 350e6  # bytes of a process that has loaded torch and does nothing


@dataclass(frozen=True)
class Phase:
    name: str
    minutes: float
    bytes: float  # at its peak, all processes together
    what: str


@dataclass(frozen=True)
class Forecast:
    phases: tuple[Phase, ...]
    available_bytes: float
    workers: int
    gflops: float  # of one core, measured just now

    @property
    def minutes(self) -> float:
        return sum(phase.minutes for phase in self.phases)

    @property
    def peak_bytes(self) -> float:
        return max(phase.bytes for phase in self.phases)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "minutes": self.minutes, "peak_bytes": self.peak_bytes}


def forecast(config: SearchConfig, workers: int, data: PreparedData | None = None) -> Forecast:
    """Minutes and memory of each phase of `recnas search` with these settings on this machine."""
    data = data or PreparedData.open(config.data)
    schema, space = data.schema, make_space(config.space)
    rng = np.random.default_rng([config.seed, 99])
    candidates = [
        count(space.sample(rng), schema, width=config.train.embeddings.width) for _ in range(SAMPLES)
    ]
    mean_macs, mean_params = fmean(c.macs for c in candidates), fmean(c.params for c in candidates)
    full = count(space.full_path(), schema, width=config.train.embeddings.width)
    train_rows = data.rows("train")
    cap = config.train.embeddings.cap or config.train.embeddings.hash_rows
    rows_of_tables = sum(min(n, cap) if cap else n for n in schema.table_rows)
    tables = 4.0 * config.train.embeddings.width * rows_of_tables
    core = probe()
    cores = min(workers, available_cores())

    def minutes(row_passes: float, macs: float, phase: str) -> float:
        return row_passes * macs * 2 * PASSES / (core * 1e9 * cores) * OVERHEAD[phase] / 60

    warm_rows = config.warmup.share * train_rows * config.train.epochs
    sampler = PathSampler(space, config.seed, 100, config.warmup.strategy, config.warmup.full_path_share)
    full_share = fmean(sampler.full_probability(step) for step in range(100))
    warm_macs = full_share * full.macs + (1 - full_share) * mean_macs
    total = planned(config.search.chosen)
    scored_rows = total * batches_of(config.score) * config.score.batch_size
    if config.evaluator == "one-shot":
        one = config.one_shot
        scored_rows = (
            total * (one.steps * one.batch_size + min(one.valid_rows, data.rows("valid"))) / PASSES
        )
    if config.evaluator == "train":
        short = config.short
        scored_rows = float(config.pool_size * config.score.batches * config.score.batch_size)
        scored_rows += total * (min(short.rows, train_rows) if short.rows else train_rows) * short.train.epochs
    final = config.final
    final_rows = (
        (min(final.rows, train_rows) if final.rows else train_rows)
        * final.train.epochs
        * final.top
        * final.seeds
    )
    best = final.retrain_train or final.train
    best_rows = train_rows * best.epochs * final.retrain_seeds

    supernet = 4.0 * full.params
    step = (
        config.train.batch_size * 4.0 * full.macs / 50
    )  # activations of a full path; fitted to measured peaks
    one_worker = LIBRARIES + 12.0 * mean_params * 4 + config.score.batch_size * 4.0 * mean_macs / 50
    one_training = LIBRARIES + 16.0 * mean_params + 2 * tables
    if config.evaluator == "train":
        one_worker = max(one_worker, one_training)
    phases = (
        Phase(
            "warm up",
            minutes(warm_rows, warm_macs, "warmup"),
            LIBRARIES + 3 * supernet + 2 * tables + step,
            f"{warm_rows:,.0f} rows",
        ),
        Phase(
            "search",
            minutes(scored_rows, mean_macs, "search"),
            LIBRARIES + supernet + workers * one_worker,
            f"{total:,} candidates",
        ),
        Phase(
            "train the best",
            minutes(final_rows, mean_macs, "train"),
            LIBRARIES + workers * one_training,
            f"{final.top * final.seeds} trainings",
        ),
        Phase(
            "retrain",
            minutes(best_rows, mean_macs, "train"),
            one_training,
            f"{final.retrain_seeds} training(s) of the winner",
        ),
    )
    return Forecast(phases, available_memory(), workers, core)


def batches_of(settings: ScoreSettings) -> float:
    """What scoring one candidate costs, in batches that are passed forward and backward."""
    proxies = get_proxies(settings.proxies)
    needs = {kind for proxy in proxies for kind in proxy.needs}
    found = float(settings.batches) if GradientMoments in needs else 0.0
    found += bool(needs - {GradientMoments})  # one recorded pass over the first batch
    found += sum(not proxy.needs for proxy in proxies)  # passes of their own
    if any(issubclass(kind, Gram) for kind in needs - {ExactNtk}):
        found += settings.batch_size / GRAM_ROWS
    return found + (settings.batch_size if ExactNtk in needs else 0)  # one backward pass per example


def check_fits(found: Forecast) -> None:
    """Refuse a search that this machine's memory cannot hold."""
    worst = max(found.phases, key=lambda phase: phase.bytes)
    if worst.bytes > found.available_bytes:
        raise ConfigError(
            f"the phase '{worst.name}' needs about {human_bytes(worst.bytes)} of memory; {human_bytes(found.available_bytes)} are available.",
            "Use fewer --workers, cap the tables (train.embeddings.cap=100000 final.train.embeddings.cap=100000), "
            "or space.name=nasrec-small. The parts: recnas forecast CONFIG",
        )


def probe() -> float:
    """GFLOP/s of one core: best of a few `[512, 1024] @ [1024, 1024]`."""
    a, b = torch.ones(512, 1024), torch.ones(1024, 1024)
    best = float("inf")
    with one_thread():
        for _ in range(8):
            started = time.perf_counter()
            a @ b
            best = min(best, time.perf_counter() - started)
    return 2 * 512 * 1024 * 1024 / best / 1e9

"""What a search will need, before it starts: memory and minutes per phase, by arithmetic and one probe.

A step of training costs its multiply-adds, at what this machine's matrix product reaches, and the update of every
parameter, which is what counts in small batches. The factors were measured on the 2-core machine recnas is developed
on. It is a forecast for a machine that does nothing else: half or twice is possible, an order of magnitude is not. What
it cannot know: how large the networks are that the search will prefer (it takes the mean of the space), and what
other programs will do meanwhile.

On a GPU the multiply-adds are divided by a share of what its clock and cores could do, every step costs the launch of
its kernels, and workers that share a GPU wait for each other. Those factors are guesses: no GPU was at hand. Its
memory is arithmetic like the host's.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

import torch

from recnas.bench.decidable import decidable
from recnas.data.prepared import PreparedData
from recnas.devices import Gpu, gpus, needs_device
from recnas.errors import ConfigError
from recnas.machine import available_cores, available_memory, default_threads, load_average
from recnas.progress import human_bytes
from recnas.proxies.engine import passes_of
from recnas.proxies.registry import get_proxies
from recnas.runs.results import Decidable
from recnas.searchers.settings import USUAL_PASSES
from recnas.seeds import stream
from recnas.space.nasrec.cost import count
from recnas.space.nasrec.sampling import ANY_PATH
from recnas.space.settings import make_ctr_space
from recnas.tasks.settings import CtrSearchConfig
from recnas.threads import one_thread
from recnas.train.paths import PathSampler
from recnas.train.settings import TrainSettings

SAMPLES = 64  # architectures whose mean cost stands for a candidate's
PASSES = 3  # forward, and the two products of backward
# Seconds of one core for each second of pure matrix products, in training and in scoring.
TRAIN_FACTOR, SCORE_FACTOR = 1.4, 1.43
PARAM_SECONDS = 3.5e-9  # of a step, for each parameter: gradient, clipping, optimizer
STEP_SECONDS = 1e-3  # of a step whatever its size
BUSY = 1.4  # all cores at once share caches and memory: each is slower by so much
START_SECONDS = 3.0  # until a worker process has loaded torch and opened its work
LIBRARIES = 350e6  # bytes of a process that has loaded torch and does nothing
GPU_SHARE = 0.2  # of a GPU's arithmetic that small networks reach
GPU_STEP_SECONDS = 8e-3  # of a step or a scored batch whatever its size: some hundred kernels
GPU_LIBRARIES = 500e6  # bytes of a GPU for every process that uses it


@dataclass(frozen=True)
class Phase:
    name: str
    minutes: float
    bytes: float  # at its peak, all processes together
    what: str
    gpu_bytes: float = 0.0  # of one GPU at its peak, all processes that share it together


@dataclass(frozen=True)
class Forecast:
    phases: tuple[Phase, ...]
    available_bytes: float
    workers: int
    gflops: float  # of one core, measured just now
    cores: int = 1
    load: float | None = None  # processes that want a core just now, ours not yet among them
    decidable: dict[str, Decidable] = field(default_factory=dict)  # by split: which differences the rows can show
    gpu: Gpu | None = None  # what computes, if it is one; the slowest and smallest of several
    gpus: int = 0

    @property
    def minutes(self) -> float:
        return sum(phase.minutes for phase in self.phases)

    @property
    def peak_bytes(self) -> float:
        return max(phase.bytes for phase in self.phases)

    def to_dict(self) -> dict[str, Any]:
        shown = {split: one.model_dump() for split, one in self.decidable.items()}
        return {**asdict(self), "decidable": shown, "minutes": self.minutes, "peak_bytes": self.peak_bytes}


def forecast(
    config: CtrSearchConfig, workers: int, data: PreparedData | None = None, found: list[Gpu] | None = None
) -> Forecast:
    """Minutes and memory of each phase of `recnas search` with these settings on this machine.

    Args:
        found: the GPUs to reckon with; None: those that are here.
    """
    found = gpus() if found is None else found
    if not found or not any(map(needs_device, _devices(config))):
        gpu, found = None, []
    else:
        gpu = Gpu(found[0].name, *(min(getattr(one, what) for one in found) for what in ("memory", "free", "gflops")))
    data = data or PreparedData.open(config.data)
    schema, space = data.schema, make_ctr_space(config.space, data.schema.n_sparse)
    rng = stream(config.seed, "forecast")
    candidates = [count(space.sample(rng), schema, width=config.supernet.embeddings.width) for _ in range(SAMPLES)]
    mean_macs, mean_params = fmean(c.macs for c in candidates), fmean(c.params for c in candidates)
    width = config.supernet.embeddings.width
    full = count(space.full_path(), schema, width=width)  # what the supernet holds
    early = [full]
    if not space.trains_full_path:
        early = [count(space.sample_path(rng, ANY_PATH), schema, width=width) for _ in range(SAMPLES)]
    early_macs, early_params = fmean(c.macs for c in early), fmean(c.params for c in early)
    train_rows = data.rows("train")
    cap = config.supernet.embeddings.cap or config.supernet.embeddings.hash_rows
    rows_of_tables = sum(min(n, cap) if cap else n for n in schema.table_rows)
    further = (space.table_width(1) > 1) * (schema.n_labels - 1)  # first-order weights of all labels but one
    tables = 4.0 * (space.table_width(width) + further) * rows_of_tables
    cpu = probe()
    core, cores = cpu * 1e9, min(workers, available_cores())
    step_seconds, each_param = STEP_SECONDS, PARAM_SECONDS
    if gpu is not None:
        core, cores = gpu.gflops * 1e9 * GPU_SHARE, min(workers, len(found))
        step_seconds, each_param = GPU_STEP_SECONDS, 0.0
    threads = config.supernet.threads or default_threads()

    def training(rows: float, batch: int, macs: float, params: float, judged: float = 0.0) -> float:
        """Seconds of one core: `rows` trained on in batches, `judged` rows only read."""
        products = (rows + judged / PASSES) * macs * 2 * PASSES / core * TRAIN_FACTOR
        return products + math.ceil(rows / batch) * (step_seconds + params * each_param)

    several = (cores if gpu is None else workers) > 1

    def together(seconds: float, items: int) -> float:
        """Of so many items of one core each: in rounds, as many at a time as there are cores."""
        if items == 0:
            return 0.0
        start, slower = (START_SECONDS, BUSY if gpu is None else 1.0) if several else (0.0, 1.0)
        return start + seconds * math.ceil(items / cores) * slower

    def threaded(seconds: float) -> float:
        return seconds / (math.sqrt(threads) if gpu is None else 1.0)  # small operators gain little from more threads

    warm_rows = config.warmup.data_share * train_rows * config.supernet.epochs * config.needs_supernet
    sampler = PathSampler(space, config.seed, 100, config.warmup.strategy, config.warmup.full_path_share)
    full_share = fmean(sampler.full_probability(step) for step in range(100))
    warm_macs = full_share * early_macs + (1 - full_share) * mean_macs
    warm_params = full_share * early_params + (1 - full_share) * mean_params
    warm_batch = config.warmup.batch_size(round(config.warmup.data_share * train_rows), config.supernet.batch_size)
    total = config.search.proposals
    passes = passes_of(get_proxies(config.score.proxies), config.score.batches, config.score.batch_size)
    one_score = passes * config.score.batch_size * mean_macs * 2 * PASSES / core * SCORE_FACTOR
    one_score += passes * GPU_STEP_SECONDS if gpu is not None else 0.0
    if config.evaluator == "shared-weights":
        one = config.shared_weights
        read = one.steps * one.batch_size + min(one.valid_rows, data.rows("valid"))  # forward, but for the head
        one_score = read * mean_macs * 2 / core * SCORE_FACTOR
    searching = 0.0 if config.evaluator == "none" else together(one_score, total)
    if config.evaluator == "training":
        query = config.query_training
        rows = (min(query.rows, train_rows) if query.rows else train_rows) * _passes(query.train)
        judged = min(query.valid_rows or data.rows("valid"), data.rows("valid"))
        pool_passes = config.score.batches * config.score.batch_size
        searching = together(pool_passes * mean_macs * 2 * PASSES / core * SCORE_FACTOR, config.search.pool_size)
        searching += together(training(rows, query.train.batch_size, mean_macs, mean_params, judged), total)
    final = config.final
    final_rows = (min(final.rows, train_rows) if final.rows else train_rows) * _passes(final.train)
    one_final = training(final_rows, final.train.batch_size, mean_macs, mean_params, data.rows("valid"))
    finalists = together(one_final, final.candidates * final.seeds)
    what = f"{final.candidates * final.seeds} trainings{_passes_noted(final.train)}"
    if final.race is not None:
        # Its budget, in trainings of many lengths that keep all cores busy; each looks at validation about twice a pass.
        raced, looks = final.race.budget * min(final.rows or train_rows, train_rows), 2 * final.race.budget
        all_of_it = training(raced, final.train.batch_size, mean_macs, mean_params, looks * data.rows("valid"))
        finalists = all_of_it / cores * (BUSY if cores > 1 and gpu is None else 1.0)
        what = f"a race of {raced:,.0f} rows"
    best = final.retrain_settings or final.train
    best_rows = (train_rows + (data.rows("valid") if final.retrain_on == "train+valid" else 0)) * _passes(best)
    read = data.rows("test") + (data.rows("valid") if final.retrain_on == "train" else 0)
    one_best = training(best_rows, best.batch_size, mean_macs, mean_params, read)
    retrainings = final.retrain_seeds if final.retrains else 0

    supernet = 4.0 * full.params * config.needs_supernet
    step = config.supernet.batch_size * 4.0 * early_macs / 50  # activations of a full path; fitted to measured peaks
    one_worker = LIBRARIES + 12.0 * mean_params * 4 + config.score.batch_size * 4.0 * mean_macs / 50
    one_training = LIBRARIES + 16.0 * mean_params + 2 * tables
    if config.evaluator == "training":
        one_worker = max(one_worker, one_training)
    on_host = tables if config.final.train.embeddings.offload else 0.0
    sharing = math.ceil(workers / max(1, len(found)))  # workers of one GPU
    per_score = one_worker - LIBRARIES + GPU_LIBRARIES
    per_training = one_training - LIBRARIES + GPU_LIBRARIES - 2 * on_host
    if config.evaluator == "training":
        per_score = max(per_score - 2 * on_host, per_training)
    ours = GPU_LIBRARIES if workers > 1 else 0.0  # the process that warmed up is still there
    gpu_bytes = [
        GPU_LIBRARIES + 3 * supernet + (0.0 if config.supernet.embeddings.offload else 2 * tables) + step,
        ours + sharing * (supernet + per_score),  # every process has the shared weights
        ours + sharing * per_training,
        per_training,
    ]
    if gpu is None:
        gpu_bytes = [0.0] * 4
    phases = (
        Phase(
            "warm up",
            threaded(training(warm_rows, warm_batch, warm_macs, warm_params)) / 60,
            LIBRARIES + 3 * supernet + 2 * tables + step,
            f"{warm_rows:,.0f} rows",
            gpu_bytes[0],
        ),
        Phase(
            "search",
            searching / 60,
            LIBRARIES + supernet + workers * one_worker,
            f"{total:,} candidates",
            gpu_bytes[1],
        ),
        Phase(
            "finalists",
            finalists / 60,
            LIBRARIES + workers * one_training,
            what,
            gpu_bytes[2],
        ),
        Phase(
            "winner",
            threaded(one_best * retrainings) / 60,
            one_training,
            f"{retrainings} training(s) of the winner" if retrainings else "the winner reads test",
            gpu_bytes[3],
        ),
    )
    load, shown = load_average(), decidable(data)
    return Forecast(phases, available_memory(), workers, cpu, available_cores(), load, shown, gpu, len(found))


def _devices(config: CtrSearchConfig) -> list[str]:
    """The settings of the phases that compute."""
    query = [config.query_training.train.device] if config.evaluator == "training" else []
    return [config.supernet.device, config.score.device, config.final.train.device, *query]


def _passes(settings: TrainSettings) -> float:
    """Over the training rows: where validation decides when to stop, what it usually decides."""
    return settings.epochs if settings.stop.patience is None else min(settings.epochs, USUAL_PASSES)


def _passes_noted(settings: TrainSettings) -> str:
    reckoned = _passes(settings)
    return f", reckoned with {reckoned:g} passes; validation decides" if reckoned < settings.epochs else ""


def check_fits(found: Forecast) -> None:
    """Refuse a search that this machine's memory, or its GPU's, cannot hold."""
    check_fits_gpu(found)
    worst = max(found.phases, key=lambda phase: phase.bytes)
    if worst.bytes > found.available_bytes:
        raise ConfigError(
            f"the phase '{worst.name}' needs about {human_bytes(worst.bytes)} of memory; {human_bytes(found.available_bytes)} are available.",
            "Use fewer --workers, cap the tables (supernet.embeddings.cap=100000 final.train.embeddings.cap=100000), "
            "or space.name=nasrec-small. The parts: recnas forecast CONFIG",
        )


def check_fits_gpu(found: Forecast) -> None:
    """Refuse a search that the memory of its GPU cannot hold."""
    worst = max(found.phases, key=lambda phase: phase.gpu_bytes)
    if found.gpu is not None and worst.gpu_bytes > found.gpu.free:
        raise ConfigError(
            f"the phase '{worst.name}' needs about {human_bytes(worst.gpu_bytes)} of a GPU's memory; "
            f"{human_bytes(found.gpu.free)} are free on {found.gpu.name}.",
            "Use fewer --workers, keep the tables in host memory (supernet.embeddings.offload=true "
            "final.train.embeddings.offload=true), cap them, or compute on the CPU: supernet.device=cpu "
            "score.device=cpu final.train.device=cpu",
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

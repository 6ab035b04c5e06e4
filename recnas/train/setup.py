"""Wiring that every job which trains shares: device, tables, batches, checkpoints, progress."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from recnas import devices
from recnas.baselines.base import start_tables
from recnas.data.joined_loader import JoinedLoader
from recnas.data.loader import BatchLoader
from recnas.data.prepared import PreparedData
from recnas.data.schema import Schema
from recnas.errors import ConfigError, DataError
from recnas.machine import available_memory
from recnas.model.embeddings import Embeddings, FieldColumns, build_embeddings
from recnas.model.embeddings.sharded import ShardedEmbeddings, build_sharded
from recnas.progress import Progress
from recnas.runs.folder import RunDir
from recnas.runs.identity import data_facts
from recnas.runs.records import Metrics
from recnas.space.nasrec.layers import NetShape
from recnas.stopping import asked, stop, waiting_for_checks
from recnas.threads import computing_with, settle_threads
from recnas.train.best_state import BestState, look_at_the_end
from recnas.train.checkpoint import keep_newest, load_latest, save
from recnas.train.distributed import RankTrainer, current_ranks
from recnas.train.evaluate import evaluate
from recnas.train.loop import Pace, Trainee, Trainer
from recnas.train.settings import TrainSettings
from recnas.train.start import click_logit, start_at
from recnas.train.vectors import use_vectors
from recnas.train.watch import Watch, planned_checks

# Settings that change no figure of work which engines hand out: it is computed with one thread.
NOT_THE_RESULT = {"threads", "checkpoint_seconds"}


START_ROWS = 512  # the first training rows, whose mean output starts at the click rate


def choose_device(settings: TrainSettings) -> torch.device:
    """The device asked for; of processes that train together each has one of its own."""
    device = devices.choose_device(settings.device)
    ranks = current_ranks()
    if ranks.several and device.type == "cuda":
        device = torch.device("cuda", ranks.local_rank)
        torch.cuda.set_device(device)
    return device


def net_shape(schema: Schema, settings: TrainSettings) -> NetShape:
    return NetShape(
        n_dense=schema.n_dense,
        n_sparse=schema.n_sparse,
        width=settings.embeddings.width,
        layernorm=settings.layernorm,
        activation=settings.activation,
        labels=schema.n_labels,
    )


def make_embeddings(
    schema: Schema,
    settings: TrainSettings,
    seed: int,
    device: torch.device,
    layout: FieldColumns | None = None,
    start_scale: float = 1.0,
) -> Embeddings:
    tables = settings.embeddings
    if current_ranks().several:
        if layout is not None:
            raise ConfigError(
                "tables of different widths (narrow) are kept in one process, and there are several.",
                "Train this architecture in one process, or take narrow out of its file: every table then has the full width.",
            )
        return _make_sharded(schema, settings, seed, device)
    return build_embeddings(
        schema,
        width=tables.width,
        backend=tables.backend,
        optimizer=tables.optimizer,
        lr=tables.lr or settings.lr,
        eps=settings.eps,
        device=device,
        seed=seed,
        cap=tables.cap,
        hash_rows=tables.hash_rows,
        offload=tables.offload,
        l2=tables.l2,
        l2_kind=tables.l2_kind,
        std=tables.std,
        layout=layout,
        start_scale=start_scale,
    )


def with_tables_of(network: nn.Module, settings: TrainSettings) -> TrainSettings:
    """The settings with tables as wide as the network wants them, for vectors of the width that was set."""
    tables = settings.embeddings
    columns = network.table_width(tables.width)  # type: ignore[operator]
    if columns == tables.width:
        return settings
    padded = columns + (-columns % 4 if tables.backend == "fused" else 0)
    return settings.model_copy(update={"embeddings": tables.model_copy(update={"width": padded})})


def make_tables(
    schema: Schema, settings: TrainSettings, seed: int, device: torch.device, network: nn.Module
) -> Embeddings:
    """New tables for a network, hand-crafted or searched, or for a supernet: as wide, and with values, as it wants."""
    layout = getattr(network, "field_columns", None)
    if layout is not None:
        return make_embeddings(schema, settings, seed, device, layout, network.start_scale)  # type: ignore[arg-type]
    embeddings = make_embeddings(schema, with_tables_of(network, settings), seed, device)
    start_tables(embeddings, network, settings.embeddings.width)
    return embeddings


def _make_sharded(schema: Schema, settings: TrainSettings, seed: int, device: torch.device) -> ShardedEmbeddings:
    tables, ranks = settings.embeddings, current_ranks()
    if tables.backend in ("plain", "fused") or tables.offload:
        asked = "embeddings.offload" if tables.offload else f"embeddings.backend={tables.backend}"
        raise ConfigError(
            f"{asked} keeps all tables in one process, and there are {ranks.world}.",
            "Leave it out: tables are then shared out over the processes.",
        )
    if device.type == "cuda":
        memory = 0.85 * torch.cuda.mem_get_info(device)[0]  # the rest is for the network and batches
    else:
        memory = available_memory() / ranks.local_world
    return build_sharded(
        schema,
        width=tables.width,
        optimizer=tables.optimizer,
        lr=tables.lr or settings.lr,
        eps=settings.eps,
        device=device,
        seed=seed,
        cap=tables.cap,
        hash_rows=tables.hash_rows,
        sharding=tables.sharding,
        memory=int(memory),
        batch_rows=-(-settings.batch_size // ranks.world),
        l2=tables.l2,
        std=tables.std,
    )


def make_joined_loader(
    data: PreparedData, settings: TrainSettings, seed: int, device: torch.device, on: str
) -> BatchLoader | JoinedLoader:
    """Batches of the training rows, or with `on="train+valid"` of both splits mixed."""
    loaders = [make_loader(data, settings, seed, device, split=split) for split in on.split("+")]
    return loaders[0] if len(loaders) == 1 else JoinedLoader(loaders, seed)


def make_loader(
    data: PreparedData,
    settings: TrainSettings,
    seed: int,
    device: torch.device,
    rows: int | None = None,
    split: str = "train",
) -> BatchLoader:
    on_gpu, ranks = device.type == "cuda", current_ranks()
    return BatchLoader(
        data,
        split,
        settings.batch_size,
        shuffle=settings.shuffle,
        seed=seed,
        rows=rows,
        rank=ranks.rank,
        world=ranks.world,
        split_batches=ranks.several,
        device=device if on_gpu else None,
        prefetch=4 if on_gpu else 0,
    )


def steps_of(loader: BatchLoader | JoinedLoader, settings: TrainSettings) -> int:
    return max(1, math.ceil(settings.epochs * len(loader)))


def train_with_checkpoints(
    trainer: Trainer,
    folder: Path | None,
    made_from: dict[str, Any],
    progress: Progress,
    name: str,
    point_steps: int | None = None,
    last: bool = True,
    until: int | None = None,
    end: bool = False,
    looks: Collection[int] = (),
    look: Callable[[], None] | None = None,
) -> None:
    """Continue from the newest whole checkpoint in `folder`, if any, and train to the end.

    Checkpoints go by the clock, so their number does not depend on the size of the data; they do not
    change what is computed. `last=False` leaves out the one at the end, for weights nobody will load.
    A training that is watched ends with the weights of its best check. `folder=None` keeps nothing on disk.
    Of several processes the first reads and writes; the others hand it their tables.

    Args:
        point_steps: a point of the curve of training losses every so many steps; None: no curve.
        until: stop after so many steps with a checkpoint, from which another call goes on as if it had not stopped.
        end: what `until` says is the end: the training closes there, like one that has run its course.
        looks: steps after which `look` is called, which must change nothing.
    """
    ranks = current_ranks()
    saved = load_latest(folder, made_from) if ranks.first and folder is not None else None
    start = ranks.share(saved.step if saved is not None else None)
    if start is not None:
        trainer.load(saved.tensors if saved is not None else {}, saved.facts if saved is not None else {})
    best = BestState(trainer, None if folder is None else folder / "best", made_from)
    if trainer.ended:
        if ranks.first and folder is not None:
            keep_newest(folder)
        best.forget()
        return
    pace = Pace(trainer.settings.checkpoint_seconds)
    batch = trainer.settings.batch_size
    progress.phase(name, trainer.total_steps * batch)
    progress.advance(trainer.step * batch)

    def on_step(trainer: Trainer, loss: float) -> None:
        progress.advance(batch, note=f"loss {loss:.4f}")
        if point_steps is not None and trainer.step % point_steps == 0:
            trainer.curve.append((trainer.step, trainer.take_mean_loss() or 0.0))
        if trainer.watch is not None and trainer.watch.due(trainer.step):
            with trainer.averaged():
                improved = trainer.watch.look(trainer.step)
            if improved:
                best.keep()
            trainer.ended = trainer.watch.stopped
        if look is not None and trainer.step in looks:
            look()
        stopped = asked() is not None and not ranks.several
        if (stopped or ranks.share(pace.due())) and trainer.step < trainer.total_steps and not trainer.ended:
            keep(2)
        if stopped:
            stop()

    def keep(number: int) -> None:
        tensors = trainer.tensors()
        if ranks.first and folder is not None:
            save(folder, trainer.step, tensors, trainer.facts(), made_from, keep=number)

    with waiting_for_checks():
        trainer.run(on_step, until)
    if not trainer.ended and trainer.step < trainer.total_steps:
        if not end:
            if trainer.step != start:
                keep(1)
            progress.end()
            return
        look_at_the_end(trainer, best)
    if trainer.watch is not None:
        best.restore()
    if trainer.average is not None:
        trainer.take_average()
    trainer.ended = True
    if last:
        keep(1)
    best.forget()
    progress.end()


def new_trainer(
    trainee: Trainee,
    embeddings: Embeddings,
    loader: BatchLoader | JoinedLoader,
    settings: TrainSettings,
    device: torch.device,
    steps: int | None = None,
    data: PreparedData | None = None,
) -> Trainer:
    """A trainer of new weights.

    Args:
        data: whose click rate the outputs start at, and whose vectors the tables; None leaves them as they were drawn.
    """
    if data is not None:
        use_vectors(embeddings, data, trainee.tables_of, settings)
        rows = next(BatchLoader(data, "train", START_ROWS).epoch()).to(device)
        logits = [click_logit(rate, data.rows("train")) for rate in data.label_rates("train")]
        start_at(trainee, logits, rows.dense, embeddings.lookup(rows.ids), rows.weight)
    make = RankTrainer if current_ranks().several else Trainer
    return make(trainee, embeddings, loader, settings, steps or steps_of(loader, settings), device)


def watch_validation(trainer: Trainer, network: nn.Module, data: PreparedData) -> None:
    """Let the trainer stop early, if its settings say so and validation can tell."""
    stop = trainer.settings.stop
    if stop.patience is None:
        return
    check_validation(data)

    def on_validation() -> Metrics:
        return evaluate(
            network,
            trainer.embeddings,
            data,
            "valid",
            batch_size=trainer.settings.eval_batch_size,
            rows=stop.rows,
            device=trainer.device,
        )

    trainer.watch = Watch(stop, len(trainer.loader), trainer.total_steps, on_validation)


def watched(trainer: Trainer) -> dict[str, Any]:
    """For records: every check, and the epoch whose weights were kept. Empty for a training that was not watched."""
    watch = trainer.watch
    if watch is None:
        return {}
    return {"checks": [check._asdict() for check in watch.checks], "best_epoch": watch.best_epoch()}


def check_stopping(settings: TrainSettings, data: PreparedData, progress: Progress, rows: int | None = None) -> None:
    """Before anything is spent: can validation tell when to stop, and is there a chance that it will?

    Args:
        rows: training rows; None for all.
    """
    patience = settings.stop.patience
    if patience is None:
        return
    check_validation(data)
    epoch = math.ceil(min(data.rows("train"), rows or data.rows("train")) / settings.batch_size)
    checks = planned_checks(settings.stop.checks, epoch, max(1, math.ceil(settings.epochs * epoch)))
    if patience >= checks - 1:
        looks = "1 check" if checks == 1 else f"{checks} checks"
        progress.say(
            f"note: {looks} of validation in epochs={settings.epochs:g}, so stop.patience={patience} cannot end a training "
            "early; the best state is kept all the same. For more checks: stop.checks=4, or more epochs"
        )


def check_validation(data: PreparedData) -> None:
    """Refuse early stopping where validation cannot say which state is better."""
    rows, rate = data.rows("valid"), data.manifest["click_rate"]["valid"]
    if rows and rate not in (0, 1):
        return
    why = "it is empty" if not rows else f"its labels are all {rate:.0f}"
    raise DataError(
        f"the validation split of {data.path} cannot tell when to stop training: {why}.",
        "Prepare the data with more validation rows, or train a fixed number of passes: stop.patience=null schedule=cosine "
        "epochs=1 (of a search: final.train.stop.patience=null and so on)",
    )


@contextmanager
def written_run(out: Path | str, kind: str, data: PreparedData, threads: int | None, **facts: Any) -> Iterator[RunDir]:
    """The run directory, made, checked and locked by the first process, a mere path for the others; what happens
    within is computed with the run's number of threads.

    Args:
        threads: as the user set it; None takes the run's own, or for a new run what this machine offers.
    """
    ranks = current_ranks()
    settled: int = ranks.share(settle_threads(out, threads) if ranks.first else 0)
    with computing_with(settled):
        if not ranks.first:
            yield RunDir(Path(out))
            return
        run = RunDir.create(out, kind, data=data_facts(data.path, data.fingerprint, out), threads=settled, **facts)
        with run.locked():
            yield run


def check_same_data(data: PreparedData) -> None:
    """Several machines may each have their own copy."""
    if current_ranks().share(data.fingerprint) != data.fingerprint:
        raise DataError(
            f"process {current_ranks().rank} finds other data in {data.path} than the first process.",
            "Copy the same prepared folder to every machine.",
        )

"""Wiring that every job which trains shares: device, tables, batches, checkpoints, progress."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from recnas.data.joined_loader import JoinedLoader
from recnas.data.loader import BatchLoader
from recnas.data.prepared import PreparedData
from recnas.data.schema import Schema
from recnas.errors import ConfigError
from recnas.model.embeddings import Embeddings, build_embeddings
from recnas.model.nasrec_plan import NetShape
from recnas.progress import Progress
from recnas.train.checkpoint import load_latest, save
from recnas.train.loop import Pace, Trainee, Trainer
from recnas.train.settings import TrainSettings


def choose_device(settings: TrainSettings) -> torch.device:
    """The device asked for; sets the number of threads too."""
    if settings.threads:
        torch.set_num_threads(settings.threads)
    if settings.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(settings.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            f"train.device is {settings.device}, but torch sees no CUDA device here.",
            "Use train.device=cpu, or see: recnas doctor",
        )
    return device


def net_shape(schema: Schema, settings: TrainSettings) -> NetShape:
    return NetShape(
        n_dense=schema.n_dense,
        n_sparse=schema.n_sparse,
        width=settings.embeddings.width,
        layernorm=settings.layernorm,
        activation=settings.activation,
    )


def make_embeddings(schema: Schema, settings: TrainSettings, seed: int, device: torch.device) -> Embeddings:
    tables = settings.embeddings
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
    on_gpu = device.type == "cuda"
    return BatchLoader(
        data,
        split,
        settings.batch_size,
        shuffle=settings.shuffle,
        seed=seed,
        rows=rows,
        pin_memory=on_gpu,
        prefetch=4 if on_gpu else 0,
    )


def steps_of(loader: BatchLoader | JoinedLoader, settings: TrainSettings) -> int:
    return max(1, math.ceil(settings.epochs * len(loader)))


def train_with_checkpoints(
    trainer: Trainer,
    folder: Path,
    made_from: dict[str, Any],
    progress: Progress,
    name: str,
    on_report: Callable[[int, float | None], None] | None = None,
    report_steps: int = 100,
    last: bool = True,
) -> None:
    """Continue from the newest whole checkpoint in `folder`, if any, and train to the end.

    Checkpoints go by the clock, so their number does not depend on the size of the data; they do not
    change what is computed. `last=False` leaves out the one at the end, for weights nobody will load.
    """
    saved = load_latest(folder, made_from)
    if saved is not None:
        trainer.load(saved.tensors, saved.facts)
    pace = Pace(trainer.settings.checkpoint_seconds)
    batch = trainer.settings.batch_size
    progress.phase(name, trainer.total_steps * batch)
    progress.advance(trainer.step * batch)

    def on_step(trainer: Trainer, loss: float) -> None:
        progress.advance(batch, note=f"loss {loss:.4f}")
        if trainer.step % report_steps == 0 and on_report is not None:
            on_report(trainer.step, trainer.take_mean_loss())
        if pace.due() and trainer.step < trainer.total_steps:
            save(folder, trainer.step, trainer.tensors(), trainer.facts(), made_from)

    trainer.run(on_step)
    if last and (saved is None or saved.step < trainer.total_steps):
        save(folder, trainer.step, trainer.tensors(), trainer.facts(), made_from, keep=1)
    progress.end()


def new_trainer(
    trainee: Trainee,
    embeddings: Embeddings,
    loader: BatchLoader | JoinedLoader,
    settings: TrainSettings,
    device: torch.device,
    steps: int | None = None,
) -> Trainer:
    return Trainer(trainee, embeddings, loader, settings, steps or steps_of(loader, settings), device)

"""One training of a race, a rung further: the same checkpoint goes on, so the rungs change nothing of what is computed."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from recnas.data.prepared import PreparedData
from recnas.model.nasrec.subnet import new_subnet
from recnas.progress import Progress
from recnas.runs.records import Metrics
from recnas.space.base import Space
from recnas.space.settings import SpaceSettings, make_ctr_space
from recnas.train.evaluate import evaluate
from recnas.train.logits import write_logits
from recnas.train.loop import FixedNetwork, Trainer
from recnas.train.metrics import NotFiniteScores
from recnas.train.pending import NotFinite
from recnas.train.recipe import with_recipe
from recnas.train.settings import TrainSettings
from recnas.train.setup import (
    NOT_THE_RESULT,
    choose_device,
    make_loader,
    make_tables,
    net_shape,
    new_trainer,
    train_with_checkpoints,
    watch_validation,
)


class RungRequest(NamedTuple):
    """Args:
    name: of the training's folder. until: steps from its beginning on. end: it ends there, whatever was left.
    valid_rows: that judge it while it may go on, the first ones; None: all.
    """

    name: str
    arch: dict[str, Any]
    recipe: dict[str, Any]
    seed: int
    until: int
    end: bool = False
    valid_rows: int | None = None


@dataclass(frozen=True)
class RungDone:
    """How far a training is; `valid` is empty if it failed. `cut`: it was ended before validation or its epochs did."""

    seconds: float
    steps: int
    valid: Metrics = field(default_factory=dict)
    best_epoch: float | None = None
    ended: bool = False
    cut: bool = False
    failed: str | None = None


@dataclass(frozen=True)
class RungWork:
    """Takes trainings a rung further, one after the other; opened once per worker.

    Args:
        rows: training rows, the first ones; None for all.
        folder: where each training has its checkpoint, and one that has ended its scores.
    """

    data: str
    space: SpaceSettings
    settings: TrainSettings
    rows: int | None
    folder: str

    @property
    def device(self) -> str:
        return self.settings.device

    def open(self) -> Callable[[RungRequest], RungDone]:
        data = PreparedData.open(self.data)
        space = make_ctr_space(self.space)
        return lambda request: self._train(data, space, request)

    def _train(self, data: PreparedData, space: Space[Any], request: RungRequest) -> RungDone:
        settings, _ = with_recipe(self.settings, request.recipe)
        arch, seed = space.from_dict(request.arch), request.seed
        device = choose_device(settings)
        network = new_subnet(arch, net_shape(data.schema, settings), seed, settings.dropout).to(device)
        embeddings = make_tables(data.schema, settings, seed, device, network)
        loader = make_loader(data, settings, seed, device, self.rows)
        trainer = new_trainer(FixedNetwork(network), embeddings, loader, settings, device, data=data)
        watch_validation(trainer, network, data)
        made_from = {
            "data": data.fingerprint,
            "arch": space.key(arch),
            "seed": seed,
            "on": "train",  # as `recnas.train.standalone` has it, which takes the winner's over
            "rows": self.rows,
            "settings": settings.model_dump(mode="json", exclude=NOT_THE_RESULT),
        }
        folder, scores = Path(self.folder) / request.name, scores_path(self.folder, request.name)
        return take_further(
            trainer, network, data, folder, made_from, request.until, request.end, request.valid_rows, scores
        )


def take_further(
    trainer: Trainer,
    network: nn.Module,
    data: PreparedData,
    folder: Path,
    made_from: dict[str, Any],
    until: int,
    end: bool,
    valid_rows: int | None,
    scores: Path | None = None,
) -> RungDone:
    """From the checkpoint in `folder` on, if there is one, as far as `until`; see `RungRequest`.

    Args:
        trainer: of new weights. scores: see `judged`.
    """
    started = time.monotonic()
    try:
        train_with_checkpoints(trainer, folder, made_from, Progress(quiet=True), "train", until=until, end=end)
        # Checks of a training looked at all rows.
        checked = trainer.watch is not None and trainer.watch.best is not None
        rows = None if trainer.ended or checked else valid_rows
        valid = judged(trainer, network, data, rows, scores)
    except (NotFinite, NotFiniteScores) as error:  # one that diverges drops out; the race goes on
        return RungDone(time.monotonic() - started, trainer.step, failed=error.what)
    watch = trainer.watch
    steps = max(trainer.step, trainer.trained_steps)  # the weights may be those of an earlier check
    best = watch.best_epoch() if watch is not None else None
    cut = end and steps < trainer.total_steps and not (watch is not None and watch.stopped)
    return RungDone(time.monotonic() - started, steps, valid, best, trainer.ended, cut)


def scores_path(folder: Path | str, training: str) -> Path:
    """Logits on the rows of validation, of a training that has ended."""
    return Path(folder) / f"{training}.npy"


def judged(
    trainer: Trainer, network: nn.Module, data: PreparedData, rows: int | None = None, scores: Path | None = None
) -> Metrics:
    """Validation with the weights as they are, or its best check where that was better: those weights are kept.

    Args:
        rows: of validation, the first ones; None for all.
        scores: where the logits of a training that has ended are kept.
    """
    logits: list[Tensor] = []
    with nullcontext() if trainer.ended else trainer.averaged():
        now = evaluate(
            network,
            trainer.embeddings,
            data,
            "valid",
            batch_size=trainer.settings.eval_batch_size,
            rows=rows,
            device=trainer.device,
            on_logits=logits.append,
        )
    if trainer.ended and scores is not None:
        write_logits(scores, torch.cat(logits).float().cpu().numpy())
    watch = trainer.watch
    if trainer.ended or watch is None or watch.best is None or watch.settings.rows is not None:
        return now
    best = watch.best._asdict()
    better = best["logloss"] is not None and (now["logloss"] is None or best["logloss"] < now["logloss"])
    return {name: best[name] for name in ("logloss", "auc")} if better else now

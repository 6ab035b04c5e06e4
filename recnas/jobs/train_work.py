"""Training of one architecture as work that an engine can hand to any process."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recnas.data.prepared import PreparedData
from recnas.jobs.settings import SpaceSettings, make_space
from recnas.jobs.training import (
    NOT_THE_RESULT,
    choose_device,
    make_embeddings,
    make_loader,
    net_shape,
    new_trainer,
    train_with_checkpoints,
)
from recnas.model.subnet import new_subnet
from recnas.progress import Progress
from recnas.space.base import Space
from recnas.space.cost import count
from recnas.train.evaluate import evaluate
from recnas.train.loop import FixedNetwork
from recnas.train.settings import TrainSettings

Item = tuple[int, int, dict[str, Any]]  # a number of the caller's, the seed, the architecture


@dataclass(frozen=True)
class TrainWork:
    """Trains one item after the other; opened once per worker.

    Args:
        rows: training rows, the first ones; None for all. eval_rows: likewise of each split in `splits`.
        splits: what is evaluated; a job that still has to choose leaves the test split out.
        folder: where a training keeps its checkpoint until it has ended; None keeps none.
    """

    data: str
    space: SpaceSettings
    settings: TrainSettings
    rows: int | None
    eval_rows: int | None
    splits: tuple[str, ...]
    folder: str | None = None

    def open(self) -> Callable[[Item], dict[str, Any]]:
        data = PreparedData.open(self.data)
        space = make_space(self.space)
        return lambda item: self._train(data, space, *item)

    def _train(
        self, data: PreparedData, space: Space[Any], number: int, seed: int, described: dict[str, Any]
    ) -> dict[str, Any]:
        settings = self.settings
        arch = space.from_dict(described)
        device = choose_device(settings)
        network = new_subnet(arch, net_shape(data.schema, settings), seed).to(device)
        embeddings = make_embeddings(data.schema, settings, seed, device)
        loader = make_loader(data, settings, seed, device, self.rows)
        trainer = new_trainer(FixedNetwork(network), embeddings, loader, settings, device, data=data)
        started = time.monotonic()
        kept = None
        if self.folder is None:
            trainer.run()
        else:
            kept = Path(self.folder) / f"{arch.key}-{seed}"
            made_from = {
                "data": data.fingerprint,
                "arch": arch.key,
                "rows": self.rows,
                "settings": settings.model_dump(mode="json", exclude=NOT_THE_RESULT),
            }
            train_with_checkpoints(trainer, kept, made_from, Progress(quiet=True), "train", last=False)
        seconds = time.monotonic() - started
        cost = count(arch, data.schema, width=settings.embeddings.width, layernorm=settings.layernorm)
        result: dict[str, Any] = {
            "event": "trained",
            "index": number,
            "seed": seed,
            "key": arch.key,
            "arch": described,
            "params": cost.params,
            "macs": cost.macs,
            "steps": trainer.total_steps,
            "train_loss": trainer.take_mean_loss(),
        }
        for split in self.splits:
            result[split] = evaluate(
                network,
                embeddings,
                data,
                split,
                batch_size=settings.eval_batch_size,
                rows=self.eval_rows,
                device=device,
            )
        if kept is not None:
            shutil.rmtree(kept, ignore_errors=True)
        return {**result, "seconds": seconds}

"""One training of a comparison as work that an engine can hand to any process."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from recnas.data.prepared import PreparedData
from recnas.errors import RunError
from recnas.jobs.compare_floors import run_floor
from recnas.jobs.compare_models import Choice, Entrant, build_entrant
from recnas.jobs.training import (
    NOT_THE_RESULT,
    choose_device,
    make_loader,
    new_trainer,
    train_with_checkpoints,
)
from recnas.progress import Progress
from recnas.run import write_atomic, write_json
from recnas.train.evaluate import evaluate
from recnas.train.loop import FixedNetwork, Network, NotFinite
from recnas.train.settings import TrainSettings
from recnas.train.slice_optim import Slice


@dataclass(frozen=True)
class Item:
    """A tuning trial (`trial` is its number) or a final training (`trial` is None)."""

    entrant: Entrant
    choice: Choice
    seed: int
    trial: int | None = None

    @property
    def name(self) -> str:
        """For files: unique within a run."""
        number = f"seed-{self.seed}" if self.trial is None else f"trial-{self.trial}"
        return f"{slug(self.entrant.id)}-{number}"


def slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9+-]", "_", name)


class TimedNetwork(FixedNetwork):
    """Notes when its first step began, and which one that was: a resumed training starts late."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__(network)
        self.first_step: int | None = None
        self.started = 0.0

    def at_step(self, step: int) -> tuple[Network, list[Slice]]:
        if self.first_step is None:
            self.first_step, self.started = step, time.monotonic()
        return super().at_step(step)


@dataclass(frozen=True)
class CompareWork:
    """Trains one item after the other. A trial reads validation; a final training reads test once, at its end.

    Args:
        run: the comparison's run directory: checkpoints while they are needed, test logits for good.
        keep: also keep the final weights, under `models/`.
    """

    data: str
    settings: TrainSettings
    run: str
    keep: bool = False

    def open(self) -> Callable[[Item], dict[str, Any]]:
        data = PreparedData.open(self.data)
        return lambda item: self._do(data, item)

    def _do(self, data: PreparedData, item: Item) -> dict[str, Any]:
        event: dict[str, Any] = {
            "event": "trial" if item.trial is not None else "seed",
            "id": item.entrant.id,
            "model": item.entrant.label,
            "choice": item.choice,
            "seed": item.seed,
        }
        if item.trial is not None:
            event["trial"] = item.trial
        splits = ("valid",) if item.trial is not None else ("valid", "test")
        if item.entrant.kind == "floor":
            facts, logits = run_floor(item.entrant.id, item.choice, data, self.settings, item.seed, splits)
        else:
            facts, logits = self._train(data, item, splits)
        if "test" in logits:
            write_logits(predictions_path(Path(self.run), item), logits["test"])
        return {**event, **facts}

    def _train(
        self, data: PreparedData, item: Item, splits: tuple[str, ...]
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        settings = self.settings
        device = choose_device(settings)
        built = build_entrant(item.entrant, item.choice, data.schema, settings, item.seed, device)
        loader = make_loader(data, built.settings, item.seed, device)
        trainee = TimedNetwork(built.network)
        trainer = new_trainer(trainee, built.embeddings, loader, built.settings, device, data=data)
        made_from = {
            "data": data.fingerprint,
            "model": json.loads(json.dumps(asdict(item.entrant))),
            "choice": item.choice,
            "seed": item.seed,
            "settings": built.settings.model_dump(mode="json", exclude=NOT_THE_RESULT),
        }
        kept = self.keep and item.trial is None
        folder = Path(self.run) / ("models" if kept else "work") / item.name
        facts: dict[str, Any] = {**built.cost, "steps": trainer.total_steps, "train_rows": loader.rows}
        logits: dict[str, np.ndarray] = {}
        try:
            train_with_checkpoints(trainer, folder, made_from, Progress(quiet=True), "train", last=kept)
            facts["train_loss"] = trainer.take_mean_loss()
            if trainee.first_step is not None:
                facts["seconds"] = time.monotonic() - trainee.started
                steps = trainer.total_steps - trainee.first_step
                facts["rows_per_second"] = steps * settings.batch_size / facts["seconds"]
        except NotFinite as error:
            facts["failed"] = error.what
        for split in splits if "failed" not in facts else ():
            parts: list[Tensor] = []
            try:
                facts[split] = evaluate(
                    built.network,
                    built.embeddings,
                    data,
                    split,
                    batch_size=settings.eval_batch_size,
                    device=device,
                    on_logits=parts.append,
                )
            except RunError as error:  # finite losses in training, but not on this split
                facts["failed"] = error.what
                break
            logits[split] = torch.cat(parts).float().cpu().numpy()
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            write_json(folder / "model.json", made_from)
        return facts, logits if "failed" not in facts else {}


def predictions_path(run: Path, item: Item) -> Path:
    return run / "predictions" / f"{item.name}.npy"


def write_logits(path: Path, logits: np.ndarray) -> None:
    """float32, whole or absent."""
    write_atomic(path, lambda file: np.save(file, logits.astype(np.float32)))

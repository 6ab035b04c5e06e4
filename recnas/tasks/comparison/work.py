"""One training of a comparison as work that an engine can hand to any process."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from recnas.bench.entrants import Built, Choice, Entrant, Trainable
from recnas.bench.other_models import run_other_model
from recnas.data.prepared import PreparedData
from recnas.errors import RunError
from recnas.evaluators.race import take_further
from recnas.files import write_json
from recnas.progress import Progress
from recnas.runs.layout import file_name
from recnas.runs.records import ModelTraining
from recnas.searchers.course import rows_read
from recnas.searchers.race import Lap
from recnas.train.evaluate import evaluate
from recnas.train.logits import write_logits
from recnas.train.loop import FixedNetwork, Network, Trainer
from recnas.train.pending import NotFinite
from recnas.train.settings import TrainSettings
from recnas.train.setup import (
    NOT_THE_RESULT,
    choose_device,
    make_loader,
    new_trainer,
    train_with_checkpoints,
    watch_validation,
    watched,
)
from recnas.train.slice_optim import Slice

WORK_FOLDER = "work"  # of a run: checkpoints while they are needed


@dataclass(frozen=True)
class Trial:
    """A tuning trial (`number` is its own) or a final training (`number` is None).

    A trial of a race is taken as far as its `lap` says, and judged by the first `valid_rows` of validation (None: all).
    """

    entrant: Entrant
    choice: Choice
    seed: int
    number: int | None = None
    lap: Lap | None = None
    valid_rows: int | None = None

    @property
    def name(self) -> str:
        """For files: unique within a run."""
        which = f"seed-{self.seed}" if self.number is None else f"trial-{self.number}"
        return f"{file_name(self.entrant.id)}-{which}"


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
class Begun:
    """A training whose weights are new, or those of a checkpoint once it goes on.

    Attributes:
        rows: that it reads in a pass. made_from: what a checkpoint in `folder` must come from.
    """

    built: Built
    trainee: TimedNetwork
    trainer: Trainer
    rows: int
    folder: Path
    made_from: dict[str, Any]

    @property
    def facts(self) -> dict[str, Any]:
        return {**self.built.cost, "train_rows": self.rows}

    def rows_at(self, steps: int) -> int:
        return rows_read(steps, self.built.settings.batch_size, self.rows)


@dataclass(frozen=True)
class CompareWork:
    """Trains one trial after the other. A trial reads validation; a final training reads test once, at its end.

    Args:
        run: the comparison's run directory: checkpoints while they are needed, test logits for good.
        keep: also keep the final weights, under `models/`.
    """

    data: str
    settings: TrainSettings
    run: str
    keep: bool = False

    @property
    def device(self) -> str:
        return self.settings.device

    def open(self) -> Callable[[Trial], ModelTraining]:
        data = PreparedData.open(self.data)
        return lambda trial: self._do(data, trial)

    def _do(self, data: PreparedData, trial: Trial) -> ModelTraining:
        entrant = trial.entrant
        splits = ("valid", "test") if trial.number is None else ("valid",)
        logits: dict[str, np.ndarray] = {}
        if trial.lap is not None:
            facts = self._take_further(data, trial, trial.lap)
        elif isinstance(entrant, Trainable):
            facts, logits = self._train(data, trial, entrant, splits)
        else:
            facts, logits = run_other_model(entrant.id, trial.choice, data, self.settings, trial.seed, splits)
        if "test" in logits:
            write_logits(predictions_path(Path(self.run), trial), logits["test"])
        return ModelTraining(
            event="seed" if trial.number is None else "trial",
            id=entrant.id,
            model=entrant.label,
            choice=trial.choice,
            seed=trial.seed,
            trial=trial.number,
            **facts,
        )

    def _begin(self, data: PreparedData, trial: Trial, entrant: Trainable) -> Begun:
        settings = self.settings
        device = choose_device(settings)
        built = entrant.build(trial.choice, data.schema, settings, trial.seed, device)
        loader = make_loader(data, built.settings, trial.seed, device)
        trainee = TimedNetwork(built.network)
        trainer = new_trainer(trainee, built.embeddings, loader, built.settings, device, data=data)
        watch_validation(trainer, built.network, data)
        made_from = {
            "data": data.fingerprint,
            "model": entrant.describe(),
            "choice": trial.choice,
            "seed": trial.seed,
            "settings": built.settings.model_dump(mode="json", exclude=NOT_THE_RESULT),
        }
        where = "models" if self._kept(trial) else WORK_FOLDER
        return Begun(built, trainee, trainer, loader.rows, Path(self.run) / where / trial.name, made_from)

    def _kept(self, trial: Trial) -> bool:
        return self.keep and trial.number is None

    def _take_further(self, data: PreparedData, trial: Trial, lap: Lap) -> dict[str, Any]:
        """A trial of a race; its checkpoint stays until the race drops it."""
        assert isinstance(trial.entrant, Trainable)
        begun = self._begin(data, trial, trial.entrant)
        network = begun.built.network
        done = take_further(
            begun.trainer, network, data, begun.folder, begun.made_from, lap.until, lap.end, trial.valid_rows
        )
        return {**begun.facts, "rung": lap.rung, "trained_rows": begun.rows_at(done.steps), **asdict(done)}

    def _train(
        self, data: PreparedData, trial: Trial, entrant: Trainable, splits: tuple[str, ...]
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        begun = self._begin(data, trial, entrant)
        built, trainee, trainer, folder = begun.built, begun.trainee, begun.trainer, begun.folder
        facts, kept = begun.facts, self._kept(trial)
        logits: dict[str, np.ndarray] = {}
        try:
            train_with_checkpoints(trainer, folder, begun.made_from, Progress(quiet=True), "train", last=kept)
            facts["steps"] = trainer.trained_steps
            facts |= watched(trainer)
            facts["train_loss"] = trainer.take_mean_loss()
            if trainee.first_step is not None:
                facts["seconds"] = time.monotonic() - trainee.started
                steps = trainer.trained_steps - trainee.first_step
                facts["rows_per_second"] = steps * built.settings.batch_size / facts["seconds"]
        except NotFinite as error:
            facts["failed"] = error.what
        facts["trained_rows"] = begun.rows_at(trainer.trained_steps)
        for split in splits if "failed" not in facts else ():
            parts: list[Tensor] = []
            try:
                facts[split] = evaluate(
                    built.network,
                    built.embeddings,
                    data,
                    split,
                    batch_size=self.settings.eval_batch_size,
                    device=trainer.device,
                    on_logits=parts.append,
                )
            except RunError as error:  # finite losses in training, but not on this split
                facts["failed"] = error.what
                break
            logits[split] = torch.cat(parts).float().cpu().numpy()
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            write_json(folder / "model.json", begun.made_from)
        return facts, logits if "failed" not in facts else {}


def predictions_path(run: Path, trial: Trial) -> Path:
    return run / "predictions" / f"{trial.name}.npy"

"""CTR candidates by a training from scratch: the query of HNAS, a finalist, an entry of a table."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from recnas.data.prepared import PreparedData
from recnas.evaluators.base import VALID_LOGLOSS, Evaluation
from recnas.evaluators.race import judged
from recnas.model.nasrec.subnet import new_subnet
from recnas.progress import Progress
from recnas.runs.records import Metrics, ScoreRecord
from recnas.space.base import Space
from recnas.space.settings import SpaceSettings, make_ctr_space
from recnas.train.evaluate import evaluate
from recnas.train.loop import FixedNetwork
from recnas.train.metrics import NotFiniteScores
from recnas.train.pending import NotFinite
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


class TrainRequest(NamedTuple):
    seed: int
    arch: dict[str, Any]


@dataclass(frozen=True)
class Training:
    """What one training gave; `metrics` by split, empty if it failed."""

    seconds: float
    steps: int = 0
    train_loss: float | None = None
    metrics: dict[str, Metrics] = field(default_factory=dict)
    failed: str | None = None
    curve: tuple[float, ...] = ()  # validation log loss at the rungs


@dataclass(frozen=True)
class TrainWork:
    """Trains one architecture after the other; opened once per worker.

    Args:
        rows: training rows, the first ones; None for all. eval_rows: likewise of each split in `splits`.
        splits: what is evaluated; a job that still has to choose leaves the test split out.
        folder: where a training keeps its checkpoint until it has ended; None keeps none.
        rungs: shares of a training after which validation is read in between; not with `folder`.
    """

    data: str
    space: SpaceSettings
    settings: TrainSettings
    rows: int | None
    eval_rows: int | None
    splits: tuple[str, ...]
    folder: str | None = None
    rungs: tuple[float, ...] = ()

    @property
    def device(self) -> str:
        return self.settings.device

    def open(self) -> Callable[[TrainRequest], Training]:
        data = PreparedData.open(self.data)
        space = make_ctr_space(self.space)
        return lambda request: self._train(data, space, request)

    def _train(self, data: PreparedData, space: Space[Any], request: TrainRequest) -> Training:
        settings, seed = self.settings, request.seed
        arch = space.from_dict(request.arch)
        device = choose_device(settings)
        network = new_subnet(arch, net_shape(data.schema, settings), seed, settings.dropout).to(device)
        embeddings = make_tables(data.schema, settings, seed, device, network)
        loader = make_loader(data, settings, seed, device, self.rows)
        trainer = new_trainer(FixedNetwork(network), embeddings, loader, settings, device, data=data)
        started = time.monotonic()
        curve: list[float] = []

        def look() -> None:
            value = judged(trainer, network, data, self.eval_rows)["logloss"]
            assert value is not None, "the caller has checked that there is validation"
            curve.append(value)

        kept = None if self.folder is None else Path(self.folder) / f"{space.key(arch)}-{seed}"
        try:
            made_from = {
                "data": data.fingerprint,
                "arch": space.key(arch),
                "seed": seed,
                "rows": self.rows,
                "settings": settings.model_dump(mode="json", exclude=NOT_THE_RESULT),
            }
            watch_validation(trainer, network, data)
            looks = [max(1, round(share * trainer.total_steps)) for share in self.rungs]
            train_with_checkpoints(
                trainer, kept, made_from, Progress(quiet=True), "train", last=False, looks=looks, look=look
            )
            seconds = time.monotonic() - started
            train_loss = trainer.take_mean_loss()
            metrics = {
                split: evaluate(
                    network,
                    embeddings,
                    data,
                    split,
                    batch_size=settings.eval_batch_size,
                    rows=self.eval_rows,
                    device=device,
                )
                for split in self.splits
            }
        except (NotFinite, NotFiniteScores) as error:  # one that diverges must not end a night's search
            return self._forget(kept, Training(time.monotonic() - started, failed=error.what))
        return self._forget(kept, Training(seconds, trainer.trained_steps, train_loss, metrics, curve=tuple(curve)))

    @staticmethod
    def _forget(kept: Path | None, training: Training) -> Training:
        """What is left to do is on one line of a ledger: the checkpoints have no more use."""
        if kept is not None:
            shutil.rmtree(kept, ignore_errors=True)
        return training


@dataclass(frozen=True)
class TrainingEvaluator:
    """A candidate's validation log loss after a training."""

    work: TrainWork
    seed: int

    @property
    def device(self) -> str:
        return self.work.device

    def open(self) -> Callable[[dict[str, Any]], Evaluation]:
        train = self.work.open()

        def call(described: dict[str, Any]) -> Evaluation:
            trained = train(TrainRequest(self.seed, described))
            if trained.failed is not None:
                return Evaluation(trained.seconds, failed=trained.failed)
            valid = trained.metrics["valid"]
            terms = {"auc": valid["auc"]} if valid["auc"] is not None else {}
            record = ScoreRecord(value=valid["logloss"], terms=terms)
            return Evaluation(trained.seconds, {VALID_LOGLOSS: record.value}, {VALID_LOGLOSS: record})

        return call

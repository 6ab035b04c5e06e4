"""Vision candidates: by proxies on a few images, or by the accuracy after a training on images."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recnas.devices import choose_device
from recnas.evaluators.base import VALID_ACCURACY, Evaluation
from recnas.evaluators.proxy import evaluate_by_proxies
from recnas.evaluators.settings import VisionScoreSettings
from recnas.evaluators.training import Training, TrainRequest
from recnas.model.vision import build_scored, build_trainable
from recnas.space.settings import SpaceSettings
from recnas.train.images import (
    ImageSource,
    ImageSplit,
    ImageTraining,
    Split,
    accuracy,
    train_network,
    warm_network,
)

if TYPE_CHECKING:
    from recnas.data.images.sets import ImageSet
    from recnas.proxies.network import ScoringBatch


def scoring_batches(images: ImageSet, size: int, count: int, seed: int) -> list[ScoringBatch]:
    """Batches of different images, as the proxy engine wants them."""
    from recnas.data.images.sets import image_batches
    from recnas.proxies.network import ScoringBatch

    return [ScoringBatch((pixels,), labels) for pixels, labels in image_batches(images, size, count, seed)]


@dataclass(frozen=True)
class VisionProxyEvaluator:
    """Scores one architecture after the other; opened once per worker.

    Args:
        network: sizes of the scored network, as `recnas.space.networks` knows them.
        split: score on the training rows of this split only; None: on all images.
    """

    space: SpaceSettings
    network: dict[str, Any]
    images: ImageSource
    split: ImageSplit | None
    settings: VisionScoreSettings

    @property
    def device(self) -> str:
        return self.settings.device

    def open(self) -> Callable[[dict[str, Any]], Evaluation]:
        from recnas.proxies.registry import get_proxies
        from recnas.proxies.sigeo import Lambdas

        settings = self.settings
        device = choose_device(settings.device, "score.device")
        images = self.images.load()
        if self.split is not None:
            images = images.only(self.split.rows(len(images), "train"))
        batches = scoring_batches(images, settings.batch_size, settings.batches, settings.seed)
        batches = [batch.to(device) for batch in batches]
        space, sizes = self.space.make(), settings.sizes(self.network)
        warmed = settings.warmup.data_share > 0
        proxies = get_proxies(settings.proxies, lambdas=Lambdas.for_case("vision", warmed=warmed))

        def call(described: dict[str, Any]) -> Evaluation:
            started = time.monotonic()
            arch = space.from_dict(described)
            network = build_scored(
                self.space.name, arch, images.classes, images.side, settings.seed, device=device, **sizes
            )
            losses = warm_network(network, images, settings.warmup, settings.seed)
            scored = evaluate_by_proxies(network, batches, proxies, settings.seed)
            warm = {"steps": len(losses), "first": losses[0], "last": losses[-1]} if losses else None
            extras = {} if warm is None else {"warmup": warm}
            return Evaluation(time.monotonic() - started, scored.values, scored.scores, scored.failed, extras)

        return call


@dataclass(frozen=True)
class ImageTrainWork:
    """Trains one architecture after the other; opened once per worker.

    Args:
        network: sizes of the trained network, as `recnas.space.networks` knows them.
        splits: whose accuracy is wanted; a job that still has to choose leaves the test split out.
        weights: give the trained weights back as well.
    """

    space: SpaceSettings
    network: dict[str, Any]
    images: ImageSource
    split: ImageSplit
    training: ImageTraining
    splits: tuple[Split, ...]

    @property
    def device(self) -> str:
        return self.training.device

    def open(self) -> Callable[[TrainRequest], Training]:
        images = self.images.load()
        return lambda request: self.train(images, request)[0]

    def train(self, images: ImageSet, request: TrainRequest) -> tuple[Training, Any]:
        """What the training gave, and the module."""
        started = time.monotonic()
        arch = self.space.make().from_dict(request.arch)
        settings = self.training
        model = build_trainable(
            self.space.name,
            arch,
            images.classes,
            images.side,
            request.seed,
            auxiliary=settings.auxiliary > 0,
            device=choose_device(settings.device, "train.device"),
            **self.network,
        )
        rows = self.split.rows(len(images), "train")[: settings.rows]
        losses = train_network(model, images, rows, settings, request.seed)
        if not math.isfinite(losses[-1]):
            failed = f"the training loss became {losses[-1]}"
            return Training(time.monotonic() - started, len(losses), failed=failed), model
        metrics: dict[str, dict[str, float | None]] = {
            split: {"accuracy": accuracy(model, images, self.split.rows(len(images), split))} for split in self.splits
        }
        return Training(time.monotonic() - started, len(losses), losses[-1], metrics), model


@dataclass(frozen=True)
class ImageTrainingEvaluator:
    """A candidate's validation accuracy after a training."""

    work: ImageTrainWork
    seed: int

    @property
    def device(self) -> str:
        return self.work.device

    def open(self) -> Callable[[dict[str, Any]], Evaluation]:
        train = self.work.open()
        epochs = self.work.training.epochs

        def call(described: dict[str, Any]) -> Evaluation:
            trained = train(TrainRequest(self.seed, described))
            if trained.failed is not None:
                return Evaluation(trained.seconds, failed=trained.failed)
            value = trained.metrics["valid"]["accuracy"]
            assert value is not None
            return Evaluation(trained.seconds, {VALID_ACCURACY: value}, extras={"epochs": epochs})

        return call

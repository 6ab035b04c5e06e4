"""Train a vision network on images, and judge it on others: the work behind a query, and behind a final training.

Images are cut once, by a seed of their own, into rows to train on, rows that choose and rows that are read at the
end; the parts are the same for every architecture and every search seed. Training is the usual recipe of cells:
SGD with momentum, a cosine schedule, random crops and flips.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from recnas.config import Settings
from recnas.errors import DataError
from recnas.jobs.search_oneshot import SearchImages

if TYPE_CHECKING:
    from torch import Tensor

    from recnas.data.images import ImageSet

PARTS_STREAM, ORDER_STREAM, AUGMENT_STREAM = 18, 19, 20  # apart from every other draw of a seed

Part = Literal["train", "valid", "test"]


class ImageTraining(Settings):
    """How one network is trained."""

    epochs: int = Field(2, ge=1)
    rows: int | None = Field(None, ge=1)  # training images; null: all of that part
    batch_size: int = Field(64, ge=2)
    lr: float = Field(0.025, gt=0)
    momentum: float = Field(0.9, ge=0, lt=1)
    weight_decay: float = Field(3e-4, ge=0)
    clip: float = Field(5.0, gt=0)  # norm of the gradient
    augment: bool = True  # crops of images with a border, and mirrors
    drop_path: float = Field(0.0, ge=0, lt=1)  # rises to this over the training, for spaces that have it
    auxiliary: float = Field(0.0, ge=0)  # weight of DARTS's second classifier


class ImageParts(Settings):
    """How images are shared out; the rest is for training."""

    valid: float = Field(0.2, gt=0, lt=1)
    test: float = Field(0.2, gt=0, lt=1)
    seed: int = Field(0, ge=0)

    def rows(self, images: int, part: Part) -> np.ndarray:
        """Row numbers of one part."""
        order = np.random.default_rng([self.seed, PARTS_STREAM]).permutation(images)
        test, valid = round(images * self.test), round(images * self.valid)
        if min(test, valid, images - test - valid) < 1:
            raise DataError(f"{images} images cannot be cut into three parts.", "Give more images, or smaller parts.valid and parts.test.")
        return {"test": order[:test], "valid": order[test : test + valid], "train": order[test + valid :]}[part]


Item = tuple[int, dict[str, Any]]  # the seed, the architecture


@dataclass(frozen=True)
class ImageTrainWork:
    """Trains one architecture after the other; opened once per worker.

    Args:
        space: its name. network: sizes of the trained network, as `recnas.model.vision` knows them.
        judged: parts whose accuracy is wanted; a job that still has to choose leaves the test part out.
        weights: give the trained weights back as well.
    """

    space: str
    network: dict[str, Any]
    images: SearchImages
    parts: ImageParts
    training: ImageTraining
    judged: tuple[Part, ...]
    weights: bool = False

    def open(self) -> Callable[[Item], dict[str, Any]]:

        from recnas.space.registry import get_space

        images = self.images.load()
        space = get_space(self.space)

        def call(item: Item) -> dict[str, Any]:
            seed, described = item
            started = time.monotonic()
            model, losses = self.train(space.from_dict(described), images, seed)
            if not math.isfinite(losses[-1]):
                return {"failed": f"the training loss became {losses[-1]}", "seconds": time.monotonic() - started}
            found: dict[str, Any] = {
                part: accuracy(model, images, self.parts.rows(len(images), part)) for part in self.judged
            }
            if self.weights:
                found["weights"] = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
            return {**found, "train_loss": losses[-1], "steps": len(losses), "seconds": time.monotonic() - started}

        return call

    def train(self, arch: Any, images: ImageSet, seed: int) -> tuple[Any, list[float]]:
        """The trained module and the loss of every step; a loss that is not finite ends the training."""
        import torch
        import torch.nn.functional as F

        from recnas.model.vision import build_trainable

        settings = self.training
        rows = self.parts.rows(len(images), "train")[: settings.rows]
        steps = len(rows) // settings.batch_size
        if steps < 1:
            raise DataError(f"{len(rows)} training images do not fill a batch of {settings.batch_size}.", "Use smaller batches or more images.")
        total = steps * settings.epochs
        model = build_trainable(
            self.space, arch, images.classes, images.side, seed, auxiliary=settings.auxiliary > 0, **self.network
        )
        model.generator = torch.Generator().manual_seed(seed)
        step = torch.optim.SGD(model.parameters(), settings.lr, settings.momentum, weight_decay=settings.weight_decay, nesterov=settings.momentum > 0)
        losses: list[float] = []
        model.train()
        for epoch in range(settings.epochs):
            model.drop_path = settings.drop_path * epoch / settings.epochs
            order = np.random.default_rng([seed, ORDER_STREAM, epoch]).permutation(rows)
            shifts = np.random.default_rng([seed, AUGMENT_STREAM, epoch])
            for i in range(steps):
                step.param_groups[0]["lr"] = settings.lr * (1 + math.cos(math.pi * len(losses) / total)) / 2
                pixels, labels = images.take(order[i * settings.batch_size : (i + 1) * settings.batch_size])
                out = model(augmented(pixels, shifts) if settings.augment else pixels)
                logits, extra = out if isinstance(out, tuple) else (out, None)
                loss = F.cross_entropy(logits, labels)
                if extra is not None:
                    loss = loss + settings.auxiliary * F.cross_entropy(extra, labels)
                losses.append(loss.item())
                if not math.isfinite(losses[-1]):
                    return model, losses
                step.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
                step.step()
        return model, losses


def augmented(pixels: Tensor, rng: np.random.Generator) -> Tensor:
    """Each image moved by up to an eighth of its side, and mirrored or not."""
    import torch
    import torch.nn.functional as F

    side, border = pixels.shape[-1], pixels.shape[-1] // 8
    padded = F.pad(pixels, (border,) * 4)
    found = torch.empty_like(pixels)
    for i, (down, across, flip) in enumerate(zip(*rng.integers(0, 2 * border + 1, (2, len(pixels))), rng.integers(0, 2, len(pixels)))):
        piece = padded[i, :, down : down + side, across : across + side]
        found[i] = piece.flip(-1) if flip else piece
    return found


def accuracy(model: Any, images: ImageSet, rows: np.ndarray, batch_size: int = 256) -> float:
    """Per cent of right answers, with the statistics of training."""
    import torch

    model.eval()
    right = 0
    with torch.no_grad():
        for start in range(0, len(rows), batch_size):
            pixels, labels = images.take(rows[start : start + batch_size])
            right += int((model(pixels).argmax(1) == labels).sum())
    return 100.0 * right / len(rows)

"""Training vision networks on images: briefly before they are scored, or from scratch to be judged.

Images are split once, by a seed of their own, into rows to train on, rows that choose and rows that are read at
the end; the split is the same for every architecture and every search seed. Training is the usual recipe of
cells: SGD with momentum, a cosine schedule, random crops and flips.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from recnas.config import Settings
from recnas.devices import Device
from recnas.errors import DataError
from recnas.seeds import stream
from recnas.train.pending import NotFinite, PendingLosses

if TYPE_CHECKING:
    from torch import Tensor

    from recnas.data.images.sets import ImageSet

Split = Literal["train", "valid", "test"]
Batch = tuple["Tensor", "Tensor"]


class ImageSource(Settings):
    """Which images a job looks at."""

    name: str = "generated"  # or a known data set: cifar10, cifar100, ...
    path: str | None = None  # folder of its files; null: in the folder RECNAS_IMAGES names
    rows: int = Field(1280, ge=2)  # of generated images
    side: int = Field(32, ge=4)  # of generated images

    def load(self) -> ImageSet:
        from recnas.data.images.sets import generated_images, load_images

        if self.name == "generated":
            return generated_images(rows=self.rows, side=self.side)
        return load_images(self.name, self.path)


class ImageSplit(Settings):
    """How images are split; the rest is for training."""

    valid: float = Field(0.2, gt=0, lt=1)  # share that chooses
    test: float = Field(0.2, gt=0, lt=1)  # share that is read at the end
    seed: int = Field(0, ge=0)  # of the split, the same for every search

    def rows(self, images: int, split: Split) -> np.ndarray:
        """Row numbers of one split."""
        order = stream(self.seed, "image-split").permutation(images)
        test, valid = round(images * self.test), round(images * self.valid)
        if min(test, valid, images - test - valid) < 1:
            raise DataError(
                f"{images} images cannot be split into three parts.",
                "Give more images, or smaller split.valid and split.test.",
            )
        rows = {"test": order[:test], "valid": order[test : test + valid], "train": order[test + valid :]}
        return rows[split]


class Sgd(Settings):
    """Stochastic gradient descent with momentum, on images."""

    epochs: int = Field(1, ge=1)  # passes over the images
    batch_size: int = Field(64, ge=2)  # images per step
    lr: float = Field(0.025, gt=0)  # learning rate
    momentum: float = Field(0.9, ge=0, lt=1)  # Nesterov's, if above 0
    weight_decay: float = Field(3e-4, ge=0)  # pulls all weights towards zero
    clip: float = Field(5.0, gt=0)  # norm of the gradient


class ImageTraining(Sgd):
    """How one network is trained from scratch."""

    device: Device = "auto"  # auto: a GPU if there is one

    epochs: int = Field(2, ge=1)  # passes over the images; the rate falls along a cosine
    rows: int | None = Field(None, ge=1)  # training images; null: all of that split
    augment: bool = True  # crops of images with a border, and mirrors
    drop_path: float = Field(0.0, ge=0, lt=1)  # rises to this over the training, for spaces that have it
    auxiliary: float = Field(0.0, ge=0)  # weight of DARTS's second classifier


class WarmNetwork(Sgd):
    """How a network is trained before it is scored; a data_share of 0 leaves it as drawn.

    SiGeo's comparison on NAS benchmarks warms each candidate on 10, 20 or 40 % of the training images (table 3
    of its paper), not a supernet; with which optimizer it does not say. Here: SGD with the benchmark's momentum
    and weight decay, and its learning rate scaled to batches of 64.
    """

    data_share: float = Field(0.0, ge=0, le=1)  # of the images
    weight_decay: float = Field(5e-4, ge=0)  # pulls all weights towards zero


def run_sgd(
    parameters: Iterable[Tensor],
    settings: Sgd,
    batches: Iterable[Batch],
    loss_of: Callable[[Tensor, Tensor], Tensor],
    rate_at: Callable[[int], float] | None = None,
) -> list[float]:
    """Train in place; the loss of every step. A loss that is not finite ends it, as the last one."""
    import torch

    parameters = list(parameters)
    sgd = torch.optim.SGD(
        parameters,
        settings.lr,
        settings.momentum,
        weight_decay=settings.weight_decay,
        nesterov=settings.momentum > 0,
    )
    device = parameters[0].device
    pending, losses = PendingLosses(device), list[float]()
    try:
        for step, (pixels, labels) in enumerate(batches):
            if rate_at is not None:
                sgd.param_groups[0]["lr"] = rate_at(step)
            loss = loss_of(pixels.to(device, non_blocking=True), labels.to(device, non_blocking=True))
            pending.add(loss.detach(), step, {"epoch": 0, "batch": step})
            if pending.due:
                losses += pending.read()
            sgd.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, settings.clip)
            sgd.step()
        losses += pending.read()
    except NotFinite as error:
        losses += [*error.before, error.value]
    sgd.zero_grad()  # whoever comes next starts without gradients
    return losses


def warm_network(network: Any, images: ImageSet, settings: WarmNetwork, seed: int) -> list[float]:
    """Train a scored network in place on a share of the images; the loss of every batch, in order.

    Rows are drawn without repetition, and a smaller share is the beginning of a larger one, so that levels
    differ in nothing else.
    """
    import torch.nn.functional as F

    if settings.data_share == 0:
        return []
    rows = warm_rows(len(images), settings, seed)
    params = dict(network.params)

    def batches() -> Iterator[Batch]:
        for epoch in range(settings.epochs):
            order = rows if epoch == 0 else stream(seed, "warm-network", epoch).permutation(rows)
            for start in range(0, len(order) - settings.batch_size + 1, settings.batch_size):
                yield images.take(order[start : start + settings.batch_size])

    return run_sgd(
        params.values(),
        settings,
        batches(),
        lambda pixels, labels: F.cross_entropy(network.forward(params, (pixels,)), labels),
    )


def warm_rows(rows: int, settings: WarmNetwork, seed: int) -> np.ndarray:
    """Which images, in the order of the first pass."""
    many = round(rows * settings.data_share)
    if many < settings.batch_size:
        raise DataError(
            f"{settings.data_share:.0%} of {rows} images are {many}, fewer than a batch of {settings.batch_size}.",
            "Use a larger share, smaller batches (score.warmup.batch_size) or more images.",
        )
    return stream(seed, "warm-network").permutation(rows)[:many]


def train_network(model: Any, images: ImageSet, rows: np.ndarray, settings: ImageTraining, seed: int) -> list[float]:
    """Train a module in place on `rows`, where its weights are; the loss of every step."""
    import torch
    import torch.nn.functional as F

    steps = len(rows) // settings.batch_size
    if steps < 1:
        raise DataError(
            f"{len(rows)} training images do not fill a batch of {settings.batch_size}.",
            "Use smaller batches or more images.",
        )
    total = steps * settings.epochs
    device = next(model.parameters()).device
    model.generator = torch.Generator(device).manual_seed(seed)
    model.train()

    def batches() -> Iterator[Batch]:
        for epoch in range(settings.epochs):
            model.drop_path = settings.drop_path * epoch / settings.epochs
            order = stream(seed, "image-order", epoch).permutation(rows)
            shifts = stream(seed, "image-augmentation", epoch)
            for i in range(steps):
                pixels, labels = images.take(order[i * settings.batch_size : (i + 1) * settings.batch_size])
                yield (augmented(pixels, shifts) if settings.augment else pixels), labels

    def loss_of(pixels: Tensor, labels: Tensor) -> Tensor:
        out = model(pixels)
        logits, extra = out if isinstance(out, tuple) else (out, None)
        loss = F.cross_entropy(logits, labels)
        return loss if extra is None else loss + settings.auxiliary * F.cross_entropy(extra, labels)

    def rate_at(step: int) -> float:
        return settings.lr * (1 + math.cos(math.pi * step / total)) / 2

    return run_sgd(model.parameters(), settings, batches(), loss_of, rate_at)


def augmented(pixels: Tensor, rng: np.random.Generator) -> Tensor:
    """Each image moved by up to an eighth of its side, and mirrored or not."""
    import torch
    import torch.nn.functional as F

    side, border = pixels.shape[-1], pixels.shape[-1] // 8
    padded = F.pad(pixels, (border,) * 4)
    moved = torch.empty_like(pixels)
    shifts = zip(*rng.integers(0, 2 * border + 1, (2, len(pixels))), rng.integers(0, 2, len(pixels)))
    for i, (down, across, flip) in enumerate(shifts):
        piece = padded[i, :, down : down + side, across : across + side]
        moved[i] = piece.flip(-1) if flip else piece
    return moved


def accuracy(model: Any, images: ImageSet, rows: np.ndarray, batch_size: int = 256) -> float:
    """Per cent of right answers, with the statistics of training."""
    import torch

    model.eval()
    device = next(model.parameters()).device
    right = torch.zeros((), dtype=torch.int64, device=device)
    with torch.no_grad():
        for start in range(0, len(rows), batch_size):
            pixels, labels = images.take(rows[start : start + batch_size])
            right += (model(pixels.to(device)).argmax(1) == labels.to(device)).sum()
    return 100.0 * int(right) / len(rows)

"""Warm-up of one scoring network: a pass over a share of the images before its proxies are computed.

SiGeo's comparison on NAS benchmarks warms each candidate on 10, 20 or 40 % of the training images (table 3 of its
paper), not a supernet; with which optimizer it does not say. Here: SGD with the benchmark's momentum and weight
decay, and its learning rate scaled to batches of 64. Rows are drawn without repetition, and a smaller share is the
beginning of a larger one, so that levels differ in nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from recnas.config import Settings
from recnas.errors import DataError

if TYPE_CHECKING:
    from recnas.data.images import ImageSet

WARM_STREAM = 17  # keeps the rows of the warm-up apart from every other draw of a seed


class WarmCells(Settings):
    """How a cell's network is trained before it is scored; a share of 0 leaves it as drawn."""

    share: float = Field(0.0, ge=0, le=1)  # of the images
    epochs: int = Field(1, ge=1)
    batch_size: int = Field(64, ge=2)
    lr: float = Field(0.025, gt=0)
    momentum: float = Field(0.9, ge=0, lt=1)
    weight_decay: float = Field(5e-4, ge=0)
    clip: float = Field(5.0, gt=0)  # norm of the gradient


def warm(network: Any, images: ImageSet, settings: WarmCells, seed: int) -> list[float]:
    """Train `network` in place; the loss of every batch, in order."""
    import torch
    import torch.nn.functional as F

    if settings.share == 0:
        return []
    rows = warm_rows(len(images), settings, seed)
    params = dict(network.params)
    step = torch.optim.SGD(
        params.values(), settings.lr, settings.momentum, weight_decay=settings.weight_decay, nesterov=settings.momentum > 0
    )
    losses: list[float] = []
    for epoch in range(settings.epochs):
        order = rows if epoch == 0 else np.random.default_rng([seed, WARM_STREAM, epoch]).permutation(rows)
        for start in range(0, len(order) - settings.batch_size + 1, settings.batch_size):
            pixels, labels = images.take(order[start : start + settings.batch_size])
            loss = F.cross_entropy(network.forward(params, (pixels,)), labels)
            step.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(params.values(), settings.clip)
            step.step()
            losses.append(loss.item())
    step.zero_grad()  # scoring starts without gradients
    return losses


def warm_rows(rows: int, settings: WarmCells, seed: int) -> np.ndarray:
    """Which images, in the order of the first pass."""
    many = round(rows * settings.share)
    if many < settings.batch_size:
        raise DataError(
            f"{settings.share:.0%} of {rows} images are {many}, fewer than a batch of {settings.batch_size}.",
            "Use a larger share, smaller batches (score.warmup.batch_size) or more images.",
        )
    return np.random.default_rng([seed, WARM_STREAM]).permutation(rows)[:many]

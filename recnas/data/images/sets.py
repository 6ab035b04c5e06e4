"""Images to score vision networks on: real files you have, or generated ones.

    images = load_images("cifar10", "data/cifar-10-batches-bin")
    batches = image_batches(images, batch=64, count=2, seed=0)     # [(float32 [64, 3, 32, 32], int64 [64]), ...]

    images = generated_images(classes=10, rows=640, side=32, seed=0)

Files are read as their publishers made them (`recnas.data.images.files`); nothing is downloaded. A `.npz` with
`images` (uint8, `[N, H, W, 3]` or `[N, H, W]`) and `labels` works for any data set.

Two questions about a proxy need no other data: does it look at the labels (`labels="random"`), and at the
images at all (`inputs="gaussian"`)?
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from recnas.data.images.files import KNOWN, Known, read_images, read_npz
from recnas.errors import ConfigError, DataError

FOLDER = "RECNAS_IMAGES"  # where image files are, unless a path is given

Labels = Literal["true", "random"]
Inputs = Literal["data", "gaussian"]
Split = Literal["train", "test"]


@dataclass(frozen=True)
class ImageSet:
    """Images as stored, and how to normalise them.

    Args:
        name: the data set.
        images: uint8 `[N, H, W, 3]`.
        labels: int64 `[N]`, below `classes`.
        classes: how many classes there are, seen here or not.
        mean, std: of each colour over the training images, on the scale of the stored bytes.
    """

    name: str
    images: np.ndarray
    labels: np.ndarray
    classes: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def side(self) -> int:
        return int(self.images.shape[1])

    def only(self, rows: np.ndarray) -> ImageSet:
        """Some of the images, with the same classes and normalisation."""
        return replace(self, images=self.images[rows], labels=self.labels[rows])

    def take(self, rows: np.ndarray) -> tuple[Tensor, Tensor]:
        """Normalised float32 `[B, 3, H, W]` and labels of some rows."""
        pixels = (self.images[rows].astype(np.float32) - np.asarray(self.mean, np.float32)) / np.asarray(
            self.std, np.float32
        )
        return torch.from_numpy(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))), torch.from_numpy(self.labels[rows])


def load_images(name: str, path: str | Path | None = None, split: Split = "train") -> ImageSet:
    """Read a known data set from its files.

    Args:
        name: one of `cifar10`, `cifar100`, `imagenet16-120`, `mnist`, `fashion-mnist`.
        path: the folder with the files, or one `.npz`; by default `$RECNAS_IMAGES/<name>`.
        split: which of the publisher's two parts.
    """
    known = KNOWN.get(name)
    if known is None:
        raise ConfigError(f"there is no image data set called {name!r}.", f"Choose one of: {', '.join(KNOWN)}.")
    where = _where(known, path)
    images, labels = read_npz(where) if where.suffix == ".npz" else read_images(known, where, split)
    if images.ndim == 3:
        images = np.repeat(images[..., None], 3, axis=3)
    if known.pad:
        images = np.pad(images, ((0, 0), (known.pad, known.pad), (known.pad, known.pad), (0, 0)))
    labels = labels.astype(np.int64)
    if len(labels) and not 0 <= labels.min() <= labels.max() < known.classes:
        raise DataError(
            f"{where} has labels from {labels.min()} to {labels.max()}, but {name} has {known.classes} classes.",
            "Check that the file belongs to this data set.",
        )
    return ImageSet(name, images, labels, known.classes, known.mean, known.std)


def _where(known: Known, path: str | Path | None) -> Path:
    if path is not None:
        where = Path(path)
    elif folder := os.environ.get(FOLDER):
        if Path(folder).is_file():
            raise DataError(
                f"{FOLDER} is {folder}, a file; it must be a folder that has {known.name}/ in it.",
                f"Give the file itself: images.path={folder}, or score.images.path={folder} where cells are scored.",
            )
        where = Path(folder) / known.name
    else:
        raise DataError(
            f"where the files of {known.name} are is not known.",
            f"Give their folder, or set {FOLDER} to a folder that has them in {known.name}/. {known.source}",
        )
    if not where.exists():
        raise DataError(f"there is nothing at {where}.", f"{known.source} Then put its files there.")
    return where


def generated_images(classes: int = 10, rows: int = 640, side: int = 32, seed: int = 0) -> ImageSet:
    """Images in which every class has a smooth pattern of its own, under noise and brightness of the image's own.

    A stand-in for tests and first tries: a network can learn it, but no claim about real images follows.
    """
    if min(classes, rows, side) < 1:
        raise ConfigError("generated images need at least one class, one row and one pixel.")
    rng = np.random.default_rng(seed)
    axis = np.linspace(0, 2 * np.pi, side, endpoint=False)
    pattern = np.zeros((classes, side, side, 3))
    for _ in range(4):  # a few slow waves per colour
        down, across = rng.integers(0, 4, (2, classes, 1, 1, 3))
        phase = rng.uniform(0, 2 * np.pi, (classes, 1, 1, 3))
        pattern += np.cos(down * axis[None, :, None, None] + across * axis[None, None, :, None] + phase)
    labels = rng.integers(classes, size=rows)
    light = rng.normal(0, 20, (rows, 1, 1, 1))
    noise = rng.normal(0, 30, (rows, side, side, 3)).astype(np.float32)
    pixels = np.clip(128 + light + 20 * pattern[labels] + noise, 0, 255).astype(np.uint8)
    mean, std = pixels.mean((0, 1, 2)), pixels.std((0, 1, 2)) + 1e-6
    return ImageSet("generated", pixels, labels, classes, _triple(mean), _triple(std))


def _triple(values: np.ndarray) -> tuple[float, float, float]:
    red, green, blue = map(float, values)
    return red, green, blue


def image_batches(
    images: ImageSet,
    batch: int = 64,
    count: int = 1,
    seed: int = 0,
    labels: Labels = "true",
    inputs: Inputs = "data",
) -> list[tuple[Tensor, Tensor]]:
    """`count` batches of different images, drawn at random; the same seed gives the same batches.

    Random labels and Gaussian inputs leave the other half as it is, so that one thing changes at a time.
    """
    if batch < 1 or count < 1:
        raise ConfigError(f"{count} batches of {batch} images cannot be drawn.", "Use at least one of each.")
    if batch * count > len(images):
        raise DataError(
            f"{count} batches of {batch} images need {batch * count} rows; {images.name} has {len(images)} here.",
            "Ask for fewer or smaller batches, or give more of the data.",
        )
    drawing, labelling, imaging = (np.random.default_rng([seed, stream]) for stream in range(3))
    rows = drawing.permutation(len(images))[: batch * count].reshape(count, batch)
    batches = []
    for some in rows:
        pixels, classes = images.take(some)
        if inputs == "gaussian":
            pixels = torch.from_numpy(imaging.standard_normal(tuple(pixels.shape), dtype=np.float32))
        if labels == "random":
            classes = torch.from_numpy(labelling.integers(images.classes, size=batch))
        batches.append((pixels, classes))
    return batches

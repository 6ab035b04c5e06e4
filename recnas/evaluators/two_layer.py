"""Two-layer networks of SiGeo's experiment 1: their data, their training, and the statistics on the way."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor

from recnas.config import Settings
from recnas.errors import ConfigError, DataError
from recnas.proxies.base import Stats
from recnas.proxies.gradients import GradientMoments, batch_gradients
from recnas.proxies.network import ScoringBatch
from recnas.proxies.sigeo import fisher_rao_term, zico_term
from recnas.runs.records import TwoLayerTraining
from recnas.seeds import stream

STATISTICS = {
    "loss": -1.0,
    "fisher_rao": 1.0,
    "mean_gradient": 1.0,
    "zico": 1.0,
    "width": 1.0,
}  # and which way is better
_BATCH = {"digits": 32}
_RATE = {"digits": 0.1}


class Experiment1(Settings):
    """`recnas theory experiment1`."""

    data: Literal["digits", "mnist", "fashion-mnist"] = "digits"
    path: str | None = None  # folder of the four idx files; null: in the folder RECNAS_IMAGES names
    widths: tuple[int, ...] = tuple(range(2, 49, 2))
    epochs: int = Field(3, ge=1)
    batch_size: int | None = Field(None, ge=1)  # null: 128 as in the paper; 32 for digits
    lr: float | None = Field(None, gt=0)  # null: 0.02 as in the paper; 0.1 for digits
    warmup: tuple[float, ...] = (0.0, 0.1, 0.4)  # shares of the first epoch
    batches: int = Field(4, ge=2)  # that give the statistics
    seeds: int = Field(1, ge=1)  # statistics and losses are averaged over them
    resamples: int = Field(1000, ge=0)  # of the intervals

    @model_validator(mode="after")
    def _sensible(self) -> Experiment1:
        if len(set(self.widths)) < 3 or min(self.widths) < 1:
            raise ValueError("widths: three different ones or more, none below 1, can be ranked")
        if not self.warmup or min(self.warmup) < 0 or max(self.warmup) > 1:
            raise ValueError("warmup: shares of the first epoch, from 0 to 1")
        return self

    @property
    def batch(self) -> int:
        return self.batch_size or _BATCH.get(self.data, 128)

    @property
    def rate(self) -> float:
        return self.lr or _RATE.get(self.data, 0.02)


@dataclass(frozen=True)
class Images:
    """Flattened, normalised images `[N, d]` and classes of both splits."""

    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    classes: int

    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for part in (*self.train, *self.test):
            digest.update(part.numpy().tobytes())
        return digest.hexdigest()


class TwoLayer:
    """W_2 relu(W_1 x + b_1) + b_2, uniform within 1 / sqrt(fan-in) at the start; scored like any network."""

    def __init__(self, inputs: int, width: int, classes: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed * 100_003 + width)
        self.params: dict[str, Tensor] = {}
        shapes = {"1.weight": (width, inputs), "1.bias": (width,), "2.weight": (classes, width), "2.bias": (classes,)}
        for name, shape in shapes.items():
            bound = (inputs if name[0] == "1" else width) ** -0.5
            leaf = torch.empty(shape).uniform_(-bound, bound, generator=generator)
            self.params[name] = leaf.requires_grad_()

    def forward(self, params: Mapping[str, Tensor], inputs: Sequence[Tensor]) -> Tensor:
        hidden = F.linear(inputs[0], params["1.weight"], params["1.bias"]).relu()
        return F.linear(hidden, params["2.weight"], params["2.bias"])


@dataclass(frozen=True)
class TrainAndMeasure:
    """The work of one network, given by seed and width; opened once per worker."""

    settings: Experiment1

    def open(self) -> Callable[[tuple[int, int]], TwoLayerTraining]:
        images = load(self.settings)
        return lambda task: train_and_measure(self.settings, images, *task)


def train_and_measure(settings: Experiment1, images: Images, seed: int, width: int) -> TwoLayerTraining:
    """One network from start to end."""
    x, y = images.train
    network = TwoLayer(x.shape[1], width, images.classes, seed)
    leaves = list(network.params.values())
    order = schedule(len(y), settings.batch, settings.epochs, seed)
    per_epoch = len(order) // settings.epochs
    stops = [round(share * per_epoch) for share in settings.warmup]
    measured: dict[int, dict[str, float]] = {}
    for step in range(len(order) + 1):
        if step in stops and step not in measured:
            ahead = [order[(step + k) % len(order)] for k in range(settings.batches)]
            measured[step] = statistics_of(network, [ScoringBatch((x[some],), y[some]) for some in ahead])
        if step == len(order):
            break
        some = order[step]
        loss = F.cross_entropy(network.forward(network.params, (x[some],)), y[some])
        _check(loss, width, settings)
        with torch.no_grad():
            for leaf, gradient in zip(leaves, torch.autograd.grad(loss, leaves)):
                leaf -= settings.rate * gradient
    with torch.no_grad():
        final = {
            f"{split}_loss": F.cross_entropy(network.forward(network.params, (part[0],)), part[1])
            for split, part in (("train", images.train), ("test", images.test))
        }
    for loss in final.values():
        _check(loss, width, settings)
    return TwoLayerTraining(
        seed=seed,
        width=width,
        statistics=[measured[stop] for stop in stops],
        **{name: float(loss) for name, loss in final.items()},
    )


def _check(loss: Tensor, width: int, settings: Experiment1) -> None:
    if not torch.isfinite(loss):
        raise ConfigError(f"training diverged at width {width} with a learning rate of {settings.rate}.", "Lower lr.")


def statistics_of(network: TwoLayer, batches: Sequence[ScoringBatch]) -> dict[str, float]:
    stats = Stats(network, batches)
    moments = stats.get(GradientMoments)
    sizes = [
        sum(float(g.abs().sum(dtype=torch.float64)) for g in gradients)
        for gradients, _ in batch_gradients(stats, list(network.params.values()))
    ]
    return {
        "loss": fmean(moments.losses),
        "fisher_rao": float(np.exp(fisher_rao_term(moments))),
        "mean_gradient": fmean(sizes),
        "zico": zico_term(moments) or 0.0,
        "width": float(len(network.params["1.bias"])),
    }


def schedule(rows: int, batch: int, epochs: int, seed: int) -> list[Tensor]:
    """Rows of every batch, epoch after epoch; the same for all widths. A last, smaller batch is left out."""

    def epoch(number: int) -> Iterator[Tensor]:
        drawn = stream(seed, "two-layer-order", number).permutation(rows)
        for start in range(0, rows - batch + 1, batch):
            yield torch.from_numpy(drawn[start : start + batch])

    return [some for number in range(epochs) for some in epoch(number)]


def load(settings: Experiment1) -> Images:
    if settings.data == "digits":
        from sklearn.datasets import load_digits

        pixels, labels = load_digits(return_X_y=True)
        drawn = np.random.default_rng(0).permutation(len(labels))
        test, train = np.split(drawn, [len(labels) // 5])
        return _normalised((pixels[train], labels[train]), (pixels[test], labels[test]))
    from recnas.data.images.sets import load_images

    if settings.path is not None and Path(settings.path).suffix == ".npz":
        raise DataError(
            "experiment 1 needs training and test images, and an .npz has one set.", "Give the folder of the idx files."
        )
    splits: tuple[Literal["train", "test"], ...] = ("train", "test")
    parts = []
    for split in splits:
        images = load_images(settings.data, settings.path, split)
        inner = images.images[:, 2:-2, 2:-2, 0]  # 28 x 28 again, one colour
        parts.append((inner.reshape(len(inner), -1), images.labels))
    return _normalised(*parts)


def _normalised(train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray]) -> Images:
    mean, std = train[0].mean(dtype=np.float64), train[0].std(dtype=np.float64)

    def part(pixels: np.ndarray, labels: np.ndarray) -> tuple[Tensor, Tensor]:
        scaled = (pixels.astype(np.float32) - np.float32(mean)) / np.float32(std)
        return torch.from_numpy(scaled), torch.from_numpy(labels.astype(np.int64))

    return Images(part(*train), part(*test), 10)

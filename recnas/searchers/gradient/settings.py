"""What the searches on a supernet of vision cells can be told; no torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from recnas.config import Settings
from recnas.devices import Device

Hessian = Literal["difference", "exact"]


class NasiSettings(Settings):
    """The defaults are the paper's for DARTS; nu is relative to the networks at hand."""

    method: Literal["nasi"] = "nasi"
    steps: int = Field(100, ge=1)  # T; the paper's longer search has 4 T
    batch_size: int = Field(64, ge=2)  # images per step
    mu: float = Field(2.0, ge=0)  # weight of what lies above the limit nu
    nu: Literal["mean", "median", "adaptive"] | float = (
        "mean"  # limit of the trace: a number, from random architectures, or moving along
    )
    nu_archs: int = Field(50, ge=1)  # of "mean" and "median": random architectures
    nu_first: float = Field(1000.0, gt=0)  # of "adaptive": nu_0
    estimator: Literal["straight-through", "averages"] = "straight-through"  # of the gradient by alpha
    scale: Literal["largest", "own"] = (
        "largest"  # of "straight-through": a step's gradient is divided by the largest norm so far, or by its own
    )
    temperature: float = Field(1.0, gt=0)  # of the Gumbel softmax
    labels: Literal["true", "random"] = "true"  # of the images, or drawn at random
    inputs: Literal["data", "gaussian"] = "data"  # the images, or noise
    device: Device = "auto"  # of the supernet; auto: a GPU if there is one


class DartsSettings(Settings):
    """The defaults are the paper's on CIFAR-10, but for the number of epochs, 50 there."""

    method: Literal["darts"] = "darts"
    order: Literal[1, 2] = 2  # of the gradient by alpha; 1 takes the weights as they are
    hessian: Hessian = "difference"  # of the second order
    epochs: int = Field(10, ge=1)  # of the search
    batch_size: int = Field(64, ge=2)  # images per step
    train_share: float = Field(0.5, gt=0, lt=1)  # of the images; the others are for alpha
    max_rows: int | None = Field(None, ge=4)  # use only so many images; null: all
    lr: float = Field(0.025, gt=0)  # of the weights, falling along a cosine to lr_last
    lr_last: float = Field(0.001, ge=0)  # rate of the weights at the end
    momentum: float = Field(0.9, ge=0, lt=1)  # of the weights
    weight_decay: float = Field(3e-4, ge=0)  # of the weights
    clip: float = Field(5.0, gt=0)  # norm of the weights' gradient
    alpha_lr: float = Field(3e-4, gt=0)  # learning rate of alpha
    alpha_weight_decay: float = Field(1e-3, ge=0)  # of alpha
    device: Device = "auto"  # of the supernet; auto: a GPU if there is one


GRADIENT_METHODS: dict[str, type[Settings]] = {"nasi": NasiSettings, "darts": DartsSettings}

"""How candidates are evaluated: what the sections `score`, `shared_weights` and `query_training` may hold."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator

from recnas.config import Settings
from recnas.devices import Device
from recnas.errors import ConfigError
from recnas.proxies.registry import get_proxies
from recnas.proxies.sigeo import Lambdas
from recnas.train.images import WarmNetwork
from recnas.train.settings import OnePass


def known_proxies(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names, if every one is a proxy's and there is one at least."""
    try:
        get_proxies(names)
    except ConfigError as error:
        raise ValueError(error.what) from None
    if not names:
        raise ValueError("name at least one proxy")
    return names


class LambdaSettings(Settings):
    """Weights of SiGeo's terms; null takes the paper's choice for the warm-up at hand."""

    zico: float | None = None  # weight of the gradient statistics
    fr: float | None = None  # weight of the Fisher-Rao norm
    loss: float | None = None  # weight of the training loss, which is subtracted

    def settle(self, warmed: bool) -> Lambdas:
        paper = Lambdas.for_case("ctr", warmed)
        return Lambdas(
            *(
                p if mine is None else mine
                for mine, p in ((self.zico, paper.zico), (self.fr, paper.fr), (self.loss, paper.loss))
            )
        )


class ScoreSettings(Settings):
    """How a CTR candidate is scored by proxies."""

    proxies: tuple[str, ...] = (
        "sigeo",
    )  # see recnas score --list; a search goes by the first unless objectives are given
    batches: int = Field(4, ge=1)  # of training rows, the same for every candidate
    batch_size: int = Field(512, ge=1)  # rows in each
    seed: int = Field(0, ge=0)  # of the choice of rows and of proxies that draw random numbers
    sigeo: LambdaSettings = LambdaSettings()
    device: Device = "auto"  # where networks are scored; auto: a GPU if there is one

    _known = field_validator("proxies")(known_proxies)

    def with_proxies(self, names: tuple[str, ...]) -> ScoreSettings:
        """The same scoring with other proxies; names are checked."""
        return ScoreSettings.model_validate(self.model_dump() | {"proxies": names})


class SharedWeightsSettings(Settings):
    """`evaluator: shared-weights`: validation log loss under the shared weights after fine-tuning the last layer."""

    steps: int = Field(500, ge=0)  # of fine-tuning the last layer; 0: the shared weights as they are
    lr: float = Field(0.04, gt=0)  # of the fine-tuning
    batch_size: int = Field(512, ge=1)  # of the fine-tuning
    valid_rows: int = Field(100_000, ge=1)  # validation rows that are read


class QueryTraining(Settings):
    """`evaluator: training`: validation log loss of a candidate after a short training from scratch."""

    rows: int | None = Field(100_000, ge=1)  # training rows; null: all
    valid_rows: int | None = Field(None, ge=1)  # null: all
    train: OnePass = OnePass()


class VisionScoreSettings(Settings):
    """How a vision network is scored by proxies, at initialisation or after a warm-up of its own."""

    proxies: tuple[str, ...] = (
        "sigeo",
        "naswot",
        "params",
    )  # see recnas score --list; a search goes by the first unless objectives are given
    batches: int = Field(1, ge=1)  # of images, the same for every candidate
    batch_size: int = Field(64, ge=2)  # images in each
    channels: int | None = Field(None, ge=1)  # of the scored networks; null: as the config has them
    cells: int | None = Field(None, ge=1)  # per stage; of DARTS: in all; null: as the config has them
    seed: int = Field(0, ge=0)  # of the choice of images and of initial weights
    warmup: WarmNetwork = WarmNetwork()
    device: Device = "auto"  # where networks are warmed and scored; auto: a GPU if there is one

    _known = field_validator("proxies")(known_proxies)

    def sizes(self, network: dict[str, Any]) -> dict[str, Any]:
        """Sizes of the scored network, given those of the config."""
        own = {"channels": self.channels, "cells": self.cells}
        return network | {name: value for name, value in own.items() if value is not None}

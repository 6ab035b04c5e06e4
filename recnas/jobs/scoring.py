"""Scoring candidates of a warmed supernet, in any number of processes.

`freeze` writes what scoring needs into one file: the shared weights (no optimizer state) and k batches of
training rows whose embedding rows are already looked up. Workers map that file: the pages are in memory
once, whatever their number, and a candidate is a set of views into them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import Field, field_validator
from torch import Tensor

from recnas.config import Settings
from recnas.data.loader import BatchLoader
from recnas.data.prepared import PreparedData
from recnas.errors import ConfigError
from recnas.jobs.settings import SpaceSettings, make_space
from recnas.model.embeddings import Embeddings
from recnas.model.nasrec_plan import NetShape
from recnas.model.scored import ScoredNasrec
from recnas.model.supernet import Supernet
from recnas.proxies.base import ProxyError, Score
from recnas.proxies.engine import score
from recnas.proxies.network import ScoringBatch
from recnas.proxies.registry import get_proxies
from recnas.proxies.sigeo import Lambdas
from recnas.train.checkpoint import load, load_latest, save

BATCH_STREAM = 3  # keeps the order of the scoring batches apart from that of the warm-up


class LambdaSettings(Settings):
    """Weights of SiGeo's terms; null takes the paper's choice for the warm-up at hand."""

    zico: float | None = None
    fr: float | None = None
    loss: float | None = None

    def settle(self, warmed: bool) -> Lambdas:
        paper = Lambdas.for_case("ctr", warmed)
        return Lambdas(
            *(
                p if mine is None else mine
                for mine, p in ((self.zico, paper.zico), (self.fr, paper.fr), (self.loss, paper.loss))
            )
        )


class ScoreSettings(Settings):
    """How a candidate is scored."""

    proxies: tuple[str, ...] = ("sigeo",)
    batches: int = Field(4, ge=1)
    batch_size: int = Field(512, ge=1)
    seed: int = Field(0, ge=0)  # of the choice of rows and of proxies that draw random numbers
    sigeo: LambdaSettings = LambdaSettings()

    @field_validator("proxies")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        try:
            get_proxies(names)
        except ConfigError as error:
            raise ValueError(error.what) from None
        if not names:
            raise ValueError("name at least one proxy")
        return names


def freeze(
    folder: Path,
    supernet: Supernet,
    embeddings: Embeddings,
    data: PreparedData,
    settings: ScoreSettings,
    made_from: Mapping[str, Any],
) -> Path:
    """Write weights and batches for `ScoreWork`, unless the same are there already."""
    made_from = {
        **made_from,
        "batches": settings.batches,
        "batch_size": settings.batch_size,
        "seed": settings.seed,
    }
    found = load_latest(folder)
    if found is not None and found.made_from == made_from:
        return found.path
    tensors = {f"network/{name}": tensor for name, tensor in supernet.storages.items()}
    for number, batch in enumerate(scoring_batches(data, embeddings, settings)):
        for name, tensor in zip(("dense", "embedded", "label"), (*batch.inputs, batch.labels)):
            tensors[f"batch/{number}/{name}"] = tensor
    return save(folder, 0, tensors, {}, made_from, keep=1)


def scoring_batches(
    data: PreparedData, embeddings: Embeddings, settings: ScoreSettings
) -> list[ScoringBatch]:
    """The same k batches of training rows for every candidate."""
    loader = BatchLoader(
        data,
        "train",
        settings.batch_size,
        shuffle=True,
        seed=settings.seed * 1000 + BATCH_STREAM,
        drop_last=True,
    )
    if len(loader) < settings.batches:
        loader = BatchLoader(
            data,
            "train",
            max(1, data.rows("train") // settings.batches),
            shuffle=True,
            seed=settings.seed,
            drop_last=True,
        )
    found = []
    with torch.no_grad():
        for _, batch in zip(range(settings.batches), loader.epoch()):
            found.append(
                ScoringBatch((batch.dense, embeddings.lookup(batch.ids).detach().cpu()), batch.label)
            )
    return found


@dataclass(frozen=True)
class ScoreWork:
    """Scores one architecture (as a dictionary) after the other; opened once per worker."""

    frozen: str
    space: SpaceSettings
    shape: NetShape
    settings: ScoreSettings
    warmed: bool

    def cargo(self) -> dict[str, Tensor]:
        """Weights and batches, for workers that do not see the file."""
        return load(Path(self.frozen)).tensors

    def open(self, cargo: dict[str, Tensor] | None = None) -> Callable[[dict[str, Any]], dict[str, Any]]:
        tensors = self.cargo() if cargo is None else cargo
        space = make_space(self.space)
        weights = {
            name.removeprefix("network/"): tensor
            for name, tensor in tensors.items()
            if name.startswith("network/")
        }
        supernet = Supernet(space, self.shape, tensors=weights)
        batches = [
            ScoringBatch(
                (tensors[f"batch/{i}/dense"], tensors[f"batch/{i}/embedded"]), tensors[f"batch/{i}/label"]
            )
            for i in range(self.settings.batches)
        ]
        proxies = get_proxies(self.settings.proxies, lambdas=self.settings.sigeo.settle(self.warmed))

        def call(described: dict[str, Any]) -> dict[str, Any]:
            started = time.monotonic()
            network = ScoredNasrec.of(supernet.candidate(space.from_dict(described)))
            try:
                scores = score(network, batches, proxies, self.settings.seed)
            except ProxyError as error:  # one bad candidate must not end a night's search
                return {"failed": error.what, "seconds": time.monotonic() - started}
            return {"scores": as_json(scores), "seconds": time.monotonic() - started}

        return call


def as_json(scores: Mapping[str, Score]) -> dict[str, Any]:
    return {
        name: {"value": s.value, "terms": dict(s.terms), **({"reason": s.reason} if s.reason else {})}
        for name, s in scores.items()
    }

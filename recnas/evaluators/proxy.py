"""CTR candidates by proxies, on a supernet that is warmed up or as drawn, in any number of processes.

`freeze` writes what scoring needs into one file: the shared weights (no optimizer state) and k batches of
training rows whose embedding rows are already looked up. Workers map that file: the pages are in memory
once, whatever their number, and a candidate is a set of views into them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recnas.data.loader import BatchLoader
from recnas.data.prepared import PreparedData
from recnas.devices import choose_device
from recnas.errors import SpaceError
from recnas.evaluators.base import Evaluation
from recnas.evaluators.settings import ScoreSettings
from recnas.model.embeddings import Embeddings
from recnas.model.nasrec.scorable import ScoredNasrec
from recnas.model.nasrec.supernet import Supernet
from recnas.proxies.base import Proxy, ProxyError
from recnas.proxies.engine import score
from recnas.proxies.network import ScoringBatch
from recnas.proxies.registry import get_proxies
from recnas.runs.records import ScoreRecord
from recnas.seeds import stream_seed
from recnas.space.nasrec.layers import NetShape
from recnas.space.settings import SpaceSettings, make_ctr_space
from recnas.train.checkpoint import load, load_latest, save


def freeze(
    folder: Path,
    supernet: Supernet,
    embeddings: Embeddings,
    data: PreparedData,
    settings: ScoreSettings,
    made_from: Mapping[str, Any],
) -> Path:
    """Write weights and batches for `ProxyEvaluator`, unless the same are there already."""
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
        found_there = (*batch.inputs, batch.labels, batch.weights, batch.label_weights)
        for name, tensor in zip(("dense", "embedded", "label", "weight", "label_weights"), found_there):
            if tensor is not None:
                tensors[f"batch/{number}/{name}"] = tensor
    return save(folder, 0, tensors, {}, made_from, keep=1)


def scoring_batches(data: PreparedData, embeddings: Embeddings, settings: ScoreSettings) -> list[ScoringBatch]:
    """The same k batches of training rows for every candidate, in an order of their own."""
    loader = BatchLoader(
        data,
        "train",
        min(settings.batch_size, max(1, data.rows("train") // settings.batches)),  # little data: smaller batches
        shuffle=True,
        seed=stream_seed(settings.seed, "scoring-batches"),
        drop_last=True,
    )
    batches = []
    with torch.no_grad():
        for _, batch in zip(range(settings.batches), loader.epoch()):
            inputs = batch.dense, embeddings.lookup(batch.ids).detach().cpu()
            batches.append(ScoringBatch(inputs, batch.label, batch.weight, batch.label_weights))
    return batches


@dataclass(frozen=True)
class ProxyEvaluator:
    """Scores one architecture (as a dictionary) after the other; opened once per worker."""

    frozen: str
    space: SpaceSettings
    shape: NetShape
    settings: ScoreSettings
    warmed: bool

    @property
    def device(self) -> str:
        return self.settings.device

    def cargo(self) -> dict[str, Tensor]:
        """Weights and batches, for workers that do not see the file."""
        return load(Path(self.frozen)).tensors

    def open(self, cargo: dict[str, Tensor] | None = None) -> Callable[[dict[str, Any]], Evaluation]:
        device = choose_device(self.settings.device, "score.device")
        tensors = self.cargo() if cargo is None else cargo
        if device.type != "cpu":  # once per process: every candidate is a set of views into them
            tensors = {name: tensor.to(device) for name, tensor in tensors.items()}
        space = make_ctr_space(self.space)
        weights = {
            name.removeprefix("network/"): tensor for name, tensor in tensors.items() if name.startswith("network/")
        }
        supernet = Supernet(space, self.shape, tensors=weights)
        batches = [
            ScoringBatch(
                (tensors[f"batch/{i}/dense"], tensors[f"batch/{i}/embedded"]),
                tensors[f"batch/{i}/label"],
                tensors.get(f"batch/{i}/weight"),
                tensors.get(f"batch/{i}/label_weights"),
            )
            for i in range(self.settings.batches)
        ]
        proxies = get_proxies(self.settings.proxies, lambdas=self.settings.sigeo.settle(self.warmed))

        def call(described: dict[str, Any]) -> Evaluation:
            try:
                network = ScoredNasrec.of(supernet.candidate(space.from_dict(described)))
            except SpaceError as error:  # a seed may be wider than what a supernet holds
                return Evaluation(0.0, failed=error.what)
            return evaluate_by_proxies(network, batches, proxies, self.settings.seed)

        return call


def evaluate_by_proxies(
    network: Any, batches: Sequence[ScoringBatch], proxies: Sequence[Proxy], seed: int
) -> Evaluation:
    """All scores of one network; one that cannot be scored is a failed candidate, not the end of a search."""
    started = time.monotonic()
    try:
        scores = score(network, batches, proxies, seed)
    except ProxyError as error:
        return Evaluation(time.monotonic() - started, failed=error.what)
    records = {
        name: ScoreRecord(value=s.value, terms=dict(s.terms), reason=s.reason or None) for name, s in scores.items()
    }
    return Evaluation(time.monotonic() - started, {name: record.value for name, record in records.items()}, records)

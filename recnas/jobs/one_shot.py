"""The one-shot baseline: a candidate's validation log loss under the shared weights.

As in NASRec's search, everything but the last layer stays as the warm-up left it; the head is fine-tuned on
training rows for some steps (a copy: the shared weights never change), and validation rows are read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from recnas.data.loader import BatchLoader
from recnas.data.prepared import PreparedData
from recnas.jobs.search_settings import SHARED_LOSS, OneShotSettings
from recnas.jobs.settings import SpaceSettings, make_space
from recnas.jobs.training import make_embeddings, net_shape
from recnas.model.embeddings import Embeddings
from recnas.model.supernet import Candidate, Supernet
from recnas.train.checkpoint import load, load_latest, save
from recnas.train.evaluate import evaluate
from recnas.train.loop import SupernetPaths
from recnas.train.schedule import Schedule
from recnas.train.settings import TrainSettings

TUNE_STREAM = 5  # keeps the order of the fine-tuning rows apart from that of the warm-up


@dataclass(frozen=True)
class OneShotWork:
    """Evaluates one architecture (as a dictionary) after the other; opened once per worker."""

    frozen: str
    data: str
    space: SpaceSettings
    train: TrainSettings
    settings: OneShotSettings
    seed: int

    @staticmethod
    def freeze(
        folder: Path, supernet: Supernet, embeddings: Embeddings, made_from: Mapping[str, Any]
    ) -> Path:
        """Write shared weights and tables for the workers to map, unless they are there already."""
        made_from = {**made_from, "supernet": supernet.describe(), "tables": True}
        found = load_latest(folder)
        if found is not None and found.made_from == made_from:
            return found.path
        tensors = {f"network/{name}": tensor for name, tensor in supernet.storages.items()}
        tensors |= {f"table/{name}": table for name, table in embeddings.state_dict()["weights"].items()}
        return save(folder, 0, tensors, {}, made_from, keep=1)

    def cargo(self) -> dict[str, Tensor]:
        """Shared weights and tables, for workers that do not see the file."""
        return load(Path(self.frozen)).tensors

    def open(self, cargo: dict[str, Tensor] | None = None) -> Callable[[dict[str, Any]], dict[str, Any]]:
        tensors = self.cargo() if cargo is None else cargo
        data = PreparedData.open(self.data)
        space = make_space(self.space)
        weights = {
            name.removeprefix("network/"): tensor
            for name, tensor in tensors.items()
            if name.startswith("network/")
        }
        supernet = Supernet(space, net_shape(data.schema, self.train), tensors=weights)
        embeddings = make_embeddings(data.schema, self.train, self.seed, torch.device("cpu"))
        for name, table in embeddings.state_dict()["weights"].items():  # aliases of the live tables
            table.copy_(tensors[f"table/{name}"])

        def call(described: dict[str, Any]) -> dict[str, Any]:
            started = time.monotonic()
            candidate = supernet.candidate(space.from_dict(described))
            tuned = self._tune(candidate, embeddings, data)
            metrics = evaluate(
                lambda dense, embedded: candidate.forward(tuned, dense, embedded), embeddings, data, "valid",
                batch_size=self.train.eval_batch_size, rows=self.settings.valid_rows,
            )  # fmt: skip
            terms = {"auc": metrics["auc"]} if metrics["auc"] is not None else {}
            scores = {SHARED_LOSS: {"value": metrics["logloss"], "terms": terms}}
            return {"scores": scores, "seconds": time.monotonic() - started}

        return call

    def _tune(self, candidate: Candidate, embeddings: Embeddings, data: PreparedData) -> dict[str, Tensor]:
        """The candidate's weights with a head of its own, fine-tuned with Adagrad."""
        params = {name: leaf.detach() for name, leaf in candidate.leaves.items()}
        plan = candidate.plan
        head = [*plan.head.weight, *([plan.head.bias] if plan.head.bias else [])]
        params |= {name: params[name].clone().requires_grad_() for name in head}
        sums = {name: torch.zeros_like(params[name]) for name in head}
        schedule = Schedule(
            "cosine", self.settings.lr, max(1, self.settings.steps), warmup=self.train.warmup_share
        )
        for step, batch in enumerate(self._batches(data)):
            logits = candidate.forward(params, batch.dense, embeddings.lookup(batch.ids))
            loss = F.binary_cross_entropy_with_logits(logits, batch.label)
            found = torch.autograd.grad(loss, [params[name] for name in head])
            with torch.no_grad():
                for name, gradient in zip(head, found):
                    rate = schedule(step) * ((self.train.head_lr_share or SupernetPaths.head_lr_share) if name in plan.head.weight else 1.0)
                    sums[name].addcmul_(gradient, gradient)
                    params[name].addcdiv_(gradient, sums[name].sqrt().add_(self.train.eps), value=-rate)
        return {name: tensor.detach() for name, tensor in params.items()}

    def _batches(self, data: PreparedData) -> Iterator[Any]:
        loader = BatchLoader(
            data, "train", self.settings.batch_size, shuffle=True, seed=self.seed * 1000 + TUNE_STREAM
        )
        left = self.settings.steps
        while left > 0:
            for batch in loader.epoch():
                if left == 0:
                    return
                left -= 1
                yield batch

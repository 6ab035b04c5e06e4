"""CTR candidates by their validation log loss under the shared weights: the one-shot search of NASRec.

As in NASRec's search, everything but the last layer stays as the warm-up left it; the head is fine-tuned on
training rows for some steps (a copy: the shared weights never change), and validation rows are read. With no
steps at all it is the loss of the shared weights as they are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recnas.data.batch import Batch
from recnas.data.loader import BatchLoader
from recnas.data.prepared import PreparedData
from recnas.errors import SpaceError
from recnas.evaluators.base import VALID_LOGLOSS, Evaluation
from recnas.evaluators.settings import SharedWeightsSettings
from recnas.model.embeddings import Embeddings
from recnas.model.nasrec.supernet import Candidate, Supernet
from recnas.runs.records import ScoreRecord
from recnas.seeds import stream_seed
from recnas.space.settings import SpaceSettings, make_ctr_space
from recnas.train.checkpoint import load, load_latest, save
from recnas.train.evaluate import evaluate
from recnas.train.loss import click_loss
from recnas.train.schedule import Schedule
from recnas.train.settings import SupernetSettings
from recnas.train.setup import choose_device, make_tables, net_shape


@dataclass(frozen=True)
class SharedWeightsEvaluator:
    """Evaluates one architecture (as a dictionary) after the other; opened once per worker."""

    frozen: str
    data: str
    space: SpaceSettings
    train: SupernetSettings
    settings: SharedWeightsSettings
    seed: int

    @staticmethod
    def freeze(folder: Path, supernet: Supernet, embeddings: Embeddings, made_from: Mapping[str, Any]) -> Path:
        """Write shared weights and tables for the workers to map, unless they are there already."""
        made_from = {**made_from, "supernet": supernet.describe(), "tables": True}
        found = load_latest(folder)
        if found is not None and found.made_from == made_from:
            return found.path
        tensors = {f"network/{name}": tensor for name, tensor in supernet.storages.items()}
        tensors |= {f"table/{name}": table for name, table in embeddings.state_dict()["weights"].items()}
        return save(folder, 0, tensors, {}, made_from, keep=1)

    @property
    def device(self) -> str:
        return self.train.device

    def cargo(self) -> dict[str, Tensor]:
        """Shared weights and tables, for workers that do not see the file."""
        return load(Path(self.frozen)).tensors

    def open(self, cargo: dict[str, Tensor] | None = None) -> Callable[[dict[str, Any]], Evaluation]:
        tensors = self.cargo() if cargo is None else cargo
        data = PreparedData.open(self.data)
        space = make_ctr_space(self.space)
        weights = {
            name.removeprefix("network/"): tensor for name, tensor in tensors.items() if name.startswith("network/")
        }
        device = choose_device(self.train)
        if device.type != "cpu":
            weights = {name: tensor.to(device) for name, tensor in weights.items()}
        supernet = Supernet(space, net_shape(data.schema, self.train), tensors=weights)
        embeddings = make_tables(data.schema, self.train, self.seed, device, supernet)
        for name, table in embeddings.state_dict()["weights"].items():  # aliases of the live tables
            table.copy_(tensors[f"table/{name}"])

        def call(described: dict[str, Any]) -> Evaluation:
            started = time.monotonic()
            try:
                candidate = supernet.candidate(space.from_dict(described))
            except SpaceError as error:  # a seed may be wider than what a supernet holds
                return Evaluation(0.0, failed=error.what)
            tuned = self._tune(candidate, embeddings, data)
            metrics = evaluate(
                lambda dense, embedded: candidate.forward(tuned, dense, embedded), embeddings, data, "valid",
                batch_size=self.train.eval_batch_size, rows=self.settings.valid_rows, device=device,
            )  # fmt: skip
            terms = {"auc": metrics["auc"]} if metrics["auc"] is not None else {}
            record = ScoreRecord(value=metrics["logloss"], terms=terms)
            return Evaluation(time.monotonic() - started, {VALID_LOGLOSS: record.value}, {VALID_LOGLOSS: record})

        return call

    def _tune(self, candidate: Candidate, embeddings: Embeddings, data: PreparedData) -> dict[str, Tensor]:
        """The candidate's weights with a head of its own, fine-tuned with Adagrad."""
        params = {name: leaf.detach() for name, leaf in candidate.leaves.items()}
        plan = candidate.plan
        head = [*plan.head.weight, *([plan.head.bias] if plan.head.bias else [])]
        params |= {name: params[name].clone().requires_grad_() for name in head}
        sums = {name: torch.zeros_like(params[name]) for name in head}
        schedule = Schedule("cosine", self.settings.lr, max(1, self.settings.steps), warmup=self.train.lr_rise_share)
        for step, batch in enumerate(self._batches(data)):
            batch = batch.to(embeddings.device)
            logits = candidate.forward(params, batch.dense, embeddings.lookup(batch.ids))
            loss = click_loss(logits, batch.label, batch.weight, batch.label_weights)
            gradients = torch.autograd.grad(loss, [params[name] for name in head])
            with torch.no_grad():
                for name, gradient in zip(head, gradients):
                    share = self.train.head_lr_share if name in plan.head.weight else 1.0
                    rate = schedule(step) * share
                    sums[name].addcmul_(gradient, gradient)
                    params[name].addcdiv_(gradient, sums[name].sqrt().add_(self.train.eps), value=-rate)
        return {name: tensor.detach() for name, tensor in params.items()}

    def _batches(self, data: PreparedData) -> Iterator[Batch]:
        loader = BatchLoader(
            data, "train", self.settings.batch_size, shuffle=True, seed=stream_seed(self.seed, "head-tuning")
        )
        left = self.settings.steps
        while left > 0:
            for batch in loader.epoch():
                if left == 0:
                    return
                left -= 1
                yield batch

"""`recnas search` with `search.method: darts`: weights and mixture trained in turns on two halves of the images.

    RUN/ledger.jsonl      candidate  per epoch: the architecture the mixture would become, losses, the shares
    RUN/checkpoints/      weights, alphas, both optimizers after the last whole epoch, and its ledger line

Batches depend on the seed and the epoch alone. A search that was stopped goes on after its last whole epoch and
ends the same. The outcome is the architecture of the last epoch.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from recnas.errors import DataError, RunError
from recnas.runs.records import Candidate
from recnas.runs.search_result import Budget
from recnas.searchers.gradient.darts import alpha_gradient
from recnas.searchers.gradient.settings import DartsSettings
from recnas.seeds import stream
from recnas.tasks.gradient.base import Chosen, GradientSearch
from recnas.tasks.settings import GradientSearchConfig
from recnas.train.checkpoint import load_latest, save

ALPHA_SCALE = 1e-3  # of the first alphas, as published
ALPHA_BETAS = (0.5, 0.999)


class DartsSearch(GradientSearch):
    objective = "supernet_accuracy"  # on the images of alpha, under the mixture
    settings: DartsSettings

    @staticmethod
    def total(config: GradientSearchConfig) -> int:
        return int(config.search.epochs)  # type: ignore[union-attr]

    def steps(self) -> Chosen:
        assert isinstance(self.config.search, DartsSettings)
        self.settings = self.config.search
        self._begin()
        lines = self.book.of(Candidate)
        done = self._load(lines)
        self.progress.phase("search", self.settings.epochs * self.per_epoch, "steps")
        self.progress.advance(done * self.per_epoch)
        for epoch in range(done, self.settings.epochs):
            line = self._epoch(epoch)
            self._save(epoch + 1, line)
            self._append(line, lines)
        self.progress.end()
        last = lines[self.settings.epochs - 1]
        shares = last.facts["shares"]
        budget = Budget(
            proposed=self.settings.epochs,
            steps=self.settings.epochs * self.per_epoch,
            epochs=self.settings.epochs,
        )
        return Chosen(self.plan.derive(shares), last, budget, {"shares": shares})

    def _begin(self) -> None:
        """Rows of both sides, the first alphas, and the two optimizers."""
        settings, seed = self.settings, self.config.seed
        rows = stream(seed, "darts-split").permutation(len(self.images))[: settings.max_rows]
        cut = round(len(rows) * settings.train_share)
        self.train_rows, self.valid_rows = rows[:cut], rows[cut:]
        self.per_epoch = min(len(self.train_rows), len(self.valid_rows)) // settings.batch_size
        if self.per_epoch < 1:
            raise DataError(
                f"{len(rows)} images do not fill a batch of {settings.batch_size} on both sides.",
                "Use smaller batches (search.batch_size) or more images.",
            )
        rng = stream(seed, "darts-alpha")
        self.alphas = {
            decision.name: torch.tensor(ALPHA_SCALE * rng.standard_normal(decision.size), dtype=torch.float32)
            for decision in self.plan.relaxed
        }
        self.weights_step = torch.optim.SGD(
            self.supernet.parameters(),
            settings.lr,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
        )
        self.alpha_step = torch.optim.Adam(
            self.alphas.values(), settings.alpha_lr, ALPHA_BETAS, weight_decay=settings.alpha_weight_decay
        )

    def _epoch(self, epoch: int) -> Candidate:
        started = time.monotonic()
        settings = self.settings
        fall = (1 + math.cos(math.pi * epoch / settings.epochs)) / 2
        lr = settings.lr_last + (settings.lr - settings.lr_last) * fall
        self.weights_step.param_groups[0]["lr"] = lr
        sums = np.zeros(3)
        train = self._batches(self.train_rows, "darts-train", epoch)
        valid = self._batches(self.valid_rows, "darts-valid", epoch)
        for train_batch, valid_batch in zip(train, valid):
            sums += self._step(train_batch, valid_batch, lr)
            self.progress.advance(1)
        train_loss, valid_loss, accuracy = (sums / self.per_epoch).tolist()
        if not all(map(math.isfinite, (train_loss, valid_loss))):
            raise RunError(f"the loss of epoch {epoch + 1} is not finite.", "Lower search.lr.")
        shares = {name: alpha.softmax(0).tolist() for name, alpha in self.alphas.items()}
        return self.candidate(epoch, self.plan.derive(shares), "derived").model_copy(
            update={
                "values": {self.objective: accuracy},
                "facts": {"train_loss": train_loss, "valid_loss": valid_loss, "shares": shares},
                "seconds": time.monotonic() - started,
            }
        )

    def _step(self, train: tuple[Tensor, Tensor], valid: tuple[Tensor, Tensor], lr: float) -> np.ndarray:
        """Alpha first, then the weights; losses of both and the share of right answers on the images of alpha."""
        settings, right = self.settings, []

        def loss_on(batch: tuple[Tensor, Tensor], counted: bool = False) -> Any:
            def loss(weights: Any, alphas: Any) -> Tensor:
                gates = self.plan.relaxed_gates({name: alpha.softmax(0) for name, alpha in alphas.items()})
                logits = self.supernet(weights, gates, batch[0])
                if counted:
                    right.append((logits.argmax(1) == batch[1]).float().mean().item())
                return F.cross_entropy(logits, batch[1])

            return loss

        gradients, valid_loss = alpha_gradient(
            loss_on(train),
            loss_on(valid, counted=True),
            self.supernet.params,
            self.alphas,
            lr,
            settings.order,
            settings.hessian,
        )
        for name, alpha in self.alphas.items():
            alpha.grad = gradients[name]
        self.alpha_step.step()
        self.weights_step.zero_grad()
        loss = loss_on(train)(self.supernet.params, self.alphas)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.supernet.parameters(), settings.clip)
        self.weights_step.step()
        return np.array([loss.item(), valid_loss, right[0]])

    def _batches(self, rows: np.ndarray, name: str, epoch: int) -> list[tuple[Tensor, Tensor]]:
        order = stream(self.config.seed, name, epoch).permutation(rows)
        size = self.settings.batch_size
        taken = (self.images.take(order[i * size : (i + 1) * size]) for i in range(self.per_epoch))
        return [(pixels.to(self.device), labels.to(self.device)) for pixels, labels in taken]

    # Checkpoints: tensors by name, so that nothing is ever unpickled

    def _tensors(self) -> dict[str, Tensor]:
        """Live tensors of weights, alphas and both optimizers."""
        tensors = {f"weights/{name}": tensor for name, tensor in self.supernet.state_dict().items()}
        tensors |= {f"alphas/{name}": alpha for name, alpha in self.alphas.items()}
        for place, parameter in enumerate(self.supernet.parameters()):
            momentum = self.weights_step.state[parameter].get("momentum_buffer")
            if momentum is not None:
                tensors[f"momentum/{place}"] = momentum
        for name, alpha in self.alphas.items():
            for part, tensor in self.alpha_step.state[alpha].items():
                tensors[f"adam/{part}/{name}"] = tensor
        return tensors

    def _made_from(self) -> dict[str, Any]:
        return {"config": self.config.identity()}

    def _save(self, done: int, line: Candidate) -> None:
        facts = {"done": done, "line": line.to_json()}
        save(self.folder.checkpoints, done, self._tensors(), facts, self._made_from(), keep=1)

    def _load(self, lines: list[Candidate]) -> int:
        """Take up the checkpoint, if there is one; how many epochs are done."""
        saved = load_latest(self.folder.checkpoints)
        if saved is None:
            return 0
        tensors = saved.tensors
        with torch.no_grad():
            for name, tensor in self.supernet.state_dict().items():
                tensor.copy_(tensors[f"weights/{name}"])
            for name, alpha in self.alphas.items():
                alpha.copy_(tensors[f"alphas/{name}"])
                state = {part: tensors[f"adam/{part}/{name}"].clone() for part in ("step", "exp_avg", "exp_avg_sq")}
                self.alpha_step.state[alpha] = state
            for place, parameter in enumerate(self.supernet.parameters()):
                if f"momentum/{place}" in tensors:
                    self.weights_step.state[parameter]["momentum_buffer"] = (
                        tensors[f"momentum/{place}"].clone().to(self.device)
                    )
        self._append(Candidate.model_validate(saved.facts["line"]), lines)
        return int(saved.facts["done"])

    def _append(self, line: Candidate, lines: list[Candidate]) -> None:
        """Write the line of an epoch, unless it is there already: it is written after the checkpoint."""
        if line.index >= len(lines):
            self.book.append(line)
            lines.append(line)

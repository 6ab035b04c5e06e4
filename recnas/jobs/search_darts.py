"""`recnas search` with `search.method: darts`: weights and mixture trained in turns on two halves of the images.

    RUN/ledger.jsonl            candidate  per epoch: the architecture the mixture would become, losses, the shares
    RUN/checkpoints/darts.pt    weights, alphas, both optimizers after the last whole epoch, and its ledger line

Batches depend on the seed and the epoch alone. A search that was stopped goes on after its last whole epoch and
ends the same. The outcome is the architecture of the last epoch.
"""

from __future__ import annotations

import math
import pickle
import time
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from recnas.errors import DataError, RunError
from recnas.jobs.search_oneshot import THREADS, DartsConfig, load_supernet, open_run, write_result
from recnas.progress import Progress
from recnas.run import RunDir, write_atomic
from recnas.searchers.darts import alpha_gradient
from recnas.space.registry import get_space
from recnas.threads import computing_with

SPLIT_STREAM, TRAIN_STREAM, VALID_STREAM, ALPHA_STREAM = 13, 14, 15, 16  # apart from every other draw of a seed
ALPHA_SCALE = 1e-3  # of the first alphas, as published
ALPHA_BETAS = (0.5, 0.999)
OBJECTIVE = "supernet_accuracy"  # on the images of alpha, under the mixture


def search_darts(config: DartsConfig, out: Path | str, progress: Progress | None = None) -> dict[str, Any]:
    """Run the search, or the rest of one that was interrupted."""
    images = config.images.load()
    run = open_run(config, out, images)
    with run.locked(), computing_with(THREADS):
        result = _DartsSearch(config, images, run, progress or Progress(quiet=True)).run()
    return result


class _DartsSearch:
    def __init__(self, config: DartsConfig, images: Any, run: RunDir, progress: Progress) -> None:
        self.config, self.images, self.folder, self.progress = config, images, run, progress
        self.settings = settings = config.search.darts
        self.supernet = load_supernet(config, images)
        self.plan = self.supernet.plan
        sizes = config.space.supernet if config.space.name == "mlp" else {}
        self.space = get_space(config.space.name, **sizes)
        rows = np.random.default_rng([config.seed, SPLIT_STREAM]).permutation(len(images))[: settings.max_rows]
        cut = round(len(rows) * settings.train_share)
        self.train_rows, self.valid_rows = rows[:cut], rows[cut:]
        self.steps = min(len(self.train_rows), len(self.valid_rows)) // settings.batch_size  # per epoch
        if self.steps < 1:
            raise DataError(
                f"{len(rows)} images do not fill a batch of {settings.batch_size} on both sides.",
                "Use smaller batches (search.darts.batch_size) or more images.",
            )
        rng = np.random.default_rng([config.seed, ALPHA_STREAM])
        self.alphas = {
            decision.name: torch.tensor(ALPHA_SCALE * rng.standard_normal(decision.size), dtype=torch.float32)
            for decision in self.plan.relaxed
        }
        self.weights_step = torch.optim.SGD(
            self.supernet.parameters(), settings.lr, momentum=settings.momentum, weight_decay=settings.weight_decay
        )
        self.alpha_step = torch.optim.Adam(
            self.alphas.values(), settings.alpha_lr, ALPHA_BETAS, weight_decay=settings.alpha_weight_decay
        )

    def run(self) -> dict[str, Any]:
        started = time.monotonic()
        events = self.folder.ledger.read()
        lines = [event for event in events if event.get("event") == "candidate"]
        done = self._load(lines)
        self.progress.phase("search", self.settings.epochs * self.steps, "steps")
        self.progress.advance(done * self.steps)
        for epoch in range(done, self.settings.epochs):
            line = self._epoch(epoch)
            self._save(epoch + 1, line)
            self._append(line, lines)
        self.progress.end()
        if not any(event.get("event") == "phase" for event in events):
            self.folder.ledger.append({"event": "phase", "name": "search", "seconds": time.monotonic() - started, "workers": 1})
        last = lines[self.settings.epochs - 1]
        facts = {
            "method": "darts",
            "objectives": {OBJECTIVE: "max"},
            "shares": last["shares"],
            "budgets": {
                "steps": self.settings.epochs * self.steps, "proposed": self.settings.epochs, "scored": 0, "failed": 0, "trained": 0,
                "epochs": self.settings.epochs, "test_read_by": 1,
            },
        }  # fmt: skip
        arch = self.plan.derive(last["shares"])
        return write_result(self.folder, self.config, arch, self.images, self.supernet, last, facts)

    def _epoch(self, epoch: int) -> dict[str, Any]:
        started = time.monotonic()
        settings = self.settings
        lr = settings.lr_last + (settings.lr - settings.lr_last) * (1 + math.cos(math.pi * epoch / settings.epochs)) / 2
        self.weights_step.param_groups[0]["lr"] = lr
        sums = np.zeros(3)
        for train, valid in zip(self._batches(self.train_rows, TRAIN_STREAM, epoch), self._batches(self.valid_rows, VALID_STREAM, epoch)):
            sums += self._step(train, valid, lr)
            self.progress.advance(1)
        train_loss, valid_loss, accuracy = (sums / self.steps).tolist()
        if not all(map(math.isfinite, (train_loss, valid_loss))):
            raise RunError(f"the loss of epoch {epoch + 1} is not finite.", "Lower search.darts.lr.")
        shares = {name: alpha.softmax(0).tolist() for name, alpha in self.alphas.items()}
        arch = self.plan.derive(shares)
        return {
            "event": "candidate", "index": epoch, "key": self.space.key(arch), "arch": self.space.to_dict(arch), "origin": "derived",
            "parents": [], "changes": 0, "values": {OBJECTIVE: accuracy}, "train_loss": train_loss, "valid_loss": valid_loss,
            "shares": shares, "seconds": time.monotonic() - started,
        }  # fmt: skip

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

        found, valid_loss = alpha_gradient(
            loss_on(train), loss_on(valid, counted=True), self.supernet.params, self.alphas, lr, settings.order, settings.hessian
        )
        for name, alpha in self.alphas.items():
            alpha.grad = found[name]
        self.alpha_step.step()
        self.weights_step.zero_grad()
        loss = loss_on(train)(self.supernet.params, self.alphas)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.supernet.parameters(), settings.clip)
        self.weights_step.step()
        return np.array([loss.item(), valid_loss, right[0]])

    def _batches(self, rows: np.ndarray, stream: int, epoch: int) -> list[tuple[Tensor, Tensor]]:
        order = np.random.default_rng([self.config.seed, stream, epoch]).permutation(rows)
        size = self.settings.batch_size
        return [self.images.take(order[i * size : (i + 1) * size]) for i in range(self.steps)]

    @property
    def _path(self) -> Path:
        return self.folder.checkpoints / "darts.pt"

    def _save(self, done: int, line: dict[str, Any]) -> None:
        kept = {
            "done": done, "line": line, "weights": self.supernet.state_dict(), "alphas": self.alphas,
            "weights_step": self.weights_step.state_dict(), "alpha_step": self.alpha_step.state_dict(),
        }  # fmt: skip

        def write(file: IO[bytes]) -> None:
            torch.save(kept, file)

        write_atomic(self._path, write)

    def _load(self, lines: list[dict[str, Any]]) -> int:
        """Take up the checkpoint, if there is one; how many epochs are done."""
        if not self._path.exists():
            return 0
        try:
            kept = torch.load(self._path, weights_only=True)
        except (OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError):
            raise RunError(f"{self._path} is damaged and cannot be read.", "Delete it; the search then starts from its first epoch.") from None
        self.supernet.load_state_dict(kept["weights"])
        for name, alpha in self.alphas.items():
            alpha.copy_(kept["alphas"][name])
        self.weights_step.load_state_dict(kept["weights_step"])
        self.alpha_step.load_state_dict(kept["alpha_step"])
        self._append(kept["line"], lines)
        return int(kept["done"])

    def _append(self, line: dict[str, Any], lines: list[dict[str, Any]]) -> None:
        """Write the line of an epoch, unless it is there already: it is written after the checkpoint."""
        if line["index"] >= len(lines):
            self.folder.ledger.append(line)
            lines.append(line)

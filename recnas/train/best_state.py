"""The best state of a training that looks at validation: kept while it goes on, taken back at its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from recnas.errors import RunError
from recnas.train.checkpoint import load_latest, remove, save
from recnas.train.distributed import current_ranks
from recnas.train.loop import Trainer


class BestState:
    """The best state that a watched training has had: on disk where it has a folder, otherwise in memory."""

    def __init__(self, trainer: Trainer, folder: Path | None, made_from: dict[str, Any]) -> None:
        self.trainer, self.folder, self.made_from = trainer, folder, made_from
        self._held: tuple[dict[str, Tensor], dict[str, Any]] | None = None

    def keep(self) -> None:
        trainer, first = self.trainer, current_ranks().first
        tensors = trainer.tensors()
        if self.folder is None:
            self._held = {name: tensor.clone() for name, tensor in tensors.items()}, trainer.facts()
        elif first:
            save(self.folder, trainer.step, tensors, trainer.facts(), self.made_from, keep=1)

    def restore(self) -> None:
        """Give the trainer the weights and the step of its best check; what it has watched stays."""
        watch = self.trainer.watch
        assert watch is not None
        assert watch.best is not None
        if watch.best.step == self.trainer.step:
            return
        watched, curve = watch.state(), self.trainer.curve
        tensors, facts = self._held or self._saved(watch.best.step)
        self.trainer.load(tensors, facts)
        watch.load(watched)
        self.trainer.curve = curve

    def _saved(self, step: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
        if not current_ranks().first or self.folder is None:
            return {}, {}
        saved = load_latest(self.folder, self.made_from)
        if saved is None or saved.step != step:
            raise RunError(
                f"{self.folder} should hold the weights of step {step}, the best of this training, and does not.",
                "They were removed or damaged. Start a new run directory.",
            )
        return saved.tensors, saved.facts

    def forget(self) -> None:
        self._held = None
        if self.folder is not None and self.folder.exists() and current_ranks().first:
            remove([self.folder])


def look_at_the_end(trainer: Trainer, best: BestState) -> None:
    """A last check of validation, where a training is ended before its last step."""
    watch = trainer.watch
    if watch is None or (watch.checks and watch.checks[-1].step == trainer.step):
        return
    with trainer.averaged():
        improved = watch.look(trainer.step)
    if improved:
        best.keep()

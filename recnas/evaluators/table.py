"""Candidates of a space that others have trained: a look into their table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from recnas.evaluators.base import VALID_ACCURACY, Evaluation


class AccuracyTable(Protocol):
    """What is asked of a table; `recnas.bench` has them."""

    def of(self, arch: Any, dataset: str, split: Any, epochs: int) -> float:
        """Accuracy in percent; NaN where the table has none."""
        ...


@dataclass(frozen=True)
class TableEvaluator:
    """Validation accuracy of an architecture as trained for so many epochs.

    Args:
        levels: epochs per level of training, short to long; one level unless the search has rungs.
        read: the architecture and its level, from how the search describes it.
    """

    table: AccuracyTable
    dataset: str
    levels: tuple[int, ...]
    read: Callable[[dict[str, Any]], tuple[Any, int]]
    in_process = True  # sending the question to a worker would take longer than the answer

    def open(self) -> Callable[[dict[str, Any]], Evaluation]:
        def call(described: dict[str, Any]) -> Evaluation:
            arch, level = self.read(described)
            epochs = self.levels[level]
            accuracy = self.table.of(arch, self.dataset, "valid", epochs)
            extras = {"epochs": epochs}
            if np.isnan(accuracy):
                failed = f"the table has no validation accuracy after {epochs} epochs"
                return Evaluation(0.0, failed=failed, extras=extras)
            return Evaluation(0.0, {VALID_ACCURACY: float(accuracy)}, extras=extras)

        return call

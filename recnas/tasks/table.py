"""A table: NAS-Bench-201, whose every cell was trained by others.

A query reads the validation accuracy of one cell as trained for `query.epochs` epochs on `query.dataset`; the
best query wins. The winner's test accuracies after 200 epochs are read once, at the end. Every query is charged
with its epochs of training; training-free scores are not queries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from recnas.bench.nasbench201 import Nb201Table
from recnas.bench.score_table import ScoreTable
from recnas.engines.execution import Execution
from recnas.evaluators.table import TableEvaluator
from recnas.runs.folder import RunDir
from recnas.runs.records import Metrics
from recnas.searchers.fidelity import FidelitySpace, Rung
from recnas.space.nasbench201 import Nb201Space
from recnas.space.nasbench201.arch import Nb201Arch
from recnas.space.nasbench201.key import key
from recnas.space.nasbench201.skeleton import Nb201Skeleton, count
from recnas.tasks.base import SEARCH, Final, Metric, Task
from recnas.tasks.cell_seeds import cell_seeds
from recnas.tasks.settings import TableSearchConfig

TRAINED = Nb201Skeleton().trained()  # the networks as the benchmark's authors trained them


def table_fingerprint(table: Nb201Table) -> str:
    """Of what the table says, not of the file."""
    digest = hashlib.sha256(" ".join(arch.digits for arch in table.archs).encode())
    for name in sorted(table.columns):
        digest.update(name.encode() + np.ascontiguousarray(table.columns[name]).tobytes())
    return digest.hexdigest()


def test_accuracies(
    table: Nb201Table, arch: Nb201Arch, datasets: tuple[str, ...], epochs: int
) -> tuple[Metrics, Metrics]:
    """Of one cell, and the best there is, by data set."""
    values = {name: table.of(arch, name, "test", epochs) for name in datasets}
    best = {name: float(np.nanmax(table.accuracy(name, "test", epochs))) for name in datasets}
    return {name: None if np.isnan(value) else float(value) for name, value in values.items()}, dict(best)


class TableTask(Task):
    """`recnas search` on NAS-Bench-201.

    Args:
        table, scores: those that are read already, when many searches share them.
    """

    name = "table"
    metric = Metric("accuracy", "max")
    phases = (SEARCH,)

    def __init__(
        self, config: TableSearchConfig, table: Nb201Table | None = None, scores: ScoreTable | None = None
    ) -> None:
        self.config = config
        self.table = table or Nb201Table.read(config.table)
        self.scores = scores
        if scores is None and config.scores is not None:
            self.scores = ScoreTable.read(config.scores, key)
        self.levels = config.query.levels or (config.query.epochs,)
        self._cells = Nb201Space()
        self.space: Any = self._cells if len(self.levels) == 1 else FidelitySpace(self._cells, len(self.levels))
        self.objectives = config.goals()
        self.seed, self.searcher, self.limits = config.seed, config.search, config.limits
        self.seeds = cell_seeds(self.searcher, self._cells, self._candidate)
        self._fingerprint = table_fingerprint(self.table)

    def sources(self, out: Path | str) -> dict[str, Any]:
        return {"data": {"path": self.table.name, "fingerprint": self._fingerprint}}

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    def _candidate(self, cell: Nb201Arch) -> Any:
        return cell if len(self.levels) == 1 else Rung(cell)

    def plain(self, arch: Any) -> Nb201Arch:
        return arch.arch if isinstance(arch, Rung) else arch

    def describe(self, arch: Any) -> dict[str, Any]:
        return self._cells.to_dict(self.plain(arch))

    def cost(self, arch: Any) -> Mapping[str, float]:
        found = count(self.plain(arch), TRAINED)
        return {"params": found.params, "macs": found.macs}

    def _read(self, described: dict[str, Any]) -> tuple[Nb201Arch, int]:
        arch = self.space.from_dict(described)
        return self.plain(arch), arch.level if isinstance(arch, Rung) else 0

    def evaluator(self, run: RunDir) -> TableEvaluator:
        return TableEvaluator(self.table, self.config.query.dataset, self.levels, self._read)

    def pool_scores(self, run: RunDir, how: Execution) -> ScoreTable | None:
        return self.scores

    def finish(self, arch: Any, run: RunDir, how: Execution) -> Final:
        final = self.config.final
        test, best = test_accuracies(self.table, self.plain(arch), final.datasets, final.epochs)
        return Final(test, best_possible=best, extras={"table_index": self.table.index_of(self.plain(arch))})

    def budget(self, scored: int, trained: int, candidates: list[Any]) -> dict[str, float]:
        epochs = sum(self.levels[arch.level if isinstance(arch, Rung) else 0] for arch in candidates)
        return {"epochs": epochs, "trained": scored}

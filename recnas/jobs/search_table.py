"""Search a space whose every architecture was trained by others: NAS-Bench-201, from its table.

    RUN/manifest.json   config, fingerprint of the table, versions
    RUN/ledger.jsonl    one line per query in the order proposed, and per phase
    RUN/best.json       the winner
    RUN/result.json     the query that chose it, its test accuracies, and what the queries would have cost

A query reads the validation accuracy of one cell as trained for `query.epochs` epochs on `query.dataset`; the
best query wins. The winner's test accuracies after 200 epochs are read once, at the end. Every query is charged
with its epochs of training; training-free scores are not queries.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from recnas.bench.nasbench201 import DATASETS, Nb201Table
from recnas.bench.scores import ScoreTable
from recnas.config import Settings
from recnas.errors import ConfigError, DataError
from recnas.jobs.search_settings import SearchMethod
from recnas.progress import Progress
from recnas.run import RunDir, write_json
from recnas.searchers.base import Searcher
from recnas.searchers.fidelity import FidelitySpace, Rung
from recnas.searchers.limits import Gate
from recnas.searchers.objective import Objectives
from recnas.searchers.registry import get_searcher
from recnas.searchers.settings import LimitSettings
from recnas.space.nasbench201 import Nb201Space
from recnas.space.nasbench201_arch import Nb201Arch
from recnas.space.nasbench201_cost import Body, count
from recnas.space.nasbench201_key import key

OBJECTIVE = "valid_accuracy"
TRAINED = Body().trained()


class QuerySettings(Settings):
    """What a search may look at."""

    dataset: str = "cifar10"
    epochs: int = 12
    levels: tuple[int, ...] = ()  # for bohb: lengths of training, short to long; empty: `epochs` alone


class TableFinal(Settings):
    """What is read about the winner."""

    datasets: tuple[str, ...] = DATASETS
    epochs: int = 200


class TableSpace(Settings):
    name: Literal["nasbench201"]


class TableSearchConfig(Settings):
    """`recnas search CONFIG` with `space.name: nasbench201`."""

    space: TableSpace
    table: str | None = None  # nb201.parquet; null: in the folder RECNAS_TABLES names
    scores: str | None = None  # a score table, for methods that rank by training-free figures
    seed: int = Field(0, ge=0)
    query: QuerySettings = QuerySettings()
    limits: LimitSettings = LimitSettings()
    search: SearchMethod = SearchMethod()
    final: TableFinal = TableFinal()

    def facts(self) -> dict[str, Any]:
        """What must be the same for a run to be continued; where the files lie may change."""
        return self.model_dump(mode="json", exclude={"table": True, "scores": True, "search": self.search.unused})


def search_table(
    config: TableSearchConfig, out: Path | str, progress: Progress | None = None, table: Nb201Table | None = None, scores: ScoreTable | None = None
) -> dict[str, Any]:
    """Run the search, or the rest of one that was interrupted.

    Args:
        table, scores: those that are read already, when many searches share them.
    """
    table = table or Nb201Table.read(config.table)
    if scores is None and config.scores is not None:
        scores = ScoreTable.read(config.scores, key)
    data = {"path": table.name, "fingerprint": fingerprint(table)}
    config_facts = config.facts() | {"table": config.table, "scores": config.scores}
    run = RunDir.create(out, "search", config=config_facts, data=data)
    with run.locked():
        result = _TableSearch(config, table, scores, run, progress or Progress(quiet=True), data["fingerprint"]).run()
    return result


def fingerprint(table: Nb201Table) -> str:
    """Of what the table says, not of the file."""
    digest = hashlib.sha256(" ".join(arch.digits for arch in table.archs).encode())
    for name in sorted(table.columns):
        digest.update(name.encode() + np.ascontiguousarray(table.columns[name]).tobytes())
    return digest.hexdigest()


class _TableSearch:
    def __init__(
        self, config: TableSearchConfig, table: Nb201Table, scores: ScoreTable | None, run: RunDir, progress: Progress, data: str
    ) -> None:
        self.data = data  # the table's fingerprint
        self.config, self.table, self.scores, self.folder, self.progress = config, table, scores, run, progress
        self.space = Nb201Space()
        self.levels = config.query.levels or (config.query.epochs,)
        if len(self.levels) > 1 and config.search.method != "bohb":
            raise ConfigError(f"query.levels is for bohb; {config.search.method} looks at one length of training.", "Set query.epochs instead.")
        self.events = run.ledger.read()

    def run(self) -> dict[str, Any]:
        started = time.monotonic()
        searcher = self._search()
        if not any(event.get("event") == "phase" for event in self.events):
            self._append({"event": "phase", "name": "search", "seconds": time.monotonic() - started, "workers": 1})
        result = self._result(searcher)
        best = self._cell(searcher.best(1)[0].proposal.arch)
        write_json(self.folder.path / "best.json", self.space.to_dict(best))
        write_json(self.folder.path / "result.json", result)
        return result

    def _search(self) -> Searcher[Any]:
        config = self.config
        space: Any = self.space if len(self.levels) == 1 else FidelitySpace(self.space, len(self.levels))
        gate = Gate(space, config.limits, cost=self._cost)
        searcher = get_searcher(
            config.search.method, space, Objectives.of({OBJECTIVE: "max"}), config.seed, config.search.chosen, gate, self.scores
        )
        searcher.replay(self.events)
        self.progress.phase("search", searcher.total, "queries")
        self.progress.advance(len(searcher.history))
        while batch := searcher.ask_batch():
            for proposal in batch:
                epochs = self._epochs(proposal.arch)
                if proposal.known:
                    line = searcher.tell(proposal)
                else:
                    accuracy = self.table.of(self._cell(proposal.arch), config.query.dataset, "valid", epochs)
                    failed = f"the table has no validation accuracy after {epochs} epochs"
                    line = searcher.tell(proposal, failed=failed) if np.isnan(accuracy) else searcher.tell(proposal, {OBJECTIVE: accuracy})
                    line |= {"epochs": epochs, "cost": self._cost(proposal.arch)}
                self._append(line)
                self.progress.advance(1)
        self.progress.end()
        return searcher

    def _result(self, searcher: Searcher[Any]) -> dict[str, Any]:
        best = searcher.best(1)
        if not best:
            raise DataError(f"{self.table.name} has no accuracy for any of the {searcher.total} queries.", "Import the whole table.")
        told, final = best[0], self.config.final
        cell = self._cell(told.proposal.arch)
        scored = [t for t in searcher.history if not t.proposal.known]
        test = {name: self.table.of(cell, name, "test", final.epochs) for name in final.datasets}
        return {
            "best": {
                "key": told.proposal.key, "index": told.proposal.index, "rank": 0, "values": dict(told.values or {}),
                "arch": cell.text, "table_index": self.table.index_of(cell), **self._cost(cell),
            },
            "valid_accuracy": (told.values or {})[OBJECTIVE],
            "test_accuracy": {name: None if np.isnan(value) else value for name, value in test.items()},
            "best_possible": {name: float(np.nanmax(self.table.accuracy(name, "test", final.epochs))) for name in final.datasets},
            "seeds": {"search": self.config.seed},
            "budgets": {
                "proposed": len(searcher.history), "scored": len(scored), "failed": sum(t.values is None for t in scored),
                "trained": len(scored), "epochs": sum(self._epochs(t.proposal.arch) for t in scored), "test_read_by": 1,
            },
            "objectives": {OBJECTIVE: "max"},
            "front": None,
            "limits": searcher.gate.counts.to_dict(),
            "seconds": {event["name"]: event["seconds"] for event in self.events if event.get("event") == "phase"},
            "data": self.data,
        }  # fmt: skip

    def _epochs(self, arch: Any) -> int:
        return self.levels[arch.level if isinstance(arch, Rung) else 0]

    def _cell(self, arch: Any) -> Nb201Arch:
        return arch.arch if isinstance(arch, Rung) else arch

    def _cost(self, arch: Any) -> dict[str, float]:
        found = count(self._cell(arch), TRAINED)
        return {"params": found.params, "macs": found.macs}

    def _append(self, event: dict[str, Any]) -> None:
        self.folder.ledger.append(event)
        self.events.append(event)

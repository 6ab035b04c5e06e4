"""Searches by gradients on a supernet of cells: NASI at initialisation, DARTS while it is trained.

    RUN/manifest.json   config, fingerprint of the images, versions
    RUN/ledger.jsonl    one line per step, then the architecture that was chosen
    RUN/winner.json     that architecture
    RUN/result.json     the same with its cost, and on NAS-Bench-201 its test accuracies if there is a table

The table is read once, after the architecture is chosen. Without one the search is the same and the result has
no accuracies.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recnas.bench.nasbench201 import DATASETS, FOLDER, Nb201Table
from recnas.engines.execution import Execution
from recnas.model.supernets.registry import SUPERNETS
from recnas.model.supernets.supernet import build_supernet
from recnas.runs.book import Book
from recnas.runs.folder import RunDir, write_json
from recnas.runs.layout import RESULT, WINNER_FILE
from recnas.runs.records import Budget, Candidate, SearchResult, Winner
from recnas.searchers.gradient.settings import NasiSettings
from recnas.space.nasbench201 import NAME as NASBENCH201
from recnas.space.nasbench201.skeleton import count
from recnas.space.networks import cost
from recnas.tasks.base import SEARCH
from recnas.tasks.images import image_fingerprint
from recnas.tasks.settings import GradientSearchConfig
from recnas.tasks.table import TRAINED, table_fingerprint, test_accuracies
from recnas.threads import computing_with

if TYPE_CHECKING:

    from recnas.data.images import ImageSet

FINAL_EPOCHS = 200  # of the table's test accuracies


@dataclass(frozen=True)
class Chosen:
    """How a gradient search ended."""

    arch: Any
    line: Candidate
    budget: Budget
    extras: dict[str, Any] = field(default_factory=dict)


class GradientSearch(ABC):
    """What NASI and DARTS share: the supernet, the run, the ledger. Subclasses do the steps."""

    objective: str

    def __init__(self, config: GradientSearchConfig, images: ImageSet, run: RunDir, how: Execution) -> None:
        self.config, self.images, self.folder, self.progress = config, images, run, how.progress
        self.supernet = build_supernet(
            config.space.name, images.classes, images.side, config.seed, **config.space.supernet
        )
        self.plan = self.supernet.plan
        self.space = config.space.space.make()
        self.book = Book(run)

    @staticmethod
    @abstractmethod
    def total(config: GradientSearchConfig) -> int:
        """Lines of candidates that the search writes before its outcome: steps or epochs."""

    @abstractmethod
    def steps(self) -> Chosen:
        """Do what is left to do; the ledger says what was done."""

    def candidate(self, index: int, arch: Any, origin: str) -> Candidate:
        described = self.space.to_dict(arch)
        return Candidate(index=index, key=self.space.key(arch), arch=described, origin=origin)

    def batch(self, name: str, number: int, size: int, labels: Any = "true", inputs: Any = "data") -> Any:
        """A batch that depends on the seed, `name` and `number` alone: drawn again when a search is resumed."""
        from recnas.data.images import image_batches
        from recnas.seeds import stream_seed

        seed = stream_seed(self.config.seed, name, number)
        return image_batches(self.images, size, 1, seed, labels, inputs)[0]


def gradient_search(config: GradientSearchConfig, out: Path | str, how: Execution) -> SearchResult:
    """Run the search, or the rest of one that was interrupted; always in one process and one thread."""
    from recnas.jobs.gradient_darts import DartsSearch
    from recnas.jobs.gradient_nasi import NasiSearch

    kind = NasiSearch if isinstance(config.search, NasiSettings) else DartsSearch
    images = config.images.load()
    table = _table(config)
    seen = image_fingerprint(images)
    data = (
        {"path": images.name, "fingerprint": seen}
        if table is None
        else {"path": table.name, "fingerprint": table_fingerprint(table)}
    )
    run = RunDir.create(
        out,
        "search",
        task="images",
        phases=[SEARCH],
        config=config.identity(),
        objectives={kind.objective: "max"},
        directions={kind.objective: "max"},
        combine="pareto",
        metric={"name": "accuracy", "direction": "max"},
        proposals=kind.total(config),
        threads=1,
        data=data,
        images={"name": images.name, "fingerprint": seen},
    )
    with run.locked(), computing_with(1):
        job = kind(config, images, run, how)
        with job.book.phase(SEARCH):
            chosen = job.steps()
        result = _result(job, chosen, table, data["fingerprint"])
        write_json(run.path / WINNER_FILE, chosen.line.arch)
        write_json(run.path / RESULT, result.to_json())
    return result


def _table(config: GradientSearchConfig) -> Nb201Table | None:
    if config.space.name != NASBENCH201 or (config.table is None and FOLDER not in os.environ):
        return None
    return Nb201Table.read(config.table)


def _cost(job: GradientSearch, arch: Any) -> dict[str, float]:
    """Of the network as its benchmark trains it (NAS-Bench-201), else in the sizes of the supernet."""
    name = job.config.space.name
    if name == NASBENCH201:
        trained = count(arch, TRAINED)
        return {"params": trained.params, "macs": trained.macs}
    skeleton: Any = getattr(job.plan, "skeleton", None)
    sizes = {} if name == "mlp" else {size: getattr(skeleton, size) for size in SUPERNETS[name].sizes}
    found = cost(name, arch, job.images.classes, job.images.side, **sizes)
    return {"params": found.params, "macs": found.macs}


def _result(job: GradientSearch, chosen: Chosen, table: Nb201Table | None, data: str) -> SearchResult:
    test, best = ({}, {}) if table is None else test_accuracies(table, chosen.arch, DATASETS, FINAL_EPOCHS)
    line = chosen.line
    return SearchResult(
        task="images",
        method=job.config.search.method,
        metric="accuracy",
        winner=Winner(
            key=line.key,
            index=line.index,
            arch=line.arch,
            text=getattr(chosen.arch, "text", None),
            values=line.values,
            cost=_cost(job, chosen.arch),
        ),
        valid={},
        test=test,
        best_possible=best,
        objectives={job.objective: "max"},
        seeds={"search": job.config.seed},
        budget=chosen.budget,
        seconds=job.book.seconds,
        data=data,
        extras=chosen.extras,
    )

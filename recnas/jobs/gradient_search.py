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
from pathlib import Path
from typing import Any

from recnas.bench.nasbench201 import DATASETS, FOLDER, Nb201Table
from recnas.engines.execution import Execution
from recnas.files import write_json
from recnas.model.supernets.registry import SUPERNETS
from recnas.runs.folder import RunDir
from recnas.runs.layout import RESULT, WINNER_FILE
from recnas.runs.search_result import SearchResult, Winner
from recnas.searchers.gradient.settings import NasiSettings
from recnas.space.nasbench201 import NAME as NASBENCH201
from recnas.space.nasbench201.skeleton import count
from recnas.space.networks import cost
from recnas.tasks.base import SEARCH
from recnas.tasks.gradient.base import Chosen, GradientSearch
from recnas.tasks.images import image_fingerprint
from recnas.tasks.settings import GradientSearchConfig
from recnas.tasks.table import TRAINED, table_fingerprint, test_accuracies
from recnas.threads import computing_with

FINAL_EPOCHS = 200  # of the table's test accuracies


def gradient_search(config: GradientSearchConfig, out: Path | str, how: Execution) -> SearchResult:
    """Run the search, or the rest of one that was interrupted; always in one process and one thread."""
    from recnas.tasks.gradient.darts import DartsSearch
    from recnas.tasks.gradient.nasi import NasiSearch

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

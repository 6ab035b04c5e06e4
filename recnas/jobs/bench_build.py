"""Train many sampled architectures from scratch into one table: ground truth for proxies and searchers.

    RUN/manifest.json   space, settings, data fingerprint, versions
    RUN/ledger.jsonl    one line per trained (architecture, seed), in the order drawn
    RUN/table.parquet   the same as a table (see `recnas.bench.ctr_table`)

Asking for more architectures or seeds later continues the same run: the list of architectures depends only
on the space and the seed, never on how many were asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from recnas.bench.ctr_table import read_events, write_table
from recnas.config import Settings
from recnas.data.prepared import PreparedData
from recnas.engines.base import EngineChoice, open_engine
from recnas.errors import RunError
from recnas.jobs.settings import SpaceSettings, make_space
from recnas.jobs.train_work import TrainWork
from recnas.jobs.training import NOT_THE_RESULT
from recnas.progress import Progress
from recnas.run import RunDir
from recnas.run_facts import data_facts
from recnas.space.base import Space
from recnas.train.settings import TrainSettings

BENCH_STREAM = 2  # keeps the architectures of a table apart from every other draw of a seed


class BenchSettings(Settings):
    """What every architecture of a table is put through."""

    space: SpaceSettings = SpaceSettings()
    seed: int = Field(0, ge=0)  # of the list of architectures
    rows: int | None = Field(200_000, ge=1)  # training rows; null: all
    eval_rows: int | None = Field(50_000, ge=1)  # of validation and of test; null: all
    train: TrainSettings = TrainSettings()


def bench_build(
    data: PreparedData,
    out: Path | str,
    archs: int,
    seeds: int = 1,
    settings: BenchSettings | None = None,
    workers: int = 1,
    progress: Progress | None = None,
    engine: EngineChoice | None = None,
    start: Path | str | None = None,
) -> dict[str, Any]:
    """Train the first `archs` architectures of the list with seeds 0, 1, ...; finished ones are kept.

    Args:
        start: a table of the same data and settings; what it holds is not trained again.
    """
    settings = settings or BenchSettings()
    progress = progress or Progress(quiet=True)
    where = engine or EngineChoice()
    where.check()
    described = settings.model_dump(mode="json", exclude={"train": NOT_THE_RESULT})
    earlier = _earlier_events(start, data, described) if start is not None else []
    run = RunDir.create(
        out, "bench", data=data_facts(data.path, data.fingerprint, out), settings=described, threads=1
    )
    space = make_space(settings.space)
    with run.locked():
        done = {(event["index"], event["seed"]): event for event in run.ledger.read()}
        for event in earlier:
            if (event["index"], event["seed"]) not in done:
                done[event["index"], event["seed"]] = event
                run.ledger.append(event)
        drawn = first_archs(space, settings.seed, archs)
        items = [
            (index, seed, space.to_dict(arch))
            for seed in range(seeds)  # all architectures once before any twice: a table is useful early
            for index, arch in enumerate(drawn)
            if (index, seed) not in done
        ]
        progress.phase("train architectures", len(items), "trainings")
        work = TrainWork(
            str(data.path),
            settings.space,
            settings.train,
            settings.rows,
            settings.eval_rows,
            ("valid", "test"),
        )
        with open_engine(work, workers, where.kind, where.address) as opened:
            for event in opened.map(items):
                done[event["index"], event["seed"]] = event
                run.ledger.append(event)
                progress.advance(1, note=f"valid {event['valid']['logloss']:.5f}")
        progress.end()
        table = write_table(
            run.path / "table.parquet", list(done.values()), settings.space.name, data.fingerprint, described
        )
    return {"trained": len(items), "rows": table.num_rows, "table": str(run.path / "table.parquet")}


def _earlier_events(
    start: Path | str, data: PreparedData, described: dict[str, Any]
) -> list[dict[str, Any]]:
    facts, events = read_events(start)
    other = "settings"
    if facts["data"] != data.fingerprint:
        other = f"data ({facts['data'][:12]}, not {data.fingerprint[:12]})"
    elif facts.get("settings") == described:
        return events
    raise RunError(
        f"{start} cannot be continued: it was made with other {other}.",
        "Name the same data and settings, or leave --from out to train every architecture anew.",
    )


def first_archs(space: Space[Any], seed: int, n: int) -> list[Any]:
    """The first `n` different networks of the list that a seed stands for."""
    rng = np.random.default_rng([seed, BENCH_STREAM])

    def draws() -> Iterator[Any]:
        seen = set()
        while True:
            arch = space.sample(rng)
            if (key := space.key(arch)) not in seen:
                seen.add(key)
                yield arch

    return [arch for _, arch in zip(range(n), draws())]

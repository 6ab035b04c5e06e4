"""Train many sampled architectures from scratch into one table: ground truth for proxies and searchers.

    RUN/manifest.json   space, settings, data fingerprint, versions
    RUN/ledger.jsonl    one line per trained (architecture, seed), in the order drawn
    RUN/table.parquet   the same as a table (see `recnas.bench.ctr_table`); with `rungs` it has learning curves

Asking for more architectures or seeds later continues the same run: the list of architectures depends only
on the space and the seed, never on how many were asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recnas.bench.build_settings import BenchSettings
from recnas.bench.ctr_table import read_trained, write_table
from recnas.data.prepared import PreparedData
from recnas.engines.execution import Execution
from recnas.errors import RunError
from recnas.evaluators.training import TrainRequest, TrainWork
from recnas.runs.folder import RunDir
from recnas.runs.identity import data_facts
from recnas.runs.records import Trained, read_lines
from recnas.seeds import stream
from recnas.space.base import Space
from recnas.space.nasrec.cost import count
from recnas.space.settings import make_ctr_space
from recnas.train.setup import NOT_THE_RESULT, check_stopping, check_validation


def bench_build(
    data: PreparedData,
    out: Path | str,
    archs: int,
    seeds: int = 1,
    settings: BenchSettings | None = None,
    start: Path | str | None = None,
    how: Execution | None = None,
) -> dict[str, Any]:
    """Train the first `archs` architectures of the list with seeds 0, 1, ...; finished ones are kept.

    Args:
        start: a table of the same data and settings; what it holds is not trained again.
    """
    settings, how = settings or BenchSettings(), how or Execution()
    how.check()
    check_stopping(settings.train, data, how.progress, settings.rows)
    if settings.rungs:
        check_validation(data)
    described = settings.model_dump(mode="json", exclude={"train": NOT_THE_RESULT})
    earlier = _earlier_lines(start, data, described) if start is not None else []
    run = RunDir.create(out, "bench", data=data_facts(data.path, data.fingerprint, out), settings=described, threads=1)
    space = make_ctr_space(settings.space, data.schema.n_sparse)
    width, layernorm = settings.train.embeddings.width, settings.train.layernorm
    with run.locked():
        lines = read_lines("bench", run.ledger.read(), str(run.ledger.path))
        done: dict[tuple[int, int], Trained] = {(line.index, line.seed): line for line in lines}
        for line in earlier:
            if (line.index, line.seed) not in done:
                done[line.index, line.seed] = line
                run.ledger.append(line.to_json())
        drawn = first_archs(space, settings.seed, archs)
        missing = [
            (index, seed, arch)
            for seed in range(seeds)  # all architectures once before any twice: a table is useful early
            for index, arch in enumerate(drawn)
            if (index, seed) not in done
        ]
        how.progress.phase("train architectures", len(missing), "trainings")
        work = TrainWork(
            str(data.path),
            settings.space,
            settings.train,
            settings.rows,
            settings.eval_rows,
            ("valid", "test"),
            rungs=settings.rungs,
        )
        with how.open(work) as engine:
            requests = [TrainRequest(seed, space.to_dict(arch)) for _, seed, arch in missing]
            for (index, seed, arch), request, training in zip(missing, requests, engine.map(requests)):
                cost = count(arch, data.schema, width=width, layernorm=layernorm)
                line = Trained(
                    index=index,
                    key=space.key(arch),
                    arch=request.arch,
                    seed=seed,
                    cost={"params": cost.params, "macs": cost.macs},
                    valid=training.metrics.get("valid", {}),
                    test=training.metrics.get("test", {}),
                    failed=training.failed,
                    train_loss=training.train_loss,
                    steps=training.steps,
                    seconds=training.seconds,
                    curve=training.curve,
                )
                done[index, seed] = line
                run.ledger.append(line.to_json())
                loss = line.valid.get("logloss")
                how.progress.advance(1, note="failed" if loss is None else f"valid {loss:.5f}")
        how.progress.end()
        whole = [line for line in done.values() if line.failed is None]
        table = write_table(run.path / "table.parquet", whole, settings.space.name, data.fingerprint, described)
    return {"trained": len(missing), "rows": table.num_rows, "table": str(run.path / "table.parquet")}


def _earlier_lines(start: Path | str, data: PreparedData, described: dict[str, Any]) -> list[Trained]:
    facts, lines = read_trained(start)
    other = "settings"
    if facts["data"] != data.fingerprint:
        other = f"data ({facts['data'][:12]}, not {data.fingerprint[:12]})"
    elif facts.get("settings") == described:
        return lines
    raise RunError(
        f"{start} cannot be continued: it was made with other {other}.",
        "Name the same data and settings, or leave --from out to train every architecture anew.",
    )


def first_archs(space: Space[Any], seed: int, n: int) -> list[Any]:
    """The first `n` different networks of the list that a seed stands for."""
    rng = stream(seed, "table-architectures")

    def draws() -> Iterator[Any]:
        seen = set()
        while True:
            arch = space.sample(rng)
            if (key := space.key(arch)) not in seen:
                seen.add(key)
                yield arch

    return [arch for _, arch in zip(range(n), draws())]

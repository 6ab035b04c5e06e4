"""Searches and comparisons over the origins of a rolling split: one after the other, then mean and spread over them.

    RUN/manifest.json       which job, on which origins
    RUN/origin-1 ...        a search or a comparison of its own, as on any data set
    RUN/result.json         means over origins, and intervals of paired differences
    RUN/origins.csv         one line per model and origin

Each origin's run is resumed as such runs are; those that have ended give their result again. Nothing learned on one origin is
used on another.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import IO, Any

from recnas.bench.intervals import mean_interval
from recnas.data.rolling import RollingData
from recnas.engines.execution import Execution
from recnas.errors import ConfigError
from recnas.files import write_atomic, write_json
from recnas.jobs.compare.configured import compare_configured
from recnas.jobs.search import search
from recnas.runs.folder import RunDir
from recnas.runs.identity import data_facts
from recnas.runs.layout import RESULT
from recnas.runs.records import Metrics
from recnas.runs.results import Leaderboard, Spread
from recnas.runs.rolling import ROLLING, OriginDifference, RolledModel, RollingResult
from recnas.runs.search_result import SearchResult
from recnas.tasks.comparison.settings import CompareConfig
from recnas.tasks.settings import CtrSearchConfig


def compare_rolling(
    config: CompareConfig, data: RollingData, out: Path | str, keep: bool = False, how: Execution | None = None
) -> RollingResult:
    """The same comparison on every origin. More models or seeds may be added, as to a comparison."""
    how, run = how or Execution(), _run(out, data, job="compare")
    with run.locked():
        boards = []
        for origin in data.origins:
            how.progress.say(f"{origin.path.name} of {len(data.origins)}")
            boards.append(compare_configured(config, origin, run.path / origin.path.name, keep, how))
        result = rolled_boards(boards, data)
        _write(run.path, result)
    return result


def search_rolling(
    config: CtrSearchConfig, data: RollingData, out: Path | str, how: Execution | None = None
) -> RollingResult:
    """The same search on every origin: what it would have found at that time, and how that did in the window after."""
    how, run = how or Execution(), _run(out, data, job="search", config=config.identity())
    with run.locked():
        found = []
        for origin in data.origins:
            how.progress.say(f"{origin.path.name} of {len(data.origins)}")
            own = config.model_copy(update={"data": str(origin.path)})
            found.append(search(own, run.path / origin.path.name, how))
        result = rolled_searches(found, data)
        _write(run.path, result)
    return result


def _run(out: Path | str, data: RollingData, **facts: Any) -> RunDir:
    return RunDir.create(out, ROLLING, data=data_facts(data.path, data.fingerprint, out), **facts)


def rolled_searches(found: Sequence[SearchResult], data: RollingData) -> RollingResult:
    winners = RolledModel(
        model="winner",
        test=_spreads([one.test for one in found]),
        valid=_spreads([one.valid for one in found]),
        winners=tuple(one.winner.key for one in found),
    )
    return RollingResult(job="search", data=data.fingerprint, origins=_names(data), models=(winners,))


def rolled_boards(boards: Sequence[Leaderboard], data: RollingData) -> RollingResult:
    """Lowest mean test log loss over origins first; a model counts if it came through in all of them."""
    rows = [{row.model: row for row in board.models} for board in boards]
    failed: dict[str, str] = {}
    for board, name in zip(boards, _names(data)):
        for label, why in {**board.failed, **board.skipped}.items():
            failed.setdefault(label, f"{name}: {why}")
    reference = boards[0].reference
    whole = [label for label in rows[0] if all(label in row for row in rows)]
    losses = {label: [row[label].value("test", "logloss").mean for row in rows] for label in whole}
    models = []
    for label in whole:
        splits = [[_means(row[label].test) for row in rows], [_means(row[label].valid) for row in rows]]
        pair = losses.get(reference) if label != reference else None
        models.append(
            RolledModel(
                model=label,
                test=_spreads(splits[0]),
                valid=_spreads(splits[1]),
                difference=None if pair is None else _difference(losses[label], pair),
            )
        )
    models.sort(key=lambda one: (one.test["logloss"].mean is None, one.test["logloss"].mean or 0.0, one.model))
    return RollingResult(
        job="compare",
        data=data.fingerprint,
        origins=_names(data),
        reference=reference,
        models=tuple(models),
        failed=failed,
    )


def _difference(model: Sequence[float | None], reference: Sequence[float | None]) -> OriginDifference | None:
    if None in model or None in reference:
        return None
    gaps = [one - other for one, other in zip(model, reference) if one is not None and other is not None]
    interval = mean_interval(gaps)
    real = interval is not None and not interval[0] <= 0 <= interval[1]
    return OriginDifference(mean=fmean(gaps), interval=interval, real=real, by_origin=tuple(gaps))


def _names(data: RollingData) -> tuple[str, ...]:
    return tuple(origin.path.name for origin in data.origins)


def _means(spreads: Mapping[str, Spread]) -> Metrics:
    return {name: spread.mean for name, spread in spreads.items()}


def _spreads(lines: Sequence[Metrics]) -> dict[str, Spread]:
    """Over origins; nothing where one of them has no such number."""
    found = {}
    for name in lines[0]:
        values = tuple(one.get(name) for one in lines)
        known = [value for value in values if value is not None]
        whole = len(known) == len(values)
        spread = stdev(known) if whole and len(known) > 1 else None
        found[name] = Spread(mean=fmean(known) if whole else None, std=spread, values=values)
    return found


def _write(folder: Path, result: RollingResult) -> None:
    write_json(folder / RESULT, result.to_json())
    text = io.StringIO()
    names = list(result.models[0].test) if result.models else []
    writer = csv.writer(text)
    writer.writerow(["model", "origin", "winner", *(f"test_{name}" for name in names)])
    for model in result.models:
        for place, origin in enumerate(result.origins):
            winner = model.winners[place] if model.winners else ""
            writer.writerow([model.model, origin, winner, *(model.test[name].values[place] for name in names)])

    def write(file: IO[bytes]) -> None:
        file.write(text.getvalue().encode())

    write_atomic(folder / "origins.csv", write)


def check_search(config: object) -> CtrSearchConfig:
    if not isinstance(config, CtrSearchConfig):
        raise ConfigError("only searches on clicks go over origins in time.", "Give a config of a CTR search.")
    return config

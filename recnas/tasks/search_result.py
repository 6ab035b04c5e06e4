"""What a search found and what it cost, from what happened in it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from recnas.runs.records import Trained
from recnas.runs.search_result import Budget, Finalist, RaceResult, SearchResult, Winner
from recnas.searchers.base import Searcher
from recnas.tasks.base import Final, Task


def result_of(
    task: Task,
    searcher: Searcher[Any],
    winner: Winner,
    finalists: list[Finalist],
    final: Final,
    seconds: dict[str, float],
    trained: int,
    race: RaceResult | None = None,
) -> SearchResult:
    """`result.json`; `trained` counts the trainings the winner was chosen from."""
    scored = [one for one in searcher.history if not one.proposal.known]
    chosen = next((one for one in finalists if one.key == winner.key), None)
    values = winner.values or {}
    valid = dict(chosen.valid) if chosen is not None else {task.metric.name: values.get(f"valid_{task.metric.name}")}
    spent = task.budget(len(scored), trained, [one.proposal.arch for one in scored])
    counts = {
        "proposed": len(searcher.history),
        "scored": len(scored),
        "failed": sum(one.values is None for one in scored),
        "trained": trained,
    }
    front = [one.proposal.key for one in searcher.front()] if task.objectives.has_front else None
    return SearchResult(
        task=task.name,
        method=task.searcher.method,
        metric=task.metric.name,
        winner=winner,
        valid=valid,
        valid_std=chosen.valid_std if chosen is not None else None,
        test=final.test,
        test_std=final.test_std,
        best_possible=final.best_possible,
        objectives=task.objectives.to_dict(),
        combine=task.objectives.combine,
        front=front,
        limits=searcher.gate.counts.to_dict(),
        seeds={"search": task.seed, "finalists": task.finalist_seeds},
        budget=Budget.model_validate(counts | spent),
        seconds=seconds,
        data=task.fingerprint,
        finalists=tuple(finalists),
        race=race,
        extras=final.extras,
    )


def seeds_left_out(task: Task, searcher: Searcher[Any]) -> str | None:
    """Which seeds a limit excludes, in a sentence."""
    names = {task.space.key(seed.arch): seed.name for seed in task.seeds}
    left = [names[task.space.key(arch)] for arch in searcher.seeds_left_out]
    which = f"{len(left)} of {len(names)} seeds" if len(left) < len(names) else "all seeds"
    return f"note: {which} are outside the limits ({', '.join(left)}); the search goes without them" if left else None


def seeds_passed_over(task: Task, searcher: Searcher[Any]) -> str | None:
    """Which seeds in a pool were not proposed, in a sentence."""
    met = {told.proposal.key for told in searcher.history} | {task.space.key(arch) for arch in searcher.seeds_left_out}
    over = [seed.name for seed in task.seeds if task.space.key(seed.arch) not in met]
    if not over:
        return None
    return (
        f"note: {len(over)} of {len(task.seeds)} seeds were not proposed, because others of the pool have better scores "
        f"({', '.join(over)}); search.method=evolution, random or local begins with all of them"
    )


def winner_of(task: Task, arch: Any, index: int, rank: int, values: Mapping[str, float] | None) -> Winner:
    """`index` of its candidate, `rank` its place before any was trained."""
    return Winner(
        key=task.space.key(arch),
        index=index,
        rank=rank,
        arch=task.describe(arch),
        text=getattr(task.plain(arch), "text", None),
        values=dict(values or {}),
        cost=dict(task.cost(arch)),
    )


def finalist_of(lines: list[Trained], values: Mapping[str, float] | None, metric: str) -> Finalist:
    """One candidate over its seeds; without metrics if any of them failed."""
    failed = any(line.failed for line in lines)
    names = [] if failed else [name for name in lines[0].valid if all(name in line.valid for line in lines)]
    found = {name: [line.valid[name] for line in lines] for name in names}
    judged = [float(value) for value in found.get(metric, []) if value is not None]
    return Finalist(
        rank=lines[0].rank or 0,
        index=lines[0].index,
        key=lines[0].key,
        values=dict(values or {}),
        cost=lines[0].cost,
        valid={name: _mean(some) for name, some in found.items()},
        valid_std=statistics.stdev(judged) if len(judged) > 1 else None,
        seeds=len(lines),
    )


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known and len(known) == len(values) else None

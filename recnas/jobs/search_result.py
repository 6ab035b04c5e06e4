"""What a search found and what it cost, from what happened in it."""

from __future__ import annotations

import statistics
from typing import Any

from recnas.runs.records import Budget, Finalist, SearchResult, Trained, Winner
from recnas.searchers.base import Searcher
from recnas.searchers.proposal import Outcome
from recnas.tasks.base import Final, Task


def result_of(
    task: Task,
    searcher: Searcher[Any],
    outcome: Outcome[Any],
    rank: int,
    finalists: list[Finalist],
    final: Final,
    seconds: dict[str, float],
) -> SearchResult:
    """`result.json`. `outcome` is the winner, `rank` its place before any was trained."""
    scored = [one for one in searcher.history if not one.proposal.known]
    arch = outcome.proposal.arch
    chosen = next((one for one in finalists if one.key == outcome.proposal.key), None)
    values = dict(outcome.values or {})
    valid = dict(chosen.valid) if chosen is not None else {task.metric.name: values.get(f"valid_{task.metric.name}")}
    spent = task.budget(len(scored), len(finalists) * task.finalist_seeds, [one.proposal.arch for one in scored])
    counts = {
        "proposed": len(searcher.history),
        "scored": len(scored),
        "failed": sum(one.values is None for one in scored),
        "trained": len(finalists) * task.finalist_seeds,
    }
    front = [one.proposal.key for one in searcher.front()] if task.objectives.has_front else None
    return SearchResult(
        task=task.name,
        method=task.searcher.method,
        metric=task.metric.name,
        winner=Winner(
            key=outcome.proposal.key,
            index=outcome.proposal.index,
            rank=rank,
            arch=task.describe(arch),
            text=getattr(task.plain(arch), "text", None),
            values=values,
            cost=dict(task.cost(arch)),
        ),
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
        extras=final.extras,
    )


def finalist_of(rank: int, outcome: Outcome[Any], lines: list[Trained], metric: str) -> Finalist:
    """One candidate over its seeds; without metrics if any of them failed."""
    failed = any(line.failed for line in lines)
    names = [] if failed else list(lines[0].valid)
    values = {name: [line.valid[name] for line in lines] for name in names}
    judged = [float(value) for value in values.get(metric, []) if value is not None]
    return Finalist(
        rank=rank,
        index=outcome.proposal.index,
        key=outcome.proposal.key,
        values=dict(outcome.values or {}),
        cost=lines[0].cost,
        valid={name: _mean(some) for name, some in values.items()},
        valid_std=statistics.stdev(judged) if len(judged) > 1 else None,
        seeds=len(lines),
    )


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known and len(known) == len(values) else None

"""The table of a contest: arms over seeds, and how far the search is from each of the others.

Intervals are over test rows and seeds at once, as in a comparison (`recnas.bench.bootstrap`).
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np

from recnas.bench.bootstrap import RowSums, paired_bootstrap
from recnas.bench.verdict import ratio
from recnas.runs.records import ArmRun
from recnas.runs.results import Contestant, ContestBoard, ContestDifference, Spread

SEARCH, ZOO = "search", "zoo"  # arms that the verdict is about


def mean_of(sums: Sequence[RowSums]) -> RowSums:
    """Several trainings of one winner as one: every figure of rows is the mean of theirs."""
    first = sums[0]
    if len(sums) == 1:
        return first
    aucs = [one.auc for one in sums if one.auc is not None]
    return RowSums(
        logloss=fmean(one.logloss for one in sums),
        auc=fmean(aucs) if len(aucs) == len(sums) else None,
        rows=first.rows,
        clicks=first.clicks,
        losses=np.mean([one.losses for one in sums], axis=0),
        above=np.mean([one.above for one in sums], axis=0),
        below=np.mean([one.below for one in sums], axis=0),
    )


def contest_board(
    lines: Sequence[ArmRun],
    sums: Mapping[tuple[str, int], RowSums],
    order: Sequence[str],
    data: str,
    rows: Mapping[str, int],
    budget: float,
    seeds: Sequence[int],
) -> ContestBoard:
    """What the lines say.

    Args:
        lines: of arms and seeds that ended; of two about the same the last counts.
        sums: of the winners' scores on the test rows, by arm and seed.
        order: arms in the order they are shown; others follow.
    """
    last = {(line.arm, line.seed): line for line in lines}
    names = list(dict.fromkeys([*order, *(line.arm for line in lines)]))
    arms = [_contestant([last[arm, seed] for arm, seed in sorted(last) if arm == name], name) for name in names]
    arms = [one for one in arms if one.seeds or one.failed]
    judged = {one.arm: [sums[one.arm, seed] for seed in one.seeds] for one in arms if one.seeds}
    ours = SEARCH if SEARCH in judged else next(reversed(judged), None)
    differences = tuple(
        ContestDifference(model=ours, other=other, difference=paired_bootstrap(judged[ours], judged[other]))
        for other in judged
        if ours is not None and other != ours
    )
    missing = tuple(f"{arm}-{seed}" for arm in order for seed in seeds if (arm, seed) not in last)
    return ContestBoard(
        data=data,
        rows=dict(rows),
        budget=budget,
        seeds=tuple(seeds),
        arms=tuple(arms),
        missing=missing,
        differences=differences,
        verdict=_verdict(differences, {one.arm: one for one in arms}),
    )


def _contestant(lines: Sequence[ArmRun], arm: str) -> Contestant:
    whole = [line for line in lines if line.failed is None]
    return Contestant(
        arm=arm,
        seeds=tuple(line.seed for line in whole),
        winners=tuple(line.winner for line in whole),
        valid=_spread([line.valid.get("logloss") for line in whole]),
        test=_spread([line.test.get("logloss") for line in whole]),
        auc=_spread([line.test.get("auc") for line in whole]),
        rows=fmean(line.rows for line in whole) if whole else 0.0,
        warmup_rows=fmean(line.warmup_rows for line in whole) if whole else 0.0,
        flops=_mean([line.cost.get("flops") for line in whole]),
        latency_ms_1=_mean([line.latency.get("p50_ms_1") for line in whole]),
        latency_ms_512=_mean([line.latency.get("p50_ms_512") for line in whole]),
        embedding_mb=_mean([line.cost.get("embedding_mb") for line in whole]),
        failed={line.seed: line.failed for line in lines if line.failed is not None},
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None


def _spread(values: Sequence[float | None]) -> Spread:
    known = [value for value in values if value is not None]
    deviation = statistics.stdev(known) if len(known) > 1 and len(known) == len(values) else None
    return Spread(mean=_mean(values), std=deviation, values=tuple(values))


def _verdict(differences: Sequence[ContestDifference], arms: Mapping[str, Contestant]) -> str:
    """The search against the hand-crafted models; without these against the best of the others."""
    if not differences:
        return "Nothing can be compared yet: fewer than two arms have a winner."
    found = {one.other: one for one in differences}
    pair = found.get(ZOO) or min(differences, key=lambda one: _loss(arms[one.other]))
    one, other, difference = arms[pair.model], arms[pair.other], pair.difference
    against = f"{other.arm} ({winners(other)})"
    low, high = difference.logloss_interval
    spread = f"(95 % interval {low:+.5f} to {high:+.5f}, {len(one.seeds)} and {len(other.seeds)} seeds)"
    if not difference.real:
        said = f"There is no real difference between {one.arm} and {against}: {difference.logloss:+.5f} test log loss {spread}"
    else:
        word = "less" if difference.logloss < 0 else "more"
        said = f"{one.arm} has {abs(difference.logloss):.5f} {word} test log loss than {against} {spread}"
    return said + _cost(one, other) + "."


def _loss(one: Contestant) -> float:
    return math.inf if one.test.mean is None else one.test.mean


def _cost(one: Contestant, other: Contestant) -> str:
    said = ""
    if one.flops and other.flops:
        said += f", at {ratio(one.flops / other.flops)} times its FLOPs"
    if one.latency_ms_512 and other.latency_ms_512:
        said += f" and {ratio(one.latency_ms_512 / other.latency_ms_512)} times its latency"
    return said


def winners(one: Contestant) -> str:
    """Each once, the most frequent first."""
    return ", ".join(f"{name} x{count}" if count > 1 else name for name, count in Counter(one.winners).most_common())

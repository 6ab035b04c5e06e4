"""How fast searchers find the best architecture of a table: regret curves, with random search beside them.

Regret after n evaluations is the truth of the best candidate so far (by validation) minus the table's best.
Searches are repeated over seeds; a curve is their mean with a 95 % interval of the mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from recnas.searchers.objective import Objectives
from recnas.searchers.registry import get_searcher
from recnas.space.base import Space

OBJECTIVE = "valid_logloss"


@dataclass(frozen=True)
class RegretCurve:
    """One method's mean regret after 1, 2, ... evaluations."""

    method: str
    seeds: int
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "seeds": self.seeds,
            "mean": list(self.mean),
            "low": list(self.low),
            "high": list(self.high),
        }


def settings_for(method: str, candidates: int) -> dict[str, Any]:
    """Settings of a search of about `candidates` evaluations."""
    if method != "evolution":
        return (
            {"candidates": candidates, "block": 1}
            if method == "random"
            else {"candidates": candidates, "block": 4, "starts": 4}
        )
    population = max(4, min(16, candidates // 4))
    return {
        "population": population,
        "generations": candidates - population,
        "children": 1,
        "tournament": max(2, population // 2),
        "mutations": 1,
    }


def regret_curve(
    method: str,
    space: Space[str],
    truth: Mapping[str, float],
    candidates: int,
    seeds: int,
    settings: Mapping[str, Any] | None = None,
) -> RegretCurve:
    """Run `method` on a table of log losses once per seed; a candidate met again costs nothing."""
    best_possible = min(truth.values())
    curves = np.empty((seeds, candidates))
    for seed in range(seeds):
        found = _losses(method, space, truth, candidates, seed, settings or settings_for(method, candidates))
        curves[seed] = np.minimum.accumulate(found) - best_possible
    mean = curves.mean(0)
    error = 1.96 * curves.std(0, ddof=1) / np.sqrt(seeds) if seeds > 1 else np.zeros(candidates)
    return RegretCurve(
        method, seeds, tuple(mean.tolist()), tuple((mean - error).tolist()), tuple((mean + error).tolist())
    )


def order_curve(name: str, truth: Mapping[str, float], scores: Mapping[str, float], candidates: int) -> RegretCurve:
    """Regret of evaluating in the order of a score, high ones first; there is no chance in it and so no interval."""
    order = sorted(truth, key=lambda key: -scores[key])[:candidates]
    regret = np.minimum.accumulate([truth[key] for key in order]) - min(truth.values())
    mean = tuple(regret.tolist()) + (float(regret[-1]),) * (candidates - len(order))
    return RegretCurve(name, 1, mean, mean, mean)


def _losses(
    method: str, space: Space[str], truth: Mapping[str, float], candidates: int, seed: int, settings: Mapping[str, Any]
) -> np.ndarray:
    """The loss of each new candidate in the order evaluated, the last one repeated if the search ran dry."""
    searcher = get_searcher(method, space, Objectives.of({OBJECTIVE: "min"}), seed, settings)
    found: list[float] = []
    while len(found) < candidates and (batch := searcher.ask_batch()):
        for proposal in batch:
            if proposal.known:
                searcher.tell(proposal)
                continue
            found.append(truth[proposal.key])
            searcher.tell(proposal, {OBJECTIVE: truth[proposal.key]})
    return np.asarray((found + found[-1:] * candidates)[:candidates])


def evaluations_to_reach(curve: Sequence[float], regret: float) -> int | None:
    """After how many evaluations the mean regret is at most `regret`."""
    return next((n for n, value in enumerate(curve, start=1) if value <= regret), None)

"""The next point of a Bayesian optimisation, as a pure function of what was told.

The library keeps its state in an optimizer object; here a new one is filled for every suggestion, with a
seed of its own. Resuming by replay then needs nothing but the history.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import numpy as np

from recnas.errors import BackendMissing

Acquisition = Literal["ei", "ucb"]
Point = tuple[float, ...]


@lru_cache(maxsize=4096)  # pure, and a resumed search asks again for all it was told
def suggest(
    bounds: tuple[tuple[float, float], ...],
    told: tuple[tuple[Point, float], ...],
    acquisition: Acquisition,
    seed: tuple[int, ...],
) -> Point:
    """Where to look next in a box, to make the told value large.

    Args:
        bounds: lowest and highest value of each coordinate.
        told: points and their values; a point told twice counts once, with the mean.
        acquisition: `ei` expected improvement, `ucb` upper confidence bound, both with the library's defaults.
        seed: whole numbers; the same give the same point.
    """
    state = np.random.RandomState(np.random.SeedSequence(list(seed)).generate_state(4))
    names = [f"x{i}" for i in range(len(bounds))]
    optimizer = _optimizer(dict(zip(names, bounds)), acquisition, state)
    means: dict[Point, list[float]] = {}
    for point, value in told:
        means.setdefault(point, []).append(value)
    for point, values in means.items():
        optimizer.register(params=dict(zip(names, point)), target=float(np.mean(values)))
    found = optimizer.suggest()
    return tuple(float(np.clip(found[name], low, high)) for name, (low, high) in zip(names, bounds))


def _optimizer(bounds: dict[str, tuple[float, float]], acquisition: Acquisition, state: Any) -> Any:
    try:
        from bayes_opt import BayesianOptimization
        from bayes_opt.acquisition import ExpectedImprovement, UpperConfidenceBound
    except ImportError:
        raise BackendMissing(
            "the hybrid search needs the package bayesian-optimization, version 3 or later.",
            "pip install 'bayesian-optimization>=3'",
        ) from None
    chosen = ExpectedImprovement(xi=0.0) if acquisition == "ei" else UpperConfidenceBound(kappa=2.576)
    return BayesianOptimization(
        None, bounds, acquisition_function=chosen, random_state=state, verbose=0, allow_duplicate_points=True
    )

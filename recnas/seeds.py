"""Random streams by name: every draw of a run is a function of its seed and of what the draw is for.

    rng = stream(seed, "evolution")                 # a numpy generator
    rng = stream(seed, "row-order", epoch)          # one per epoch
    number = stream_seed(seed, "scoring-batches")   # for whatever takes a whole number

The name is hashed into the seed, so two uses never share a stream by accident, and a draw can be made again
from (seed, name, numbers) alone: a resumed run needs no generator state. All names are listed here, each with
the one module that draws from it; a test holds the list against the sources. Searchers, also those of others,
draw from `searcher-<name>`.

Outside this list, by design: initial weights (torch generators seeded per network), and the batches of images
that vision networks are scored on, which the committed NAS-Bench-201 score table rests on.
"""

from __future__ import annotations

import hashlib

import numpy as np

SEARCHER = "searcher-"  # before the name of any searcher
STREAMS = {
    "row-order": "data/loader.py",
    "split-turns": "data/joined_loader.py",
    "warmup-paths": "train/paths.py",
    "warmup-check": "train/warmup.py",
    "scoring-batches": "evaluators/proxy.py",
    "head-tuning": "evaluators/shared_weights.py",
    "image-split": "train/images.py",
    "image-order": "train/images.py",
    "image-augmentation": "train/images.py",
    "warm-network": "train/images.py",
    "hnas-suggestion": "searchers/hnas.py",
    "two-layer-order": "evaluators/two_layer.py",
    "nasi-step": "tasks/gradient/nasi.py",
    "nasi-random": "tasks/gradient/nasi.py",
    "darts-split": "tasks/gradient/darts.py",
    "darts-alpha": "tasks/gradient/darts.py",
    "darts-train": "tasks/gradient/darts.py",
    "darts-valid": "tasks/gradient/darts.py",
    "importance-rows": "serve/importance.py",
    "importance-order": "serve/importance.py",
    "tuning-trials": "bench/entrants.py",
    "drawn-recipes": "train/recipe.py",
    "scored-architectures": "jobs/score.py",
    "sampled-cells": "jobs/score_cells.py",
    "race-mutations": "jobs/race.py",
    "table-architectures": "jobs/bench.py",
    "race-regret": "bench/race_regret.py",
    "forecast": "tasks/forecast.py",
}


def stream(seed: int, name: str, *more: int) -> np.random.Generator:
    """The generator of one use of a seed; `more` tells repetitions apart (an epoch, a step)."""
    return np.random.default_rng([seed, _code(name), *more])


def stream_seed(seed: int, name: str, *more: int) -> int:
    """A whole number below 2^63 that stands for the stream, for libraries that take a seed."""
    state = np.random.SeedSequence([seed, _code(name), *more]).generate_state(1, np.uint64)
    return int(state[0]) >> 1


def _code(name: str) -> int:
    if name not in STREAMS and not name.startswith(SEARCHER):
        raise KeyError(f"{name!r} is not in recnas.seeds.STREAMS: list it there with the module that uses it")
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")

"""How long a network takes to answer: median and 99th percentile, one thread, look-ups not counted."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from recnas.data.schema import Schema
from recnas.jobs.compare_models import Entrant, build_entrant
from recnas.threads import one_thread
from recnas.train.settings import TrainSettings

BATCHES = (1, 512)
_SECONDS, _LEAST = 0.5, 100  # per batch size: a 99th percentile needs a hundred answers


def measure(
    entrant: Entrant, choice: Mapping[str, Any], schema: Schema, settings: TrainSettings
) -> dict[str, float]:
    """`p50_ms_1`, `p99_ms_1`, `p50_ms_512`, `p99_ms_512` of an untrained network: weights do not matter."""
    # Tables of one row suffice: look-ups are not timed.
    one_row = Schema.of_shape(schema.n_dense, [3] * schema.n_sparse)
    settings = settings.model_copy(
        update={"embeddings": settings.embeddings.model_copy(update={"cap": None})}
    )
    built = build_entrant(entrant, choice, one_row, settings, 0, torch.device("cpu"))
    network = built.network.eval()
    found: dict[str, float] = {}
    with one_thread(), torch.inference_mode():
        for size in BATCHES:
            generator = torch.Generator().manual_seed(size)
            dense = torch.rand(size, schema.n_dense, generator=generator)
            embedded = torch.randn(size, schema.n_sparse, built.embeddings.width, generator=generator)
            times = _times(network, dense, embedded)
            for percent in (50, 99):
                found[f"p{percent}_ms_{size}"] = 1e3 * float(np.percentile(times, percent))
    return found


def _times(network: torch.nn.Module, dense: torch.Tensor, embedded: torch.Tensor) -> list[float]:
    for _ in range(3):
        network(dense, embedded)
    times: list[float] = []
    end = time.perf_counter() + _SECONDS
    while len(times) < _LEAST or time.perf_counter() < end:
        started = time.perf_counter()
        network(dense, embedded)
        times.append(time.perf_counter() - started)
    return times

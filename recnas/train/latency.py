"""How long a network takes to answer on this machine: one thread, look-ups not counted."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from recnas.threads import one_thread

BATCHES = (1, 512)
QUICK = (0.2, 5)  # seconds and answers per batch size: enough for a steady median
THOROUGH = (0.5, 100)  # a 99th percentile needs a hundred answers


def latency_ms(network: nn.Module, n_dense: int, n_sparse: int, width: int) -> dict[str, float]:
    """Median milliseconds per batch size, as limits and objectives name them: `latency_ms_1`, `latency_ms_512`."""
    times = answer_times(network, n_dense, n_sparse, width, *QUICK)
    return {f"latency_ms_{size}": 1e3 * float(np.median(some)) for size, some in times.items()}


def latency_percentiles(network: nn.Module, n_dense: int, n_sparse: int, width: int) -> dict[str, float]:
    """`p50_ms_1`, `p99_ms_1`, `p50_ms_512`, `p99_ms_512`."""
    times = answer_times(network, n_dense, n_sparse, width, *THOROUGH)
    return {
        f"p{percent}_ms_{size}": 1e3 * float(np.percentile(some, percent))
        for size, some in times.items()
        for percent in (50, 99)
    }


def answer_times(
    network: nn.Module,
    n_dense: int,
    n_sparse: int,
    width: int,
    seconds: float,
    least: int,
    batches: Sequence[int] = BATCHES,
) -> dict[int, list[float]]:
    """Seconds of every answer, by batch size: for `seconds`, and `least` answers at least. Weights do not matter."""
    network = network.eval()
    times: dict[int, list[float]] = {}
    with one_thread(), torch.inference_mode():
        for size in batches:
            generator = torch.Generator().manual_seed(size)
            dense = torch.rand(size, n_dense, generator=generator)
            embedded = torch.randn(size, n_sparse, width, generator=generator)
            for _ in range(3):
                network(dense, embedded)
            some: list[float] = []
            times[size] = some
            end = time.perf_counter() + seconds
            while len(some) < least or time.perf_counter() < end:
                started = time.perf_counter()
                network(dense, embedded)
                some.append(time.perf_counter() - started)
    return times

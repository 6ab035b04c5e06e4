"""How long a network takes to answer on this machine: one thread of its CPU, or a GPU; look-ups not counted.

On a GPU an answer counts from inputs that are there to logits that are there: the host waits for each.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from recnas.devices import choose_device
from recnas.threads import one_thread

BATCHES = (1, 512)
QUICK = (0.2, 5)  # seconds and answers per batch size: enough for a steady median
THOROUGH = (0.5, 100)  # a 99th percentile needs a hundred answers


def latency_ms(network: nn.Module, n_dense: int, n_sparse: int, width: int, on: str = "cpu") -> dict[str, float]:
    """Median milliseconds per batch size, as limits and objectives name them: `latency_ms_1`, `latency_ms_512`."""
    times = answer_times(network, n_dense, n_sparse, width, *QUICK, on=on)
    return {f"latency_ms_{size}": 1e3 * float(np.median(some)) for size, some in times.items()}


def latency_percentiles(
    network: nn.Module, n_dense: int, n_sparse: int, width: int, on: str = "cpu"
) -> dict[str, float]:
    """`p50_ms_1`, `p99_ms_1`, `p50_ms_512`, `p99_ms_512`."""
    times = answer_times(network, n_dense, n_sparse, width, *THOROUGH, on=on)
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
    on: str = "cpu",
) -> dict[int, list[float]]:
    """Seconds of every answer, by batch size: for `seconds`, and `least` answers at least. Weights do not matter."""
    device = choose_device(on, "latency_on")
    network = network.eval().to(device)
    times: dict[int, list[float]] = {}
    # Not in inference mode: index tensors that networks keep for the next time would be of no use to a training.
    with one_thread(), torch.no_grad():
        for size in batches:
            generator = torch.Generator().manual_seed(size)
            dense = torch.rand(size, n_dense, generator=generator).to(device)
            embedded = torch.randn(size, n_sparse, width, generator=generator).to(device)
            for _ in range(3):
                _answer(network, dense, embedded)
            some: list[float] = []
            times[size] = some
            end = time.perf_counter() + seconds
            while len(some) < least or time.perf_counter() < end:
                started = time.perf_counter()
                _answer(network, dense, embedded)
                some.append(time.perf_counter() - started)
    return times


def _answer(network: nn.Module, dense: torch.Tensor, embedded: torch.Tensor) -> None:
    network(dense, embedded)
    if dense.device.type == "cuda":
        torch.cuda.synchronize(dense.device)

"""How long a trained network of an architecture would take to answer, measured on this machine."""

from __future__ import annotations

import statistics
import time

import torch

from recnas.model.nasrec_plan import NetShape
from recnas.model.subnet import Subnet
from recnas.space.nasrec_arch import NasrecArch
from recnas.threads import one_thread

_SECONDS = 0.2  # per batch size: enough repeats for a steady median of networks of a millisecond
_LEAST = 5


def measure_latency(
    arch: NasrecArch, shape: NetShape, batches: tuple[int, ...] = (1, 512)
) -> dict[str, float]:
    """Median milliseconds of the network (look-ups not counted) per batch size, on one thread."""
    network = Subnet(arch, shape, torch.Generator().manual_seed(0))
    with one_thread(), torch.inference_mode():
        return {f"latency_ms_{size}": 1e3 * _median(network, shape, size) for size in batches}


def _median(network: Subnet, shape: NetShape, size: int) -> float:
    generator = torch.Generator().manual_seed(size)
    dense = torch.rand(size, shape.n_dense, generator=generator)
    embedded = torch.randn(size, shape.n_sparse, shape.width, generator=generator)
    network(dense, embedded)
    found: list[float] = []
    end = time.perf_counter() + _SECONDS
    while len(found) < _LEAST or time.perf_counter() < end:
        started = time.perf_counter()
        network(dense, embedded)
        found.append(time.perf_counter() - started)
    return statistics.median(found)

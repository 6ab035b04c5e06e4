"""Give freed memory back in the middle of a training step.

The full path of a large supernet allocates gradients (4 MB each) while it frees activations (2 MB each),
and the C library keeps the freed pieces because the next gradient does not fit: 0.5 GB of 2.9 for
NASRec-Full. Fresh pages cost time (allocating all tensors straight from the system makes a small step half
as long again), so freed ones are returned only where much is at stake, and only block by block.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

from torch import Tensor

# Weights from which on it is worth it: the full path of NASRec-Full has 172 million, that of NASRec-Small
# 31 million, a single-path candidate about two.
LARGE = 64_000_000


def trim_when_differentiated(x: Tensor) -> None:
    """Return freed memory once the gradient of `x` is complete: everything computed from it is done."""
    if x.requires_grad and x.device.type == "cpu":
        x.register_hook(lambda _grad: trim())


def trim() -> None:
    """Return freed memory now."""
    give_back = _malloc_trim()
    if give_back is not None:
        give_back(0)


@lru_cache(maxsize=1)
def _malloc_trim() -> Any:
    """glibc's function, None with any other C library."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None

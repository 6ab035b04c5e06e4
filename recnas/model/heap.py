"""Give freed memory back in the middle of a backward pass.

The full path of a large supernet allocates gradients (4 MB each) while it frees activations (2 MB each),
and the C library keeps the freed pieces because the next gradient does not fit: 0.5 GB of 2.9 for
NASRec-Full. Allocating straight from the system would avoid it, but then every small step pays for fresh
pages and takes half as long again. So only where much is at stake, freed pages are returned block by block.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

from torch import Tensor

# Weights from which on it is worth it; a single-path candidate has about two million.
LARGE = 16_000_000


def trim_when_differentiated(x: Tensor) -> None:
    """Return freed memory once the gradient of `x` is complete: everything computed from it is done."""
    if x.requires_grad and x.device.type == "cpu":
        x.register_hook(_trim)


def _trim(_grad: Tensor) -> None:
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@lru_cache(maxsize=1)
def _malloc_trim() -> Any:
    """glibc's function, None with any other C library."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None

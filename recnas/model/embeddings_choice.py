"""Which embedding backend `auto` stands for."""

from __future__ import annotations

from typing import Literal

import torch

from recnas.errors import BackendMissing
from recnas.model.embeddings_fused import load_kernels


def choose_backend(home: torch.device, width: int, fields: int) -> Literal["fused", "plain"]:
    """What `auto` means for tables in the memory of `home`.

    On a CPU `plain` is the faster one (2.5 against 6.3 ms for a step of 512 rows and 26 fields on 2 cores:
    scripts/bench/embeddings) and needs 0.13 GB less, for it does not load torchrec. On a GPU the fused
    kernels replace dozens of small launches.
    """
    fits = home.type != "cpu" and width % 4 == 0 and fields > 0
    return "fused" if fits and _loads() else "plain"


def _loads() -> bool:
    try:
        load_kernels()
    except BackendMissing:
        return False
    return True

"""Dropout that a resumed training repeats: what it drops is a function of seed and step, not of global random state."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_STEP_STRIDE = 0x9E3779B97F4A7C15  # odd: consecutive (seed, step) pairs land far apart
_SEEDS = 2**63


class Draws:
    """Random numbers of one network's dropout: a function of (seed, step), not of global state."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self._step = 0
        self._generator: torch.Generator | None = None

    def begin(self, step: int) -> None:
        self._step, self._generator = step, None

    def generator(self, device: torch.device) -> torch.Generator:
        if self._generator is None:
            mixed = (self.seed * 1_000_003 + (self._step + 1) * _STEP_STRIDE) % _SEEDS
            self._generator = torch.Generator(device).manual_seed(mixed)
        return self._generator


class Dropout(nn.Module):
    """Usual dropout, drawing from the network's own `Draws`."""

    def __init__(self, share: float, draws: Draws) -> None:
        super().__init__()
        self.share, self.draws = share, draws

    def forward(self, x: Tensor, share: float | None = None) -> Tensor:
        """`share` instead of the module's own, if it is given."""
        share = self.share if share is None else share
        if not self.training or share == 0:
            return x
        kept = torch.empty_like(x).bernoulli_(1 - share, generator=self.draws.generator(x.device))
        return x * kept.mul_(1 / (1 - share))

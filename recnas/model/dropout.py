"""Dropout that a resumed training repeats: what it drops is a function of seed and step, not of global random state."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recnas.model import kernels

_STEP_STRIDE = 0x9E3779B97F4A7C15  # odd: consecutive (seed, step) pairs land far apart
_SEEDS = 2**63
_LEVELS = 2**16


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
    """Usual dropout, drawing from the network's own `Draws`.

    An element is dropped where a whole number from 0 to 65,535 is below a limit. Four such numbers are cut from every
    64 random bits: `bernoulli_` draws one number per element, and took a quarter of a training step on a CPU.
    """

    def __init__(self, share: float, draws: Draws) -> None:
        super().__init__()
        self.share, self.draws = share, draws

    def forward(self, x: Tensor, share: float | None = None) -> Tensor:
        """`share` instead of the module's own, if it is given."""
        share = self.share if share is None else share
        if not self.training or share == 0:
            return x
        kept, scale = self._kept(x, share)
        return x * kept.mul_(scale)

    def after_relu(self, x: Tensor) -> Tensor:
        """The same of `relu(x)`, which takes the memory of `x`: one pass forward, one back."""
        if not self.training or self.share == 0:
            return F.relu(x, inplace=True)
        if kernels.needs_plain_operations():
            return self(F.relu(x, inplace=True))
        result: Tensor = _ReluDropout.apply(x, *self._kept(x, self.share))
        return result

    def _kept(self, x: Tensor, share: float) -> tuple[Tensor, float]:
        """1 where an element of `x` stays and 0 where it is dropped, and what makes up for the loss."""
        limit = min(round(share * _LEVELS), _LEVELS - 1)
        bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device)
        bits.random_(-(2**63), None, generator=self.draws.generator(x.device))
        numbers = bits.view(torch.int16)[: x.numel()].view(x.shape)  # from -32,768
        kept = torch.ge(numbers, limit - _LEVELS // 2, out=torch.empty(x.shape, dtype=x.dtype, device=x.device))
        return kept, _LEVELS / (_LEVELS - limit)


class _ReluDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, kept: Tensor, scale: float) -> Tensor:
        out = x.clamp_min_(0).mul_(kept.mul_(scale))
        ctx.mark_dirty(x)
        ctx.save_for_backward(out)
        ctx.scale = scale
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (out,) = ctx.saved_tensors
        return torch.ops.aten.threshold_backward(grads[0], out, 0).mul_(ctx.scale), None, None

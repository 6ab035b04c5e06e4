"""Moments of the loss gradient over k batches, streamed: no copy of every batch's gradient is kept.

Variance is the danger. Both textbook one-pass forms lose every digit in float32 when a mean is large
against its spread. Here deviations are taken from the first batch's gradient, d_b = g_b - g_1, and

    k var = sum d_b^2 - (sum d_b)^2 / k

loses at most a factor k: if all other batches agree, the two sums differ by (k - 1) d^2 / k. What remains is
the rounding of the gradients themselves; entries whose spread is below that are treated as constant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from recnas.proxies.base import ProxyError, Stats, check_finite, read
from recnas.proxies.network import mean_loss

# A gradient entry is a sum over a batch in float32: below this share of its size a spread is rounding noise.
NOISE = 1e-6
# Entries handled at a time: five tensors of them fit into the second-level cache of a core.
_IN_CACHE = 2**16
SUMMED = ("ratio", "varying", "squared_weights", "first_squared", "first_snip")  # fields of `ParameterMoments`

Number = Any  # a float, or a scalar that is still on a device


@dataclass
class ParameterMoments:
    """What the batches say about one parameter (all its leaves together)."""

    name: str
    is_weight: bool  # a matrix or filter, not a bias and not the gain of a normalisation
    numel: int = 0
    ratio: float = 0.0  # sum over entries of mean |g| / std; constant entries left out
    varying: int = 0  # entries that are not constant
    squared_weights: float = 0.0  # |theta|^2
    first_squared: float = 0.0  # |g_1|^2
    first_snip: float = 0.0  # sum |theta g_1|
    dots: tuple[float, ...] = ()  # theta . g_b for every batch


@dataclass
class GradientMoments:
    """Moments by parameter, and the loss of every batch."""

    parameters: list[ParameterMoments]
    losses: tuple[float, ...]

    @classmethod
    def passes(cls, batches: int, batch_size: int) -> float:
        return batches

    @classmethod
    def compute(cls, stats: Stats) -> Self:
        """One forward and one backward pass per batch."""
        names = list(stats.network.params)
        leaves = [stats.network.params[name] for name in names]
        moments: list[_LeafMoments] = []
        losses: list[Number] = []
        for gradients, loss in batch_gradients(stats, leaves):
            losses.append(loss)
            if not moments:
                moments = [_LeafMoments(n, leaf, g, len(stats.batches)) for n, leaf, g in zip(names, leaves, gradients)]
            else:
                for moment, gradient in zip(moments, gradients):
                    moment.add(gradient)
        grouped: dict[str, ParameterMoments] = {}
        for moment in moments:
            name = stats.group_of(moment.name)
            moment.add_to(grouped.setdefault(name, ParameterMoments(name, moment.leaf.dim() > 1)))
        return cls._read(list(grouped.values()), losses)

    @classmethod
    def _read(cls, parameters: list[ParameterMoments], losses: list[Number]) -> Self:
        """From sums that are still on a device to numbers, in one look; on a CPU they are numbers already."""
        if not any(isinstance(loss, Tensor) for loss in losses):
            return cls(parameters, tuple(losses))
        scalars = list(losses)
        for one in parameters:
            scalars += [getattr(one, name) for name in SUMMED] + list(one.dots)
        values = iter(read([torch.as_tensor(x, dtype=torch.float64, device=losses[0].device) for x in scalars]))
        found = tuple(next(values) for _ in losses)
        if not all(map(math.isfinite, found)):
            raise _not_finite("(the loss)", "the value")
        for one in parameters:
            for name in SUMMED:
                setattr(one, name, next(values))
            one.varying, one.dots = int(one.varying), tuple(next(values) for _ in one.dots)
            if not all(map(math.isfinite, one.dots)):
                raise _not_finite(one.name, "the gradient")
        return cls(parameters, found)

    def weights(self) -> Iterator[ParameterMoments]:
        """Matrices and filters only: what zero-cost metrics traditionally sum over."""
        return (moments for moments in self.parameters if moments.is_weight)

    @property
    def dots(self) -> tuple[float, ...]:
        """theta . g_b over all parameters, for every batch."""
        return tuple(map(sum, zip(*(moments.dots for moments in self.parameters))))


def _not_finite(name: str, what: str) -> ProxyError:
    return ProxyError(
        f"{what} of parameter {name!r} holds values that are NaN or infinite.",
        "The weights have diverged or the inputs are not finite: check the warm-up's learning rate and the data.",
    )


def batch_gradients(stats: Stats, leaves: Sequence[Tensor]) -> Iterator[tuple[list[Tensor], Number]]:
    """Gradient of the mean loss of each batch, and that loss; a leaf the loss does not depend on gives zeros."""
    for batch in stats.batches:
        with torch.enable_grad():
            loss = mean_loss(stats.network.forward(stats.network.params, batch.inputs), batch)
            if not loss.requires_grad:  # no parameter reaches the logits
                yield [torch.zeros_like(leaf) for leaf in leaves], _number(loss)
                continue
            found = torch.autograd.grad(loss, list(leaves), allow_unused=True)
        if loss.device.type == "cpu":
            check_finite("(the loss)", loss.detach(), "the value")
        yield [torch.zeros_like(leaf) if g is None else g for leaf, g in zip(leaves, found)], _number(loss)


class _LeafMoments:
    """Running sums of one leaf. Holds the first gradient, two sums of deviations and one of sizes."""

    def __init__(self, name: str, leaf: Tensor, first: Tensor, batches: int) -> None:
        self.name, self.leaf, self.first, self.batches = name, leaf.detach(), first, batches
        self.dots = [self._dot(first)]
        if batches > 1:
            self.sizes = first.abs()
            self.sum = torch.zeros_like(first)
            self.squares = torch.zeros_like(first)

    def add(self, gradient: Tensor) -> None:
        self.dots.append(self._dot(gradient))
        for g, first, total, squares, sizes in _pieces(gradient, self.first, self.sum, self.squares, self.sizes):
            deviation = g - first
            total += deviation
            squares.addcmul_(deviation, deviation)
            sizes += g.abs()

    def add_to(self, total: ParameterMoments) -> None:
        k = self.batches
        total.numel += self.leaf.numel()
        for leaf, first in _pieces(self.leaf, self.first):
            total.squared_weights += _sum(leaf.square())
            total.first_squared += _sum(first.square())
            total.first_snip += _sum((leaf * first).abs_())
        total.dots = tuple(map(sum, zip(total.dots, self.dots))) if total.dots else tuple(self.dots)
        if k == 1:
            return
        for sums, squares, sizes in _pieces(self.sum, self.squares, self.sizes):
            size = sizes.div_(k)
            spread = squares.addcmul_(sums, sums, value=-1 / k).div_(k).clamp_(min=0).sqrt_()
            varies = spread > size * NOISE
            total.ratio += _sum(torch.where(varies, size / spread, 0.0))
            varying: Number = varies.sum()
            total.varying += int(varying) if varying.device.type == "cpu" else varying

    def _dot(self, gradient: Tensor) -> Number:
        """theta . g, which is a number only if every entry of g is one."""
        found = sum(_sum(leaf * g) for leaf, g in _pieces(self.leaf, gradient))
        if not isinstance(found, Tensor) and not math.isfinite(found):
            check_finite(self.name, gradient)
        return found


def _pieces(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The same rows of tensors of one shape, few at a time on a CPU: what one step writes the next finds in cache."""
    (first, *_) = tensors
    if first.device.type != "cpu" or first.numel() <= _IN_CACHE or first.dim() == 0:
        yield tensors
        return
    rows = max(1, _IN_CACHE * first.shape[0] // first.numel())
    yield from zip(*(tensor.split(rows) for tensor in tensors))


def _number(scalar: Tensor) -> Number:
    """A float; on a device it stays there, until `GradientMoments._read`."""
    return float(scalar.detach()) if scalar.device.type == "cpu" else scalar.detach()


def _sum(x: Tensor) -> Number:
    """A sum in float64 of rows summed in float32: a copy of `x` in float64 would cost more than everything else."""
    return _number((x.sum(-1) if x.dim() > 1 else x).sum(dtype=torch.float64))

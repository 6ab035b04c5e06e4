"""Gram matrices of per-sample gradients, `K_ij = <J_i, J_j>`, added up layer by layer.

No `m x P` matrix of all gradients exists at any time. For one weight, what every example contributes is

    J_i = sum over t of d_it a_it^T,      a_it [k]: what the layer read,  d_it [n]: gradient at its output

where t runs over the places the weight was applied to: one for a plain linear layer, the tokens or pixels
otherwise, and over several uses of one weight as well. Then K_ij is the sum over (t, t') of
<a_it, a_jt'> <d_it, d_jt'>; whichever is cheaper is computed, that or the J_i of a few output rows at a time.
Products are taken in float64, because the smallest eigenvalue is what cancellation would eat first.

With batch statistics (batch normalisation) `d_it` is the influence that example i's activations have on the
logits of ALL examples: the matrix is not the neural tangent kernel then, and `ExactNtk` is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from recnas.model.observe import ConvUse, LinearUse
from recnas.proxies.base import Stats, check_finite
from recnas.proxies.network import true_logits
from recnas.proxies.recorded_pass import RecordedPass, dead_reason

# Numbers held at a time: of per-sample gradients of one layer, of products of pairs, of whole gradients.
_PIECE = 2**24
_ROWS = 2**26
_FREE_ROWS = 128  # the matrix of a batch of so many costs about one more pass of it; measured at 256 and 512
_PATCHES = 2**19  # of what a convolution reads, which stays in cache: whole patches would cost more than the products


@dataclass
class Gram:
    """A Gram matrix `[m, m]` in float64."""

    matrix: Tensor
    dead: str | None = None  # why the network has no gradients worth comparing; the matrix is zero then
    eps: float = 2.0**-23  # precision of the gradients it was made from

    @classmethod
    def passes(cls, batches: int, batch_size: int) -> float:
        return batch_size / _FREE_ROWS

    @property
    def trace(self) -> float:
        return float(self.matrix.diagonal().sum())

    @property
    def mean(self) -> float:
        return float(self.matrix.mean())

    @property
    def frobenius(self) -> float:
        return float(torch.linalg.matrix_norm(self.matrix))

    @cached_property
    def eigenvalues(self) -> Tensor:
        """Ascending."""
        return torch.linalg.eigvalsh(self.matrix)

    @property
    def rank_floor(self) -> float:
        """Eigenvalues below this are rounding: gradients rounded to `eps` move them by about eps^2 of the largest."""
        return max(self.eps**2, 2.0**-52) * len(self.matrix) * float(self.eigenvalues[-1].clamp(min=0))


class LogitGram(Gram):
    """Of the true-class logits, from one backward pass of their sum."""

    @classmethod
    def compute(cls, stats: Stats) -> Self:
        taped = stats.get(RecordedPass)
        return cls(*_from_tape(taped, taped.logit_gradients.outputs if taped.dead is None else {}, 1.0))


class LossGram(Gram):
    """Of the losses of the single examples."""

    @classmethod
    def compute(cls, stats: Stats) -> Self:
        taped = stats.get(RecordedPass)
        # The pass differentiates the mean loss: undo its 1 / m.
        outputs = taped.loss_gradients.outputs if taped.dead is None else {}
        return cls(*_from_tape(taped, outputs, float(len(taped))))


class ExactNtk(Gram):
    """The neural tangent kernel of the true-class logits over all parameters: one backward pass per example.

    Couplings between examples (batch normalisation) are in it. Whole gradients are compared in blocks of
    examples that fit in memory; with several blocks later examples are differentiated again.
    """

    @classmethod
    def passes(cls, batches: int, batch_size: int) -> float:
        return 1 + batch_size

    @classmethod
    def compute(cls, stats: Stats) -> Self:
        batch, params = stats.batches[0], stats.network.params
        names, leaves = list(params), list(params.values())
        with torch.enable_grad():
            logits = stats.network.forward(params, batch.inputs)
            outputs = true_logits(logits, batch.labels, batch.label_weights).unbind()
        check_finite("(logits)", logits.detach(), "the value")
        m = len(outputs)
        total = logits.new_zeros(m, m, dtype=torch.float64)
        dead, eps = dead_reason(logits), torch.finfo(logits.dtype).eps
        if dead is not None or not logits.requires_grad:
            return cls(total, dead, eps)

        def gradients(rows: range) -> list[Tensor]:
            """By parameter, `[rows, numel]`."""
            found = [torch.autograd.grad(outputs[i], leaves, retain_graph=True, allow_unused=True) for i in rows]
            stacked = []
            for name, leaf, column in zip(names, leaves, zip(*found)):
                stacked.append(torch.stack([torch.zeros_like(leaf) if g is None else g for g in column]).flatten(1))
                check_finite(name, stacked[-1])
            return stacked

        step = max(1, _ROWS // max(1, sum(leaf.numel() for leaf in leaves)))
        blocks = [range(i, min(i + step, m)) for i in range(0, m, step)]
        for number, block in enumerate(blocks):
            left = gradients(block)
            for other in blocks[number:]:
                right = left if other is block else gradients(other)
                for a, b in zip(left, right):
                    a = a.double()
                    total[block.start : block.stop, other.start : other.stop] += (
                        a @ (a if left is right else b.double()).T
                    )
            total[block.stop :, block.start : block.stop] = total[block.start : block.stop, block.stop :].T
        return cls(total, None, eps)


def _from_tape(taped: RecordedPass, outputs: Mapping[int, Tensor], scale: float) -> tuple[Tensor, str | None, float]:
    eps = torch.finfo(taped.logits.dtype).eps
    if taped.dead is not None:
        return taped.logits.new_zeros(len(taped), len(taped), dtype=torch.float64), taped.dead, eps
    return gram_of(taped.layers, outputs, len(taped)).mul_(scale * scale), None, eps


def gram_of(layers: Sequence[LinearUse | ConvUse], outputs: Mapping[int, Tensor], m: int) -> Tensor:
    """Sum over all weights and biases of the layers; `outputs` are gradients by `id` of a layer's output."""
    weights: dict[int, list[LinearUse | ConvUse]] = {}
    biases: dict[int, list[LinearUse | ConvUse]] = {}
    for use in layers:
        if id(use.output) in outputs:
            weights.setdefault(id(use.weight), []).append(use)
            if use.bias is not None:
                biases.setdefault(id(use.bias), []).append(use)
    total = torch.zeros(m, m, dtype=torch.float64, device=layers[0].output.device if layers else None)
    for uses in weights.values():
        total += weight_gram(*_views(uses, outputs))
    for uses in biases.values():
        rows = sum(_at_output(use, outputs[id(use.output)]).flatten(1, 2).sum(-1, dtype=torch.float64) for use in uses)
        assert isinstance(rows, Tensor)
        total += rows @ rows.T
    return total


def factors(uses: Sequence[LinearUse | ConvUse], outputs: Mapping[int, Tensor]) -> tuple[Tensor, Tensor]:
    """`a [m, g, k, T]` and `d [m, g, n, T]` of one weight, g the groups of a convolution; all its uses side by side."""
    a, d = _views(uses, outputs)
    return _flat(a), d


def _views(uses: Sequence[LinearUse | ConvUse], outputs: Mapping[int, Tensor]) -> tuple[Tensor, Tensor]:
    """The same, except that the patches a convolution reads are still a view into its input."""
    pairs = [(_at_input(use), _at_output(use, outputs[id(use.output)])) for use in uses]
    if len(pairs) == 1:
        return pairs[0]
    return torch.cat([_flat(a) for a, _ in pairs], -1), torch.cat([d for _, d in pairs], -1)


def _at_input(use: LinearUse | ConvUse) -> Tensor:
    """`[m, 1, k, T]`, or for a convolution `[m, g, C / g, height, width of the filter, height, width of the output]`."""
    x = use.input.detach()
    if isinstance(use, LinearUse):
        return _channels_second(x, use).unsqueeze(1)
    x = F.pad(x, [use.padding] * 4) if use.padding else x.contiguous()
    m, channels = x.shape[:2]
    down, right = x.stride()[2:]
    return x.as_strided(
        (m, use.groups, channels // use.groups, *use.weight.shape[2:], *use.output.shape[2:]),
        (
            x.stride(0),
            x.stride(1) * (channels // use.groups),
            x.stride(1),
            down * use.dilation,
            right * use.dilation,
            down * use.stride,
            right * use.stride,
        ),
    )


def _at_output(use: LinearUse | ConvUse, gradient: Tensor) -> Tensor:
    if isinstance(use, LinearUse):
        return _channels_second(gradient, use).unsqueeze(1)
    return gradient.flatten(2).unflatten(1, (use.groups, -1))


def _channels_second(x: Tensor, use: LinearUse) -> Tensor:
    """`[m, channels, T]`."""
    x = x.movedim((use.batch_axis, use.axis), (0, 1))
    return x.flatten(2) if x.dim() > 2 else x.unsqueeze(2)


def _flat(a: Tensor) -> Tensor:
    """`[m, g, k, T]`; copies the patches of a convolution."""
    return a if a.dim() == 4 else a.flatten(5).flatten(2, 4)


def weight_gram(a: Tensor, d: Tensor) -> Tensor:
    """`[m, m]` from the factors of one weight, `a` as a view or flat."""
    m, g, n, t = d.shape
    if a.numel() == 0 or d.numel() == 0:  # data without sparse columns: a layer without inputs has no gradient
        return torch.zeros(m, m, dtype=torch.float64, device=d.device)
    k = a.numel() // (m * g * t)
    pairs = (m * t) ** 2 * (k + n)
    rows = m * g * n * k * (t + m)
    return _by_pairs(_flat(a)[:, 0], d[:, 0]) if g == 1 and pairs <= rows else _by_rows(a, d)


def _by_pairs(a: Tensor, d: Tensor) -> Tensor:
    """`<a_it, a_jt'> <d_it, d_jt'>` summed over t and t', a few examples i at a time."""
    m, _, t = a.shape
    a, d = (x.transpose(1, 2).double() for x in (a, d))  # [m, T, channels]
    step = max(1, _PIECE // (m * t * t))
    parts = []
    for i in range(0, m, step):
        both = a[i : i + step].flatten(0, 1) @ a.flatten(0, 1).T
        both *= d[i : i + step].flatten(0, 1) @ d.flatten(0, 1).T
        parts.append(both.view(-1, t, m, t).sum((1, 3)) if t > 1 else both)
    return torch.cat(parts)


def _by_rows(a: Tensor, d: Tensor) -> Tensor:
    """Per-sample gradients of a few rows of the weight at a time, made from a few examples' patches at a time."""
    m, g, n, t = d.shape
    k = a.numel() // (m * g * t)
    total = torch.zeros(m, m, dtype=torch.float64, device=d.device)
    rows, examples = max(1, _PIECE // (m * g * k)), max(1, _PATCHES // (g * k * t))
    for i in range(0, n, rows):
        parts = [
            torch.matmul(d[j : j + examples, :, i : i + rows], _flat(a[j : j + examples]).transpose(-1, -2))
            for j in range(0, m, examples)
        ]
        gradients = torch.cat(parts).flatten(1).double()
        total += gradients @ gradients.T
    return total

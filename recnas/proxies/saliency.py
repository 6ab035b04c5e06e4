"""Metrics that add up the first batch's gradient: grad_norm, SNIP, plain, NASI's trace, Fisher; and l2_norm.

"Weights" are matrices and filters; biases and normalisation gains are not counted unless said otherwise.
A parameter used in several pieces counts as one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import ClassVar

import torch
from torch import Tensor

from recnas.model.observe import ConvUse, LinearUse
from recnas.proxies.base import Proxy, Score, Stats, read
from recnas.proxies.recorded_pass import FirstGradient, RecordedPass

NO_GRADIENT = "the gradient of every weight is zero: no live path from a parameter to the loss"


class _FirstGradientProxy(Proxy):
    """A number from the sums of the first gradient; degenerate if the network is dead or has no gradient."""

    needs: ClassVar[tuple[type, ...]] = (FirstGradient, RecordedPass)

    def score(self, stats: Stats) -> Score:
        first = stats.get(FirstGradient)
        if first.dead is not None:
            return self.degenerate(first.dead)
        if not any(sums.squared_gradient > 0 for sums in first.weights()):
            return self.degenerate(NO_GRADIENT)
        return self.read(first)

    def read(self, first: FirstGradient) -> Score:
        raise NotImplementedError


class GradNorm(_FirstGradientProxy):
    """Sum over weights of the norm of the batch gradient (Abdelfattah et al. 2021, as coded there)."""

    name = "grad_norm"

    def read(self, first: FirstGradient) -> Score:
        return Score(sum(math.sqrt(sums.squared_gradient) for sums in first.weights()))


class GradNormTotal(_FirstGradientProxy):
    """One norm over all parameters, biases and gains too: M_Grad of HNAS (its equation 2)."""

    name = "grad_norm_total"

    def read(self, first: FirstGradient) -> Score:
        return Score(math.sqrt(sum(sums.squared_gradient for sums in first.parameters)))


class NasiTrace(_FirstGradientProxy):
    """NASI's stand-in for the kernel's trace: the squared norm of the batch gradient over all parameters.

    The paper's constant factor m / gamma is left out; it is the same for every network.
    """

    name = "nasi_trace"

    def read(self, first: FirstGradient) -> Score:
        return Score(sum(sums.squared_gradient for sums in first.parameters))


class Snip(_FirstGradientProxy):
    """Sum of |weight * gradient| (Lee et al. 2019 as zero-cost NAS uses it).

    HNAS writes |theta . g| instead, with the absolute value outside the sum; its code and this have it inside.
    """

    name = "snip"

    def read(self, first: FirstGradient) -> Score:
        return Score(sum(sums.snip for sums in first.weights()))


class Plain(_FirstGradientProxy):
    """Sum of weight * gradient with its sign."""

    name = "plain"

    def read(self, first: FirstGradient) -> Score:
        return Score(sum(sums.dot for sums in first.weights()))


class Knas(_FirstGradientProxy):
    """KNAS (Xu et al. 2021): the mean of the Gram matrix of the examples' loss gradients.

    The mean over all pairs of <g_i, g_j> is the squared norm of the mean gradient, so no Gram matrix is
    needed. Summed over weights and biases of linear layers and convolutions. HNAS' M_KNAS is the root, given
    as a term.
    """

    name = "knas"

    def read(self, first: FirstGradient) -> Score:
        value = sum(sums.squared_gradient for sums in first.parameters if sums.on_layer)
        return Score(value, {"root": math.sqrt(value)})


class L2Norm(Proxy):
    """Sum over weights of their norm. Needs no data."""

    name = "l2_norm"

    def score(self, stats: Stats) -> Score:
        squares: dict[str, float] = defaultdict(float)
        weights = {name: leaf.detach() for name, leaf in stats.network.params.items() if leaf.dim() > 1}
        sums = read([leaf.square().sum(dtype=torch.float64) for leaf in weights.values()])
        for name, square in zip(weights, sums):
            squares[stats.group_of(name)] += square
        if not any(squares.values()):
            return self.degenerate("the network has no weights, or all of them are zero")
        return Score(sum(map(math.sqrt, squares.values())))


class Fisher(Proxy):
    """Fisher pruning's saliency of whole channels (Theis et al. 2018 as zero-cost NAS uses it).

    With a the output of a layer and L the mean loss, a channel's value is half the mean over examples of
    (sum over places of a * dL/da)^2, and it counts once for every weight that makes the channel.
    """

    name = "fisher"
    needs = (RecordedPass,)

    def score(self, stats: Stats) -> Score:
        taped = stats.get(RecordedPass)
        if taped.dead is not None:
            return self.degenerate(taped.dead)
        gradients = taped.loss_gradients.outputs
        readers: dict[int, list[LinearUse | ConvUse]] = defaultdict(list)
        for use in taped.layers:
            if id(use.output) in gradients:
                readers[id(use.output)].append(use)
        scalars, factors = list[Tensor](), list[float]()
        for output, uses in readers.items():
            use = uses[0]
            product = use.output.detach() * gradients[output]
            axes = (0, 1) if isinstance(use, ConvUse) else (use.batch_axis, use.axis)
            product = product.movedim(axes, (0, 1))
            if product.dim() > 2:
                product = product.flatten(2).sum(2)
            factors.append(0.5 * sum(each.weight[0].numel() for each in uses))
            scalars.append(product.square().sum(dtype=torch.float64))
        value = 0.0
        for factor, square in zip(factors, read(scalars)):
            value += factor * square / len(taped)
        return Score(value) if value > 0 else self.degenerate(NO_GRADIENT)

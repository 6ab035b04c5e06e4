"""Zen-score: how sensitive a network of Gaussian weights is to a small change of its input."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from recnas.model.observe import NormUse, Observed, listen
from recnas.proxies.base import Proxy, ProxyError, Score, Stats, read

SMALL = 0.01  # size of the change


class Zen(Proxy):
    """log mean_n |F(x + 0.01 e) - F(x)|_1 + sum over normalisations of log sqrt(mean variance).

    Lin et al. 2021. Weights, x and e are standard Gaussian, gains 1 and biases 0; F is what the classifier
    reads, before pooling. The second sum gives back the scale that normalisations take away. Variances are
    those of the batch x itself; the reference reads running averages that still hold some of their initial 1.

    For click networks F is what the head reads, and a LayerNorm's variance is that over its own axis, averaged
    over examples. Draws come from the pass's seed and are the same for every network of the same shapes.
    One-dimensional parameters are told apart by name: `...bias` is 0, any other is a gain and 1.
    """

    name = "zen"

    @torch.no_grad()
    def score(self, stats: Stats) -> Score:
        generator = torch.Generator().manual_seed(stats.seed)
        params = {name: _fresh(stats.group_of(name), leaf, generator) for name, leaf in stats.network.params.items()}
        shapes = stats.batches[0].inputs
        x = tuple(_gaussian(each, generator) for each in shapes)
        moved = tuple(each + SMALL * _gaussian(each, generator) for each in x)
        here, there = (self._features(stats, params, inputs) for inputs in (x, moved))
        assert here.features is not None
        assert there.features is not None
        rows = len(shapes[0])
        change = float((there.features - here.features).abs().sum(dtype=torch.float64)) / rows
        variances = read([_mean_variance(use) for use in here.norms])
        if not all(map(math.isfinite, (change, *variances))):
            return self.degenerate("activations overflow under Gaussian weights")
        if change <= 0 or min(variances, default=1.0) <= 0:
            return self.degenerate("no signal: a normalised layer or the features do not vary with the input")
        terms = {"log_change": math.log(change), "log_scale": sum(0.5 * math.log(v) for v in variances)}
        return Score(sum(terms.values()), terms)

    def _features(self, stats: Stats, params: dict[str, Tensor], inputs: tuple[Tensor, ...]) -> Observed:
        with listen(Observed()) as observed:
            stats.network.forward(params, inputs)
        if observed.features is None:
            raise ProxyError(
                "zen needs to know what the classifier reads, and this network does not say.",
                "Call recnas.model.observe.features(x) on it in the network's forward.",
            )
        return observed


def _fresh(name: str, leaf: Tensor, generator: torch.Generator) -> Tensor:
    if leaf.dim() > 1:
        return _gaussian(leaf, generator)
    return torch.zeros_like(leaf) if name.rpartition(".")[2].endswith("bias") else torch.ones_like(leaf)


def _gaussian(like: Tensor, generator: torch.Generator) -> Tensor:
    """The same numbers on every device."""
    return torch.randn(like.shape, generator=generator, dtype=like.dtype).to(like.device)


def _mean_variance(use: NormUse) -> Tensor:
    """Population variance over all axes but the kept ones, averaged over those."""
    kept = {axis % use.input.dim() for axis in use.kept}
    over = [axis for axis in range(use.input.dim()) if axis not in kept]
    return use.input.double().var(over, correction=0).mean()

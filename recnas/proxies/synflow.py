"""SynFlow: how much signal passes through the weights alone, without data."""

from __future__ import annotations

import math

import torch

from recnas.model.observe import without_norms
from recnas.proxies.base import Proxy, Score, Stats, read

NO_SIGNAL = "no signal from the inputs reaches the logits"


class SynFlow(Proxy):
    """Sum over weights of |W * dR/dW| (Tanaka et al. 2020).

    R is the sum of the logits for one input of all ones, with every parameter replaced by its absolute value
    and every normalisation left out, in float64. Zero-cost NAS' code forgets to leave out the normalisations
    of NAS-Bench-201's reduction blocks; NASLib reports the logarithm, which is the term `log`.
    """

    name = "synflow"

    def score(self, stats: Stats) -> Score:
        params = {name: leaf.detach().double().abs() for name, leaf in stats.network.params.items()}
        names = [name for name, leaf in params.items() if leaf.dim() > 1]
        weights = [params[name].requires_grad_() for name in names]
        inputs = [torch.ones_like(x[:1], dtype=torch.float64).requires_grad_() for x in stats.batches[0].inputs]
        with torch.enable_grad(), without_norms():
            signal = stats.network.forward(params, inputs).sum()
        if not signal.requires_grad:
            return self.degenerate(NO_SIGNAL)
        gradients = torch.autograd.grad(signal, [*weights, *inputs], allow_unused=True)
        if not any(g is not None and bool(g.any()) for g in gradients[len(weights) :]):
            return self.degenerate(NO_SIGNAL)  # what flows starts at biases
        flows = [(weight.detach() * g).abs().sum() for weight, g in zip(weights, gradients) if g is not None]
        value = 0.0
        for flow in read(flows):
            value += flow
        if not math.isfinite(value):
            return self.degenerate("the signal overflows float64 without normalisations")
        if value == 0.0:
            return self.degenerate(NO_SIGNAL)
        return Score(value, {"log": math.log(value)})

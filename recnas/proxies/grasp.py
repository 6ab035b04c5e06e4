"""GraSP: what pruning would do to the flow of gradients, by a Hessian-vector product."""

from __future__ import annotations

import torch

from recnas.proxies.base import Proxy, Score, Stats, check_all_finite, check_finite, read
from recnas.proxies.network import mean_loss
from recnas.proxies.recorded_pass import dead_reason
from recnas.proxies.saliency import NO_GRADIENT


class Grasp(Proxy):
    """m |sum over weights of -W * (H g)|, g the gradient of the mean loss and H its Hessian.

    Wang et al. 2020 sum it with its sign, and so does zero-cost NAS; HNAS states the absolute value, scaled
    by the number of examples m, and needs it: a small negative value would win its ratio. The signed sum,
    not scaled, is the term `signed`. Derivatives are with respect to weights only (no biases or gains).
    """

    name = "grasp"

    def score(self, stats: Stats) -> Score:
        batch, params = stats.batches[0], stats.network.params
        names = [name for name, leaf in params.items() if leaf.dim() > 1]
        weights = [params[name] for name in names]
        with torch.enable_grad():
            logits = stats.network.forward(params, batch.inputs)
            check_finite("(logits)", logits.detach(), "the value")
            dead = dead_reason(logits)
            if dead is not None:
                return self.degenerate(dead)
            if not logits.requires_grad or not weights:
                return self.degenerate(NO_GRADIENT)
            loss = mean_loss(logits, batch)
            first = torch.autograd.grad(loss, weights, create_graph=True, allow_unused=True)
            products = [(g.detach() * g).sum() for g in first if g is not None and g.requires_grad]
            if not products:
                return self.degenerate("the loss has no second derivative in the weights")
            second = torch.autograd.grad(torch.stack(products).sum(), weights, allow_unused=True)
        reached = {name: (weight, hg) for name, weight, hg in zip(names, weights, second) if hg is not None}
        check_all_finite({name: hg for name, (_, hg) in reached.items()}, "the Hessian-vector product")
        signed = 0.0
        for part in read([(weight.detach() * hg).sum(dtype=torch.float64) for weight, hg in reached.values()]):
            signed -= part
        if signed == 0.0:
            return self.degenerate("the Hessian of the loss vanishes on its gradient", {"signed": 0.0})
        return Score(len(batch) * abs(signed), {"signed": signed})

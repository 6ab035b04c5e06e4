"""Parameters and multiply-adds: what every other proxy has to beat."""

from __future__ import annotations

from recnas.model.observe import ConvUse
from recnas.proxies.base import Proxy, Score, Stats
from recnas.proxies.recorded_pass import RecordedPass


class Params(Proxy):
    """Number of parameters the network uses, biases and gains too; embedding tables are not among them."""

    name = "params"

    def score(self, stats: Stats) -> Score:
        return Score(float(sum(leaf.numel() for leaf in stats.network.params.values())))


class Flops(Proxy):
    """Multiply-adds with weights for one example, counted from the layers as they ran.

    Products without weights (attention scores, dot products of features) and normalisations are not counted.
    """

    name = "flops"
    needs = (RecordedPass,)

    def score(self, stats: Stats) -> Score:
        taped = stats.get(RecordedPass)
        total = 0
        for use in taped.layers:
            per_output = use.weight[0].numel() if isinstance(use, ConvUse) else use.weight.shape[1]
            total += use.output.numel() * per_output
        return Score(total / len(taped))

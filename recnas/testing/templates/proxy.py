"""A proxy of your own: `recnas score RUN --random 20 --proxies MINE --plugin FILE`.

A proxy names the statistics it reads and turns them into one number. They are computed once for all proxies;
recnas/proxies/ has more of them, and docs/proxies.md says what each proxy there measures.
"""

import math

from recnas.proxies.base import Proxy, Score, Stats
from recnas.proxies.recorded_pass import FirstGradient
from recnas.proxies.registry import register


@register
class Mine(Proxy):
    """Geometric mean of the norms of the weights' gradients."""  # what recnas score --list says

    name = "MINE"
    needs = (FirstGradient,)
    higher_is_better = True

    def score(self, stats: Stats) -> Score:
        first = stats.get(FirstGradient)
        if first.dead is not None:
            return self.degenerate(first.dead)
        sizes = [weight.squared_gradient for weight in first.weights()]
        if not sizes or min(sizes) <= 0:
            return self.degenerate("a weight has no gradient")
        return Score(math.exp(sum(map(math.log, sizes)) / len(sizes) / 2), {"weights": float(len(sizes))})

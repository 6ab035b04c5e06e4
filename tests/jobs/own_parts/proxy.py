from recnas.proxies.base import Proxy, Score
from recnas.proxies.recorded_pass import FirstGradient
from recnas.proxies.registry import register


@register
class Count(Proxy):
    """How many weights have a gradient."""

    name = "own-count"
    needs = (FirstGradient,)

    def score(self, stats):
        first = stats.get(FirstGradient)
        if first.dead is not None:
            return self.degenerate(first.dead)
        return Score(float(sum(weight.squared_gradient > 0 for weight in first.weights())))

"""Any set of proxies on one network, from shared statistics, without leaving a trace.

    scores = score(network, batches, get_proxies(["sigeo", "naswot", "params"]))
    scores["sigeo"].value, scores["sigeo"].terms

Weights, their `.grad`, global random state and gradient mode are the same afterwards: gradients come from
`torch.autograd.grad`, random numbers from generators of the pass, and no optimizer exists here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from recnas.errors import ConfigError
from recnas.proxies.base import Proxy, ProxyError, Score, Stats
from recnas.proxies.network import ScoredNetwork, ScoringBatch


def passes_of(proxies: Sequence[Proxy], batches: int, batch_size: int) -> float:
    """What scoring one network costs, in batches passed forward and backward; statistics are shared."""
    needs = {kind for proxy in proxies for kind in proxy.needs}
    own = sum(not proxy.needs for proxy in proxies)  # a proxy without statistics makes a pass of its own
    return own + sum(kind.passes(batches, batch_size) for kind in needs)


def score(
    network: ScoredNetwork, batches: Sequence[ScoringBatch], proxies: Sequence[Proxy], seed: int = 0
) -> dict[str, Score]:
    """The score of every proxy by name. The same inputs give the same scores, whichever others are asked for."""
    if not batches:
        raise ConfigError("scoring needs at least one batch.", "Set score.batches to 1 or more.")
    for proxy in proxies:
        if len(batches) < proxy.min_batches:
            raise ConfigError(
                f"{proxy.name} compares batches and needs at least {proxy.min_batches}; there is {len(batches)}.",
                "Raise score.batches.",
            )
    stats = Stats(network, batches, seed)
    last_use = {kind: number for number, proxy in enumerate(proxies) for kind in proxy.needs}
    found = {}
    for number, proxy in enumerate(proxies):
        result = proxy.score(stats)
        for kind, last in last_use.items():
            if last == number:  # a kept graph holds every activation of the network
                stats.drop(kind)
        bad = [part for part, value in {"value": result.value, **result.terms}.items() if not math.isfinite(value)]
        if bad:
            raise ProxyError(
                f"{proxy.name} gave a {bad[0]} that is not finite on this network.",
                "A degenerate network should have its documented worst score: please report the architecture.",
            )
        found[proxy.name] = result
    return found

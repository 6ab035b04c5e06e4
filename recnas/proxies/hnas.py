"""The generalisation guarantee of HNAS as a score, for any training-free metric M.

    value = kappa / M + mu * F(M^2 - nu),      F(x) = |x|^(2 power)         (equation 7; low is good)

kappa is the condition number of the kernel. Without it (`kappa=None`) this is the realizable form, 1 / M
plus the trade-off; `mu = 0` leaves out the trade-off. The released code takes power 1/2 and nu squared, and
adds 1e-6 to M: `HnasGuarantee("ntk_trace", mu, nu**2, power=0.5)` is that up to the 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from recnas.errors import ConfigError
from recnas.proxies.base import Proxy, Score, Stats
from recnas.proxies.grasp import Grasp
from recnas.proxies.ntk import ExactNtkTrace, GradNormSamples, NtkCond, NtkTrace
from recnas.proxies.saliency import Fisher, GradNorm, GradNormTotal, Knas, L2Norm, Snip
from recnas.proxies.synflow import SynFlow
from recnas.space.base import nearest_name

# Metrics that can stand for M: positive, and high is good.
METRICS: dict[str, Callable[[], Proxy]] = {
    kind.name: kind
    for kind in (NtkTrace, GradNorm, GradNormTotal, GradNormSamples, Snip, Grasp, Knas, ExactNtkTrace, Fisher, SynFlow, L2Norm)
}  # fmt: skip


class HnasGuarantee(Proxy):
    """kappa / M + mu * F(M^2 - nu).

    Args:
        metric: M, by name or as a proxy whose value is positive and better when higher. Of KNAS its root is
            taken, as HNAS does, so that it has the units of M_Trace.
        mu, nu: trade-off and the size of M^2 it pulls towards; HNAS finds both by Bayesian optimisation. nu
            should lie among the values of M^2: the paper's range suits one metric on one benchmark.
        power: the t of F(x) = x^(2 t); the paper says usually 1.
        kappa: where the condition number comes from; None for the realizable form.
    """

    higher_is_better = False

    def __init__(
        self,
        metric: str | Proxy = "ntk_trace",
        mu: float = 0.0,
        nu: float = 0.0,
        power: float = 1.0,
        kappa: Proxy | None = NtkCond(),  # noqa: B008 (proxies hold no state)
    ) -> None:
        if isinstance(metric, str) and metric not in METRICS:
            raise ConfigError(f"HNAS knows no metric {metric!r}: {nearest_name(metric, METRICS)}.")
        if not (mu >= 0 and power > 0 and math.isfinite(mu) and math.isfinite(nu)):
            raise ConfigError(f"HNAS needs mu >= 0, power > 0 and a finite nu; got mu {mu}, power {power}, nu {nu}.")
        self.metric = METRICS[metric]() if isinstance(metric, str) else metric
        self.mu, self.nu, self.power, self.kappa = mu, nu, power, kappa
        self.name = f"hnas_{self.metric.name}"
        # Shadows the class attribute: what it reads depends on its parts.
        self.needs = (*self.metric.needs, *(kappa.needs if kappa else ()))  # type: ignore[misc]
        self.min_batches = max(self.metric.min_batches, kappa.min_batches if kappa else 1)

    def score(self, stats: Stats) -> Score:
        found = self.metric.score(stats)
        m = found.terms.get("root", found.value)
        if found.reason is not None:
            return self.degenerate(f"{self.metric.name}: {found.reason}")
        if m <= 0:
            return self.degenerate(f"{self.metric.name} is {m:.3g}, and the guarantee divides by it")
        terms = {"metric": m}
        kappa = 1.0
        if self.kappa is not None:
            conditioned = self.kappa.score(stats)
            if conditioned.reason is not None:
                return self.degenerate(f"{self.kappa.name}: {conditioned.reason}", terms)
            kappa = terms["kappa"] = conditioned.value
        terms["trade_off"] = self.mu * self._power(m * m - self.nu)
        value = kappa / m + terms["trade_off"]
        if not math.isfinite(value):
            return self.degenerate("the trade-off overflows", {"metric": m})
        return Score(value, terms)

    def _power(self, x: float) -> float:
        try:
            return abs(x) ** (2 * self.power)
        except OverflowError:
            return math.inf

"""HNAS (Shu et al. 2022, Algorithm 1): training-free scores choose, a few trainings tune the choice.

Every query draws architectures into a pool and trains the one with the lowest

    kappa / M + mu * F(M^2 - nu)        F(x) = |x|^(2 power), power 1          reading: paper (equation 7)
    kappa / (M + 1e-6) + mu * |M^2 - nu|                                       reading: released

M is any metric that is positive and high for good networks, kappa the condition number of the kernel. Bayesian
optimisation moves (root of nu, log10 mu) so that what is told gets better; the best network told is the result.

- nu is a size of M^2, so its root is what is searched, between 0 and the pool's own M (a quantile of the first
  draw, `nu_quantile`). The released code has a fixed 5,000, far above every M of most metrics.
- `units: pool` divides M and kappa by their medians in the first draw. It moves the range of mu and nothing
  else (mu' = mu * M0^5 / kappa0): with M^4 of millions, every mu from 1e-4 to 1 would leave kappa no say. `raw`
  takes scores as they are; the released reading does, because its range of mu was made for that.
- The first quarter of the queries are probes at even steps of the root, with mu in the middle of its range.
- The pool grows with every query, holds each network once and loses what was queried: each query is new. Seeds are
  members of the first draw and are queried when their scores say so.

A member without a usable M or kappa (dead or singular network) is never chosen while others are left.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from recnas.errors import ConfigError
from recnas.searchers.bayes import Point, suggest
from recnas.searchers.pool import PoolScores, ScoreMatrix
from recnas.searchers.pooled import PooledSearcher
from recnas.searchers.proposal import Proposal
from recnas.searchers.settings import HnasSettings
from recnas.seeds import stream_seed
from recnas.space.base import ArchT


class Hnas(PooledSearcher[ArchT]):
    """The hybrid loop; `settings` are explained in `HnasSettings`.

    Args:
        pool_scores: gives the scores `settings.metric` and `settings.kappa` of any architecture.
    """

    name = "hnas"
    settings_class = HnasSettings
    settings: HnasSettings

    def _begin(self, pool_scores: PoolScores | None) -> None:
        super()._begin(pool_scores)
        self._units: tuple[float, float] | None = None  # of M and kappa; fixed by the first draw
        self._top = 1.0  # highest root of nu, in those units
        self._points: list[Point] = []  # by index

    @property
    def total(self) -> int:
        return self.settings.candidates

    def _batches(self) -> Iterator[list[Proposal[ArchT]]]:
        low, high = self.settings.log_mu
        probes = max(1, int(self.settings.probe_share * self.total))
        steps = np.linspace(0.0, 1.0, probes) if probes > 1 else [0.5]
        yield [self._query((float(u), (low + high) / 2), "probe") for u in steps]
        while len(self._made) < self.total:
            yield [self._query(self._next_point(), "bayes")]

    def _next_point(self) -> Point:
        """From everything told; a failed network counts as the worst of the others."""
        costs = [told.costs[0] for told in self.history]
        known = [cost for cost in costs if np.isfinite(cost)]
        values = [-(cost if np.isfinite(cost) else max(known)) for cost in costs] if known else []
        bounds = ((0.0, 1.0), self.settings.log_mu)
        told = tuple(zip(self._points, values))
        return suggest(
            bounds, told, self.settings.acquisition, stream_seed(self.seed, "hnas-suggestion", len(self._points))
        )

    def _query(self, point: Point, origin: str) -> Proposal[ArchT]:
        self._draw()
        self._points.append(point)
        root, log_mu = point[0] * self._top, point[1]
        facts = {"nu_root": root, "log_mu": log_mu, "pool": len(self.pool)}
        if not len(self.pool):  # the space is used up
            return self._propose(self._sample_new(), "random", facts=facts)
        m, kappa = self._scaled(self.pool.scores())
        value = guarantee(m, kappa, 10**log_mu, root**2, self.settings.reading, self.settings.power)
        place = int(np.argmin(value))
        if not np.isfinite(value[place]):
            facts["degenerate"] = True
        return self._propose_member(self.pool.take(place), origin, facts)

    def _draw(self) -> None:
        if self._made and not self.settings.grow:
            return
        self._draw_members(self.settings.pool)
        if self._units is None:
            self._measure()

    def _measure(self) -> None:
        """Units and the range of nu, from the first draw."""
        scores = self.pool.scores()
        usable = np.isfinite(scores).all(0) & (scores > 0).all(0)
        if not usable.any():
            raise ConfigError(
                f"none of the {len(self.pool)} networks of the first draw has a usable {self.settings.metric}"
                + (f" and {self.settings.kappa}." if self.settings.kappa else "."),
                "Draw a larger pool (search.pool), or choose another metric.",
            )
        raw = self.settings.units == "raw" or self.settings.reading == "released"
        middle = np.median(scores[:, usable], axis=1)
        self._units = (1.0, 1.0) if raw else (float(middle[0]), float(middle[1]) if len(middle) > 1 else 1.0)
        highest = np.quantile(scores[0, usable], self.settings.nu_quantile)
        self._top = float(self.settings.nu_top or highest / self._units[0])

    def _scaled(self, scores: ScoreMatrix) -> tuple[ScoreMatrix, ScoreMatrix]:
        assert self._units is not None
        m = scores[0] / self._units[0]
        return m, scores[1] / self._units[1] if len(scores) > 1 else np.ones_like(m)


def guarantee(
    m: ScoreMatrix, kappa: ScoreMatrix, mu: float, nu: float, reading: str = "paper", power: float = 1.0
) -> ScoreMatrix:
    """The objective of every member; infinite where M or kappa is missing or not positive.

    Args:
        nu: the size of M^2 it pulls towards (the released code writes it as a square).
        power: t of F(x) = |x|^(2 t); not used by the released reading, which has 1/2.
    """
    usable = np.isfinite(m) & np.isfinite(kappa) & (m > 0) & (kappa > 0)
    value = np.full(len(m), np.inf)
    good_m, good_kappa = m[usable], kappa[usable]
    if reading == "released":
        value[usable] = good_kappa / (good_m + 1e-6) + mu * np.abs(good_m**2 - nu)
    else:
        with np.errstate(over="ignore"):
            value[usable] = good_kappa / good_m + mu * np.abs(good_m**2 - nu) ** (2 * power)
    return value

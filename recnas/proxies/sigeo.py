"""SiGeo, ZiCo, the Fisher-Rao norm and the training loss: what k gradients say about a warmed network.

SiGeo (Definition 1 of its paper) adds three terms over k batches at fixed weights:

    lambda1 * sum over parameters of log( sum over entries of mean |g| / std )      "zico"
  + lambda2 * log( mean over batches of (theta . g_b)^2 )                           "fr"
  - lambda3 * mean training loss                                                    "loss"

Defaults follow the paper's section E: (1, 1, 0) without warm-up, (1, 1, 1) for recommenders after it,
(1, 50, 1) for vision after it. `recnas.proxies.sigeo_released` has what the public code computes instead.

A parameter none of whose entries varies has no ratio and is left out of the first term, as in ZiCo.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from recnas.proxies.base import Proxy, Score, Stats
from recnas.proxies.gradients import GradientMoments

TINY = 1e-30  # under the logarithm of a mean of squares that is exactly zero
NOTHING_VARIES = "no gradient varies between the batches: no live path from a parameter to the loss"

Domain = Literal["ctr", "vision"]


@dataclass(frozen=True)
class Lambdas:
    """Weights of SiGeo's terms."""

    zico: float = 1.0
    fr: float = 1.0
    loss: float = 1.0

    @classmethod
    def for_case(cls, domain: Domain, warmed: bool) -> Lambdas:
        """The paper's choice."""
        if not warmed:
            return cls(1.0, 1.0, 0.0)
        return cls(1.0, 50.0, 1.0) if domain == "vision" else cls(1.0, 1.0, 1.0)


def zico_term(moments: GradientMoments) -> float | None:
    """None if no entry of any parameter varies."""
    ratios = [parameter.ratio for parameter in moments.parameters if parameter.ratio > 0]
    return sum(map(math.log, ratios)) if ratios else None


def fisher_rao_term(moments: GradientMoments) -> float:
    """Log of theta^T F theta, F the empirical Fisher matrix of the batches."""
    return math.log(fmean(dot * dot for dot in moments.dots) + TINY)


class SiGeo(Proxy):
    """SiGeo as its paper defines it: ZiCo and Fisher-Rao terms less the training loss, weighted."""

    name = "sigeo"
    needs = (GradientMoments,)
    min_batches = 2

    def __init__(self, lambdas: Lambdas | None = None) -> None:
        self.lambdas = lambdas or Lambdas()

    def score(self, stats: Stats) -> Score:
        moments = stats.get(GradientMoments)
        zico, fr, loss = zico_term(moments), fisher_rao_term(moments), fmean(moments.losses)
        if zico is None:
            return self.degenerate(NOTHING_VARIES, {"fr": fr, "loss": loss})
        weights = self.lambdas
        value = weights.zico * zico + weights.fr * fr - weights.loss * loss
        return Score(value, {"zico": zico, "fr": fr, "loss": loss})


class ZiCo(Proxy):
    """SiGeo's first term alone: how steady gradients are over batches. The paper sums over convolutions and linear layers, weights only."""

    name = "zico"
    needs = (GradientMoments,)
    min_batches = 2

    def score(self, stats: Stats) -> Score:
        moments = stats.get(GradientMoments)
        value = zico_term(GradientMoments(list(moments.weights()), moments.losses))
        return self.degenerate(NOTHING_VARIES) if value is None else Score(value)


class FisherRao(Proxy):
    """SiGeo's second term alone: the Fisher-Rao norm of the weights."""

    name = "fisher_rao"
    needs = (GradientMoments,)

    def score(self, stats: Stats) -> Score:
        return Score(fisher_rao_term(stats.get(GradientMoments)))


class TrainingLoss(Proxy):
    """Mean loss over the batches: low is good once the weights are warm."""

    name = "train_loss"
    needs = (GradientMoments,)
    higher_is_better = False

    def score(self, stats: Stats) -> Score:
        return Score(fmean(stats.get(GradientMoments).losses))

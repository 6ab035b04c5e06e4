"""Metrics of the input Jacobian: jacob_cov and EPE-NAS.

J has one row per example: the gradient of the sum of all logits with respect to that example's inputs
(pixels; for clicks the dense features and the embedding vectors). Computed once, correlated in float64.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from recnas.proxies.base import Proxy, Score, Stats
from recnas.proxies.recorded_pass import RecordedPass

EPS = 1e-5
CONSTANT_ROW = "the input gradient of an example is constant: its logits do not depend on its inputs"


def correlation(rows: Tensor) -> Tensor | None:
    """Correlation of every pair of rows; None if a row is constant."""
    centred = rows - rows.mean(1, keepdim=True)
    size = centred.norm(dim=1, keepdim=True)
    if bool((size <= 1e-12 * rows.norm(dim=1, keepdim=True)).any()):
        return None
    unit = centred / size
    return (unit @ unit.T).clamp_(-1, 1)


class JacobCov(Proxy):
    """-sum over k of log(v_k + 1e-5) + 1 / (v_k + 1e-5), v the eigenvalues of the correlation of J's rows.

    Mellor et al. 2020. The reference takes eigenvalues with a solver for general matrices.
    """

    name = "jacob_cov"
    needs = (RecordedPass,)

    def score(self, stats: Stats) -> Score:
        taped = stats.get(RecordedPass)
        if taped.dead is not None:
            return self.degenerate(taped.dead)
        correlated = correlation(taped.input_gradients)
        if correlated is None:
            return self.degenerate(CONSTANT_ROW)
        shifted = torch.linalg.eigvalsh(correlated).clamp(min=0) + EPS
        return Score(-float((shifted.log() + 1 / shifted).sum()))


class EpeNas(Proxy):
    """EPE-NAS (Lopes et al. 2021): correlations of J's rows within each class of the batch.

    s_c = sum of log(|correlation| + 1e-5) over the pairs of class c. Up to 100 classes the score is the sum
    of |s_c|; beyond, s_c is divided by the class's examples and differences between classes are averaged:
    mean over c of the sum over c' of |s_c - s_c'|. How many classes there are is what the logits say; clicks
    are two. Depends on the classes that happen to be in the batch.
    """

    name = "epe_nas"
    needs = (RecordedPass,)

    def score(self, stats: Stats) -> Score:
        taped = stats.get(RecordedPass)
        if taped.dead is not None:
            return self.degenerate(taped.dead)
        many = taped.logits.dim() > 1 and taped.logits.shape[1] > 100
        found = []
        classes = taped.batch.classes
        for label in classes.unique():
            rows = taped.input_gradients[classes == label]
            correlated = correlation(rows)
            if correlated is None:
                return self.degenerate(CONSTANT_ROW)
            total = float((correlated.abs() + EPS).log().sum())
            found.append(total / len(rows) if many else total)
        if many:
            return Score(math.fsum(abs(a - b) for a in found for b in found) / len(found))
        return Score(math.fsum(map(abs, found)))

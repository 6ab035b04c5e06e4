"""Neural tangent kernel metrics: M_Trace, condition number, smallest eigenvalue, Eigen-NAS.

Two kernels, under two names. `ntk_*` comes from one backward pass, as HNAS' code has it: linear and
convolution weights and biases, and with batch normalisation not quite the kernel (`recnas.proxies.gram`).
`exact_ntk_*` is d f_i / d theta over all parameters, at one backward pass per example.
Both differentiate the logit of the true class, so they read the labels. For clicks the logit's sign follows
the label, which changes neither trace nor eigenvalues.
"""

from __future__ import annotations

import math
from typing import ClassVar

from recnas.proxies.base import Proxy, Score, Stats
from recnas.proxies.gram import ExactNtk, Gram, LogitGram, LossGram
from recnas.proxies.recorded_pass import RecordedPass

ZERO = "the Gram matrix is zero: no live path from a parameter to the logits"
SINGULAR = "the Gram matrix is singular: the network cannot tell some examples apart"


class _GramProxy(Proxy):
    kernel: ClassVar[type[Gram]] = LogitGram
    needs: ClassVar[tuple[type, ...]] = (LogitGram, RecordedPass)

    def score(self, stats: Stats) -> Score:
        gram = stats.get(self.kernel)  # type: ignore[type-var]
        if gram.dead is not None:
            return self.degenerate(gram.dead)
        if not gram.trace > 0:
            return self.degenerate(ZERO)
        return self.read(gram)

    def read(self, gram: Gram) -> Score:
        raise NotImplementedError


class NtkTrace(_GramProxy):
    """M_Trace of HNAS (equation 4): sqrt(tr K / m)."""

    name = "ntk_trace"

    def read(self, gram: Gram) -> Score:
        return Score(math.sqrt(gram.trace / len(gram.matrix)))


class NtkCond(_GramProxy):
    """Condition number kappa = largest / smallest eigenvalue; low is good."""

    name = "ntk_cond"
    higher_is_better = False

    def read(self, gram: Gram) -> Score:
        smallest, largest = float(gram.eigenvalues[0]), float(gram.eigenvalues[-1])
        terms = {"min_eig": smallest, "max_eig": largest}
        return self.degenerate(SINGULAR, terms) if smallest <= gram.rank_floor else Score(largest / smallest, terms)


class NtkMinEig(_GramProxy):
    """Smallest eigenvalue; high is good (faster and surer convergence)."""

    name = "ntk_min_eig"

    def read(self, gram: Gram) -> Score:
        smallest, largest = float(gram.eigenvalues[0]), float(gram.eigenvalues[-1])
        terms = {"max_eig": largest}
        return self.degenerate(SINGULAR, terms) if smallest <= gram.rank_floor else Score(smallest, terms)


class ExactNtkTrace(NtkTrace):
    """M_Trace with the exact kernel."""

    name, kernel, needs = "exact_ntk_trace", ExactNtk, (ExactNtk,)


class ExactNtkCond(NtkCond):
    """Condition number of the exact kernel."""

    name, kernel, needs = "exact_ntk_cond", ExactNtk, (ExactNtk,)


class ExactNtkMinEig(NtkMinEig):
    """Smallest eigenvalue of the exact kernel."""

    name, kernel, needs = "exact_ntk_min_eig", ExactNtk, (ExactNtk,)


class EigenNas(_GramProxy):
    """Eigen-NAS (Zhu et al. 2022): rank by the bound lambda_min <= tr K / m, here as the trace itself.

    Ranks as M_Trace does, whose square is tr K / m. Terms: the bound, and the looser ||K||_F.
    """

    name = "eigen_nas"

    def read(self, gram: Gram) -> Score:
        return Score(gram.trace, {"bound": gram.trace / len(gram.matrix), "frobenius": gram.frobenius})


class GradNormSamples(_GramProxy):
    """Mean over examples of the norm of their own loss gradient: HNAS' equation 2 with the norm inside."""

    name, kernel, needs = "grad_norm_samples", LossGram, (LossGram, RecordedPass)

    def read(self, gram: Gram) -> Score:
        return Score(float(gram.matrix.diagonal().clamp(min=0).sqrt().mean()))

"""The planted click model: logit = intercept + linear + dense + second order + third order.

Every term is written so that its order is honest. A cross of two columns is <u_a, v_b>, of three
columns sum_k a_k b_k c_k, with short latent vectors whose mean under the column's own law is zero:
knowing one column alone (or, for three, any two) says nothing about the cross, so a linear model
cannot see it, while a model with embeddings can, because the rank is small. Values that are too
rare to learn from get a smaller effect, and missing cells none, except in linear terms.

Terms are scaled on a calibration sample that depends on the seed alone, never on the rows asked
for: the truth of a short file is the truth of a long one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from recnas.data.synthetic.hashing import key_of, signed_effect

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]

GROUPS = ("linear", "dense", "second_order", "third_order")
TABLE_LIMIT = 8192  # ranks beyond this carry no effect: nobody could learn them


@dataclass(frozen=True)
class Planted:
    """One term as a layout asks for it; `std` is its standard deviation in logits at strength 1.

    columns: one name is a linear term, two or three a cross of that order. `count` names a count
    column: alone it gives a wave in its logarithm, with columns a response whose sign they decide.
    """

    columns: tuple[str, ...]
    std: float
    rank: int = 2
    count: str | None = None

    @property
    def group(self) -> str:
        if self.count is not None:
            return "dense"
        return ("linear", "second_order", "third_order")[len(self.columns) - 1]

    @property
    def name(self) -> str:
        return " x ".join(([self.count] if self.count else []) + list(self.columns))


@dataclass(frozen=True)
class Inputs:
    """What the model reads of a chunk of rows.

    codes: per column, the rank of each cell, or `tail` / `missing` (the last two table rows).
    logs: per count column, log(1 + count), NaN where the cell is missing.
    """

    codes: Mapping[str, Codes]
    logs: Mapping[str, F32]


def tail_code(probabilities: F64) -> int:
    return len(probabilities)


def missing_code(probabilities: F64) -> int:
    return len(probabilities) + 1


def code_ranks(ranks: npt.NDArray[np.int32], probabilities: F64, missing: npt.NDArray[np.bool_] | None) -> Codes:
    """Ranks as table rows: the unlearnable tail and the missing cells have a row each."""
    codes = np.minimum(ranks, np.int32(tail_code(probabilities)))
    if missing is not None:
        codes[missing] = missing_code(probabilities)
    return codes


def _effects(key: int, probabilities: F64, half_at: float) -> F64:
    """Hashed effects of the values, halved in variance at frequency `half_at`, centred on zero."""
    shrink = np.sqrt(probabilities / (probabilities + half_at))
    effects = signed_effect(np.arange(len(probabilities)), _balanced_key(key, probabilities)) * shrink
    # Only the shrunk share of the mean is taken back, so that rare values stay near zero.
    weight = probabilities * shrink
    return effects - shrink * (probabilities @ effects) / max(weight.sum(), 1e-12)


def _balanced_key(key: int, probabilities: F64) -> int:
    """Of sixteen keys made from `key`, the one whose signs split the rows most evenly.

    If the frequent values happened to share a sign, centring would leave them almost no effect and
    scaling would then blow up the few others. Crosses would act on a few rows only, and the spread
    of the logit would differ so much between values that rates on the margins betray the cross.
    """
    head = probabilities[:256]
    tries = [key_of(key, attempt) for attempt in range(16)]
    return min(tries, key=lambda trial: abs(float(head @ signed_effect(np.arange(len(head)), trial))))


@dataclass
class _Term:
    """A planted term made concrete: lookup tables per column and per latent component."""

    spec: Planted
    tables: list[list[F32]]  # [component][column]
    scale: float = 1.0
    curve: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)  # period, phase, slope, offset

    def evaluate(self, inputs: Inputs) -> F32:
        codes = [inputs.codes[column] for column in self.spec.columns]
        total: F32 | None = None
        for tables in self.tables:
            product = tables[0].take(codes[0])
            for table, code in zip(tables[1:], codes[1:]):
                product *= table.take(code)
            total = product if total is None else total + product
        if self.spec.count is not None:
            response = self._response(inputs.logs[self.spec.count])
            total = response if total is None else total * response
        assert total is not None
        total *= np.float32(self.scale)
        return total

    def _wave(self, logs: F32) -> F32:
        period, phase = np.float32(2 * np.pi / self.curve[0]), np.float32(self.curve[1])
        return np.sin(logs * period + phase)

    def _response(self, logs: F32) -> F32:
        """The wave without its straight-line part (slope, offset): what a linear model cannot use."""
        wave = self._wave(logs) - np.float32(self.curve[2]) * logs - np.float32(self.curve[3])
        return np.nan_to_num(wave, copy=False, nan=0.0)

    def fit_curve(self, logs: F32, period_in_std: float, phase: float) -> None:
        present = logs[~np.isnan(logs)].astype(np.float64)
        self.curve = (period_in_std * float(present.std()), phase, 0.0, 0.0)
        wave = self._wave(present.astype(np.float32)).astype(np.float64)
        if self.spec.columns:  # the columns decide the sign, so only the mean must go
            self.curve = (*self.curve[:2], 0.0, float(wave.mean()))
        else:
            slope, offset = np.polyfit(present, wave, 1)
            self.curve = (*self.curve[:2], float(slope), float(offset))


def _tables(seed: int, layout: str, spec: Planted, laws: Mapping[str, F64]) -> list[list[F32]]:
    """Tables of a term, cut from the latent vectors of its columns.

    A column has one latent vector per value, shared by all terms that name it: the linear term is
    the sum of its components. Gradient descent needs such a staircase. A pure three-way product of
    private vectors sits on a saddle that an embedding network hardly leaves in a million rows.
    """
    crossed = len(spec.columns) > 1 or spec.count is not None
    # Crosses split the rows among pairs and triples of values, so rare values must fade sooner.
    half_at = (1e-4, 5e-3, 2e-2)[len(spec.columns) - 1 + (spec.count is not None)] if spec.columns else 0.0
    latent: list[list[F32]] = []
    for component in range(spec.rank if spec.columns else 0):
        row = []
        for column in spec.columns:
            effects = _effects(key_of(seed, layout, column, component), laws[column], half_at)
            missing = 0.0 if crossed else float(signed_effect(np.array([-1]), key_of(seed, layout, column))[0]) / 2
            row.append(np.append(effects, [0.0, missing]).astype(np.float32))
        latent.append(row)
    if len(spec.columns) == 1:
        return [[np.sum([row[0] for row in latent], axis=0, dtype=np.float32)]]
    return latent


@dataclass
class ClickModel:
    """The calibrated truth of one (layout, seed, strength)."""

    strength: float
    terms: list[_Term]
    intercept: float = 0.0

    @classmethod
    def calibrated(
        cls,
        layout: str,
        seed: int,
        strength: float,
        specs: Sequence[Planted],
        laws: Mapping[str, F64],
        sample: Inputs,
        click_rate: float,
    ) -> ClickModel:
        """Scale every term on `sample` to the standard deviation asked for, then set the intercept."""
        model = cls(strength, [_Term(spec, _tables(seed, layout, spec, laws)) for spec in specs])
        for term in model.terms:
            if term.spec.count is not None:
                phase = 0.8 if term.spec.columns else 0.3
                term.fit_curve(sample.logs[term.spec.count], 5.0 if term.spec.columns else 5.5, phase)
            term.scale = strength * term.spec.std / max(float(term.evaluate(sample).std()), 1e-9)
        total = sum(model.parts(sample).values())
        model.intercept = _intercept_for(np.asarray(total, dtype=np.float64), click_rate)
        return model

    def parts(self, inputs: Inputs) -> dict[str, F32]:
        """The logit's group sums, intercept not included; groups without terms are left out."""
        sums: dict[str, F32] = {}
        for term in self.terms:
            value = term.evaluate(inputs)
            group = term.spec.group
            sums[group] = sums[group] + value if group in sums else value
        return {group: sums[group] for group in GROUPS if group in sums}


def sigmoid(logits: F64) -> F64:
    return 1.0 / (1.0 + np.exp(-logits))


def _intercept_for(logits: F64, click_rate: float) -> float:
    """Bisection: the mean probability rises with the intercept, so 50 halvings are exact enough."""
    low, high = -30.0, 30.0
    for _ in range(50):
        middle = (low + high) / 2
        if float(sigmoid(logits + middle).mean()) < click_rate:
            low = middle
        else:
            high = middle
    return (low + high) / 2

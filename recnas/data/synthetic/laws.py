"""The laws that cells are drawn from: power-law categories, heavy-tailed counts, short lists.

Categories follow the Zipf-Mandelbrot law p(rank) ~ (rank + shift)^-exponent over the true
cardinality. The number of distinct values met then grows with the rows by itself, with a long tail
of singletons in the large columns, while small columns show all their values at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ranks = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Zipf:
    """Ranks 0 .. cardinality-1, the most frequent first. `exponent` must not be exactly 1."""

    cardinality: int
    exponent: float
    shift: float

    def _ends(self) -> tuple[float, float]:
        power = 1.0 - self.exponent
        return self.shift**power, (self.shift + self.cardinality) ** power

    def draw(self, rng: np.random.Generator, rows: int) -> Ranks:
        """Invert the continuous law and round down: no table, whatever the cardinality."""
        low, high = self._ends()
        x = rng.random(rows)
        x *= high - low
        x += low
        np.power(x, 1.0 / (1.0 - self.exponent), out=x)
        x -= self.shift
        # Rounding of the power can step over either end by one unit in the last place.
        np.clip(x, 0, self.cardinality - 1, out=x)
        return x.astype(np.int32)

    def probabilities(self, limit: int) -> F64:
        """Exact chance of each of the first `limit` ranks under `draw`."""
        low, high = self._ends()
        edges = np.arange(min(limit, self.cardinality) + 1, dtype=np.float64)
        return np.diff(((self.shift + edges) ** (1.0 - self.exponent) - low) / (high - low))


@dataclass(frozen=True)
class Choice:
    """A short list of values with given weights; ranks are positions in the list."""

    weights: tuple[float, ...]

    def draw(self, rng: np.random.Generator, rows: int) -> Ranks:
        edges = np.cumsum(self.probabilities(len(self.weights)))[:-1]
        return np.searchsorted(edges, rng.random(rows), side="right").astype(np.int32)

    def probabilities(self, limit: int) -> F64:
        weights = np.asarray(self.weights, dtype=np.float64)
        return (weights / weights.sum())[:limit]


@dataclass(frozen=True)
class LogNormalCount:
    """floor(exp(mean + spread * z)), capped: the heavy-tailed counters of the Criteo log."""

    mean: float
    spread: float
    cap: int

    def draw(self, rng: np.random.Generator, rows: int) -> Counts:
        x = rng.standard_normal(rows, dtype=np.float32)
        x *= np.float32(self.spread)
        x += np.float32(self.mean)
        np.exp(x, out=x)
        np.minimum(x, np.float32(self.cap), out=x)
        return x.astype(np.int64)


CategoryLaw = Zipf | Choice

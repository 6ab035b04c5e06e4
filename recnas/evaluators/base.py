"""What every evaluator promises: an architecture in, an `Evaluation` out, the same in any process.

An evaluator is the `Work` of an engine (`recnas.engines.base`): small, picklable, opened once per worker. Its
item is an architecture as its space describes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from recnas.runs.records import ScoreRecord

VALID_LOGLOSS = "valid_logloss"  # the objective of whatever reads validation rows
VALID_ACCURACY = "valid_accuracy"


@dataclass(frozen=True)
class Evaluation:
    """What became of one candidate.

    Args:
        values: by the names objectives may have; empty if it failed.
        scores: proxies with their terms, or the value with what else was measured.
        failed: why there are no values. One bad candidate must not end a night's search.
        extras: what else the ledger keeps, JSON-able.
    """

    seconds: float
    values: Mapping[str, float] = field(default_factory=dict)
    scores: Mapping[str, ScoreRecord] = field(default_factory=dict)
    failed: str | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)

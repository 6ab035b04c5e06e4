"""Candidates that nobody judges before they are trained: all are worth the same, and stand in the order they were drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from recnas.evaluators.base import Evaluation

UNJUDGED = "unjudged"  # the objective that says nothing


@dataclass(frozen=True)
class Unjudged:
    """Equal candidates stay in the order they were told."""

    in_process = True  # there is nothing to do

    def open(self) -> Callable[[dict[str, Any]], Evaluation]:
        return lambda described: Evaluation(0.0, {UNJUDGED: 0.0})

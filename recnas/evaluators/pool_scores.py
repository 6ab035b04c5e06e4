"""Proxy scores of a pool of architectures, for searchers that rank one before anything is trained.

RUN/pool.jsonl      one line per architecture of the pool with its scores; read again on resume
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from recnas.engines.base import Work
from recnas.engines.execution import Execution
from recnas.evaluators.base import Evaluation
from recnas.runs.ledger import Ledger
from recnas.runs.records import ScoreRecord
from recnas.space.base import Space

ROOT = "_root"  # after a proxy's name: the term `root` of its score


class ScoredPool:
    """Scores from an evaluator; every architecture is scored once and written down.

    Args:
        space: names and describes architectures.
        work: scores one of them.
        how: who does the work.
        path: the file that keeps the scores.
    """

    def __init__(self, space: Space[Any], work: Work, how: Execution, path: Path) -> None:
        self._space, self._work, self._how = space, work, how
        self._ledger = Ledger(path)
        self._known: dict[str, dict[str, ScoreRecord]] = {
            line["key"]: _scores(line["scores"]) for line in self._ledger.read()
        }

    def scores(self, archs: Sequence[Any], names: Sequence[str]) -> np.ndarray:
        """`[names, archs]`, as searchers ask for them (`recnas.searchers.pool`)."""
        keys = [self._space.key(arch) for arch in archs]
        rest = {key: self._space.to_dict(arch) for key, arch in zip(keys, archs) if key not in self._known}
        if rest:
            with self._how.open(self._work) as engine:
                for key, evaluation in zip(rest, engine.map(rest.values())):
                    self._keep(key, rest[key], evaluation)
            self._ledger.close()
        return np.array([[score_of(self._known[key], name) for key in keys] for name in names])

    def _keep(self, key: str, arch: dict[str, Any], evaluation: Evaluation) -> None:
        self._known[key] = dict(evaluation.scores)
        scores = {name: record.to_json() for name, record in evaluation.scores.items()}
        line = {"key": key, "arch": arch, "scores": scores, "seconds": evaluation.seconds}
        self._ledger.append(line if evaluation.failed is None else line | {"failed": evaluation.failed})


def score_of(scores: dict[str, ScoreRecord], name: str) -> float:
    """A score by the proxy's name, or its root by `<proxy>_root`; NaN if the network is degenerate or failed."""
    record = scores.get(name.removesuffix(ROOT))
    if record is None or record.reason is not None:
        return float("nan")
    return record.terms["root"] if name.endswith(ROOT) else record.value


def _scores(lines: dict[str, Any]) -> dict[str, ScoreRecord]:
    return {name: ScoreRecord.model_validate(score) for name, score in lines.items()}

"""A comparison as its settings say: for the command and for Python."""

from __future__ import annotations

from pathlib import Path

from recnas.data.prepared import PreparedData
from recnas.engines.execution import Execution
from recnas.jobs.compare.compare import compare
from recnas.runs.results import Leaderboard
from recnas.tasks.comparison.settings import CompareConfig
from recnas.track.follow import tracking


def compare_configured(
    config: CompareConfig, data: PreparedData, out: Path | str, keep: bool = False, how: Execution | None = None
) -> Leaderboard:
    how = how or Execution()
    with tracking(config.track, out, how.progress.note):
        return compare(
            data,
            out,
            config.models,
            config.reference,
            config.train,
            config.seeds,
            config.seed,
            config.tune,
            config.budget,
            config.options,
            keep,
            how,
            config.latency_on,
            config.halving,
        )

"""Weights & Biases, offline: nothing leaves the machine until `wandb sync FOLDER` is typed."""

from __future__ import annotations

import re
from typing import Any

from recnas.track.base import Point, TrackedRun

_STEP = "step"


class WandB:
    def begin(self, run: TrackedRun) -> str:
        import wandb

        run.folder.mkdir(parents=True, exist_ok=True)
        settings = wandb.Settings(console="off", silent=True, disable_git=True, save_code=False)
        self._run: Any = wandb.init(
            mode="offline", project="recnas", name=run.name, dir=str(run.folder), job_type=run.kind,
            config=dict(run.settings), settings=settings, id=run.known, resume="allow" if run.known else None,
        )  # fmt: skip
        self._known: set[str] = set()
        return str(self._run.id)

    def send(self, points: list[Point]) -> None:
        # Curves of one run have steps of different kinds, so each has a step of its own.
        for point in points:
            series = re.sub(r"[^\w\-./ ]", "_", point.series)
            if series not in self._known:
                self._run.define_metric(series, step_metric=f"{_STEP}/{series}")
                self._known.add(series)
            self._run.log({series: point.value, f"{_STEP}/{series}": point.step})

    def end(self) -> None:
        self._run.finish()

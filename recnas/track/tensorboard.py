"""TensorBoard: one folder of event files per run. tensorboard --logdir runs/track/tensorboard"""

from __future__ import annotations

import json

from recnas.track.base import Point, TrackedRun


class TensorBoard:
    def begin(self, run: TrackedRun) -> str:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(run.folder / run.name))
        if run.known is None:
            rows = "\n".join(f"    {key}: {json.dumps(value)}" for key, value in run.settings.items())
            self._writer.add_text("settings", rows, 0)
        return run.name

    def send(self, points: list[Point]) -> None:
        for point in points:
            self._writer.add_scalar(point.series, point.value, point.step)
        self._writer.flush()

    def end(self) -> None:
        self._writer.close()

"""MLflow: a run of the experiment `recnas`, in a store of files, or wherever MLFLOW_TRACKING_URI says."""

from __future__ import annotations

import os
import re
import time
from typing import Any

from recnas.track.base import Point, TrackedRun

EXPERIMENT = "recnas"
_OTHER = re.compile(r"[^\w\-. /]")  # what a name of a metric may not hold
_LONGEST = 500
_AT_ONCE = 500  # metrics of one call


class MLflow:
    def begin(self, run: TrackedRun) -> str:
        # Its makers ask for a data base; a store of files needs no other library, and can be migrated.
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        from mlflow import MlflowClient
        from mlflow.entities import Param

        where = os.environ.get("MLFLOW_TRACKING_URI") or run.folder.absolute().as_uri()
        self._client: Any = MlflowClient(tracking_uri=where)
        if run.known is not None:
            self._id = run.known
            self._client.update_run(self._id, status="RUNNING")
            return self._id
        found = self._client.get_experiment_by_name(EXPERIMENT)
        experiment = found.experiment_id if found else self._client.create_experiment(EXPERIMENT)
        self._id = self._client.create_run(experiment, run_name=run.name, tags={"recnas.kind": run.kind}).info.run_id
        params = [Param(_OTHER.sub("_", key), str(value)[:_LONGEST]) for key, value in run.settings.items()]
        for start in range(0, len(params), 100):
            self._client.log_batch(self._id, params=params[start : start + 100])
        return self._id

    def send(self, points: list[Point]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = [Metric(_OTHER.sub("_", point.series), point.value, now, point.step) for point in points]
        for start in range(0, len(metrics), _AT_ONCE):
            self._client.log_batch(self._id, metrics=metrics[start : start + _AT_ONCE])

    def end(self) -> None:
        self._client.set_terminated(self._id)

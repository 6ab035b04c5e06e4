"""The ledger of a comparison, asked by model."""

from __future__ import annotations

from collections.abc import Iterator

from recnas.runs.folder import RunDir
from recnas.runs.records import ModelLatency, ModelTraining, read_lines


class Journal:
    """What has happened so far, by a model's id; of two lines about the same thing the last counts."""

    def __init__(self, run: RunDir) -> None:
        self.ledger = run.ledger
        self.records: list[ModelTraining | ModelLatency] = read_lines(
            "compare", self.ledger.read(), str(self.ledger.path)
        )

    def append(self, record: ModelTraining | ModelLatency) -> None:
        self.ledger.append(record.to_json())
        self.records.append(record)

    def trials(self, id: str) -> dict[int, ModelTraining]:
        """Its tuning, by number and in this order; of a trial in a race how far it came."""
        trials = {line.trial: line for line in self._trainings(id, "trial") if line.trial is not None}
        return dict(sorted(trials.items()))

    def rungs(self, id: str) -> dict[tuple[int, int], ModelTraining]:
        """Its race, by number of the trial and rung."""
        lines = self._trainings(id, "trial")
        return {(line.trial, line.rung): line for line in lines if line.trial is not None and line.rung is not None}

    def seeds(self, id: str) -> dict[int, ModelTraining]:
        """Its final trainings, by seed."""
        return {line.seed: line for line in self._trainings(id, "seed")}

    def latency(self, id: str) -> ModelLatency | None:
        times = [record for record in self.records if isinstance(record, ModelLatency) and record.id == id]
        return times[-1] if times else None

    def _trainings(self, id: str, event: str) -> Iterator[ModelTraining]:
        for record in self.records:
            if isinstance(record, ModelTraining) and record.id == id and record.event == event:
                yield record

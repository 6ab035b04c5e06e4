"""The trainings of a comparison: tuning, then every model with every seed, then latencies. What the ledger has is not run again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

import torch

from recnas.bench.bootstrap import judge
from recnas.bench.entrants import Choice, Entrant, OtherLibrary, Trainable
from recnas.bench.leaderboard import TrainedModel
from recnas.data.prepared import PreparedData
from recnas.data.schema import Schema
from recnas.engines.base import Engine
from recnas.engines.execution import Execution
from recnas.runs.folder import RunDir
from recnas.runs.records import ModelLatency, ModelTraining
from recnas.tasks.comparison.halving import Budget, Halving
from recnas.tasks.comparison.journal import Journal
from recnas.tasks.comparison.tuning import Tuning
from recnas.tasks.comparison.work import CompareWork, Trial, predictions_path
from recnas.train.latency import latency_percentiles
from recnas.train.logits import read_logits
from recnas.train.settings import TrainSettings


class Comparison:
    """Args:
    workers: closes them when the trainings are over; they start with the first training that is missing.
    """

    def __init__(
        self,
        data: PreparedData,
        run: RunDir,
        settings: TrainSettings,
        entrants: list[Entrant],
        keep: bool,
        how: Execution,
        workers: ExitStack,
    ) -> None:
        self._workers = workers
        self._engine: Engine | None = None
        self.data, self.folder, self.settings = data, run, settings
        self.entrants, self.how = entrants, how
        self.work = CompareWork(str(data.path), settings, str(run.path), keep)
        self.journal = Journal(run)

    def tune(self, trials: int, first_seed: int) -> dict[str, Choice]:
        """The choice of every model: the best trial on validation, or its defaults."""
        tuning = Tuning(self.settings, self.journal, first_seed)
        if trials > 1:
            self._run("tune", len(self.entrants) * trials, tuning.missing(self.entrants, trials))
        return {entrant.id: tuning.best(entrant) for entrant in self.entrants}

    def race(self, budget: Budget, first_seed: int) -> dict[str, Choice]:
        """The choice of every model: the best recipe of its race; models of other libraries have whole trials."""
        others = [entrant for entrant in self.entrants if isinstance(entrant, OtherLibrary)]
        tuning = Tuning(self.settings, self.journal, first_seed)
        whole = [trial for other in others for trial in tuning.missing([other], budget.fits(other))]
        if whole:
            self._run("fit", len(whole), whole)
        raced = [entrant for entrant in self.entrants if entrant not in others]
        halving = Halving(raced, budget, self.journal, first_seed)
        if raced:
            self._race(halving)
        chosen = {one.entrant.id: one.choice for one in halving.races.values()}
        return chosen | {other.id: tuning.best(other) for other in others}

    def _race(self, halving: Halving) -> None:
        progress = self.how.progress
        progress.phase("tune", halving.rows, "rows")
        while laps := halving.ask():
            halving.forget(self.folder)
            results = self._results([one.trial(lap) for one, lap in laps if one.known(lap) is None])
            for one, lap in laps:
                before, line = halving.spent, one.known(lap)
                if line is None:
                    line = next(results)
                    self.journal.append(line)
                one.tell(lap, line)
                progress.advance(halving.spent - before, note=one.note(lap))
        halving.forget(self.folder)
        progress.end()

    def train(self, choices: dict[str, Choice], seeds: Sequence[int]) -> None:
        wanted = [
            Trial(entrant, choices[entrant.id], seed)
            for seed in seeds  # every model once before any twice: a board is useful early
            for entrant in self.entrants
            if seed in self._seeds_of(entrant, seeds)
        ]
        self._run("train", len(wanted), [trial for trial in wanted if not self._is_done(trial)])

    def time(self, choices: dict[str, Choice], on: str) -> None:
        """Latency, one model after the other while nothing else of ours runs."""
        schema = self.data.schema
        one_row = replace(Schema.of_shape(schema.n_dense, [3] * schema.n_sparse), labels=schema.labels)  # no look-ups
        tables = self.settings.embeddings.model_copy(update={"cap": None})
        settings = self.settings.model_copy(update={"embeddings": tables})
        for entrant in self.entrants:
            if isinstance(entrant, Trainable) and self.journal.latency(entrant.id) is None:
                built = entrant.build(choices[entrant.id], one_row, settings, 0, torch.device("cpu"))
                times = latency_percentiles(built.network, schema.n_dense, schema.n_sparse, built.embeddings.width, on)
                self.journal.append(ModelLatency(id=entrant.id, model=entrant.label, **times))

    def outcome(self, choices: dict[str, Choice], seeds: Sequence[int]) -> tuple[list[TrainedModel], dict[str, str]]:
        """The models that came through, and by label why the others did not."""
        judged = judge(self.data, "test")
        models, failed = [], {}
        for entrant in self.entrants:
            trained = self.journal.seeds(entrant.id)
            lines = [trained[seed] for seed in self._seeds_of(entrant, seeds) if seed in trained]
            if broken := [line for line in lines if line.failed is not None]:
                failed[entrant.label] = f"seed {broken[0].seed}: {broken[0].failed}"
                continue
            files = [
                predictions_path(self.folder.path, Trial(entrant, choices[entrant.id], line.seed)) for line in lines
            ]
            models.append(
                TrainedModel(
                    label=entrant.label,
                    searched=entrant.searched,
                    trials=list(self.journal.trials(entrant.id).values()),
                    seeds=lines,
                    sums=[judged(read_logits(file)) for file in files],
                    latency=self.journal.latency(entrant.id),
                )
            )
        return models, failed

    def _run(self, name: str, total: int, trials: list[Trial]) -> None:
        progress = self.how.progress
        progress.phase(name, total, "trainings")
        progress.advance(total - len(trials))
        for line in self._results(trials):
            self.journal.append(line)
            loss = line.valid.get("logloss")
            note = "failed" if loss is None else f"validation log loss {loss:.5f}"
            progress.advance(1, note=f"{line.model} {note}")
        progress.end()

    def _results(self, trials: list[Trial]) -> Iterator[ModelTraining]:
        """In their order, from workers that are started when there is something to do."""
        if not trials:
            return iter(())
        if self._engine is None:
            self._engine = self._workers.enter_context(self.how.open(self.work))
        return self._engine.map(trials)

    def _seeds_of(self, entrant: Entrant, seeds: Sequence[int]) -> Sequence[int]:
        """One fit stands for all seeds of a model that repeats itself exactly."""
        return seeds[:1] if entrant.repeats else seeds

    def _is_done(self, trial: Trial) -> bool:
        line = self.journal.seeds(trial.entrant.id).get(trial.seed)
        if line is None:
            return False
        return line.failed is not None or predictions_path(self.folder.path, trial).exists()

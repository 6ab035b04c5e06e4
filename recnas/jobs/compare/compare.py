"""Compare models on one data set: same rows, tables, optimizer, tuning budget and seeds.

    RUN/manifest.json      settings, data fingerprint, tuning budget, versions
    RUN/ledger.jsonl       one line per tuning trial, per (model, seed), per latency measurement
    RUN/predictions/       logits of every (model, seed) on the test rows, float32 .npy
    RUN/leaderboard.json   everything; leaderboard.csv the same as one line per model

Every model gets the same number of trials, or as many training rows for a race of recipes, drawn from its declared grid
by one seed and judged by validation log loss; then the chosen one is trained with every seed, and each training reads
test once, after its end.
What is in the ledger is not run again: a run that was killed goes on, and more models or seeds may be added.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recnas.bench.bootstrap import judge
from recnas.bench.entrants import Choice, Entrant, OtherLibrary, Trainable
from recnas.bench.floor import guess_logits
from recnas.bench.leaderboard import TrainedModel, headline, ranked, write_board
from recnas.bench.other_models import why_not
from recnas.data.prepared import PreparedData
from recnas.data.quality import warn_of_data
from recnas.data.schema import Schema
from recnas.devices import choose_device
from recnas.engines.base import Engine
from recnas.engines.execution import Execution
from recnas.errors import ConfigError
from recnas.jobs.compare.halving import Budget, Halving
from recnas.jobs.compare.journal import Journal
from recnas.jobs.compare.settings import NOWHERE
from recnas.jobs.compare.tuning import Tuning, check_trials
from recnas.jobs.compare.work import CompareWork, Trial, predictions_path
from recnas.runs.folder import RunDir
from recnas.runs.identity import data_facts
from recnas.runs.records import ModelLatency, ModelTraining
from recnas.runs.results import Leaderboard, MetricColumn
from recnas.searchers.settings import HalvingSettings
from recnas.tasks.models import find_entrant, resolve, with_options
from recnas.train.latency import latency_percentiles
from recnas.train.logits import read_logits
from recnas.train.metrics import reported
from recnas.train.settings import TrainSettings
from recnas.train.setup import NOT_THE_RESULT, check_stopping


def compare(
    data: PreparedData,
    out: Path | str,
    models: Sequence[str],
    reference: str | None = None,
    settings: TrainSettings | None = None,
    seeds: int = 3,
    first_seed: int = 0,
    tune: int = 0,
    budget: float | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    keep: bool = False,
    how: Execution | None = None,
    latency_on: str = "cpu",
    halving: HalvingSettings | None = None,
) -> Leaderboard:
    """Run a comparison, or what is missing of one; the number of workers changes nothing but speeds.

    Args:
        models: see `recnas.tasks.models`. reference: what the others are compared with; the first
            model if None.
        tune: trials per model, the model's defaults among them; 0 takes the defaults as they are.
        budget: instead of a number of trials, what the tuning of a model may train on: this many times the training
            rows, spent on a race of its recipes (`recnas.jobs.compare.halving`).
        options: by model, what is set for it alone: its own options, and settings of the recipe.
        keep: keep the weights of every final training under RUN/models.
        latency_on: where latency is measured: cpu (one thread), or the GPU that will serve; "none": nowhere.
        halving: of that race.
    """
    settings, how = settings or TrainSettings(), how or Execution()
    how.check()
    entrants = with_options(resolve(models, data), options or {}, settings)
    compared_with = find_entrant(reference, entrants) if reference else entrants[0]
    check_trials(entrants, settings, tune, budget)
    halving = halving or HalvingSettings()
    allowed = None if budget is None else Budget(settings, halving, budget, data.rows("train"))
    skipped = {e.label: why for e in entrants if isinstance(e, OtherLibrary) and (why := why_not(e.id))}
    entrants = [entrant for entrant in entrants if entrant.label not in skipped]
    if compared_with.label in skipped:
        raise ConfigError(f"the reference {compared_with.label} cannot be fitted here: {skipped[compared_with.label]}.")
    if allowed is not None:
        allowed.check(entrants)
    check_stopping(settings, data, how.progress)
    if latency_on != NOWHERE:
        choose_device(latency_on, "latency_on")  # now, not after all trainings
    run = RunDir.create(
        out,
        "compare",
        names=[entrant.id for entrant in entrants],
        data=data_facts(data.path, data.fingerprint, out),
        threads=1,
        settings=settings.model_dump(mode="json", exclude=NOT_THE_RESULT),
        tune=tune,
        first_seed=first_seed,
        **({"budget": budget, "halving": halving.model_dump(mode="json")} if budget is not None else {}),
        **({"options": options} if options else {}),
        **({"latency_on": latency_on} if latency_on != "cpu" else {}),
    )
    warn_of_data(data, how.progress)
    with run.locked():
        finals = range(first_seed, first_seed + seeds)
        with ExitStack() as workers:
            job = _Comparison(data, run, settings, entrants, keep, how, workers)
            choices = job.tune(tune, first_seed) if allowed is None else job.race(allowed, first_seed)
            job.train(choices, finals)
        if latency_on != NOWHERE:
            job.time(choices, latency_on)
        trained, failed = job.outcome(choices, finals)
        board = _board(data, trained, compared_with, failed, skipped, seeds=tuple(finals), tune=tune, budget=budget)
        write_board(run.path, board)
    return board


def _board(
    data: PreparedData,
    models: list[TrainedModel],
    reference: Entrant,
    failed: dict[str, str],
    skipped: dict[str, str],
    **asked: Any,
) -> Leaderboard:
    train_rate = data.manifest["click_rate"]["train"]
    rows_of = data.rows("train"), data.rows("test")
    guesses = [guess_logits(rate or 0.0, *rows_of) for rate in data.label_rates("train")]
    guess = judge(data, "test")(np.stack(guesses, 1) if data.schema.labels else guesses[0])
    metrics = reported(data.schema.labels)
    rows = ranked(models, reference.id, guess, metrics)
    return Leaderboard(
        data=data.fingerprint,
        rows={split: data.rows(split) for split in ("train", "valid", "test")},
        weight=data.manifest["weight"] if data.weighted else None,
        reference=reference.label,
        guess={"click_rate": train_rate, "logloss": guess.logloss},
        metrics=tuple(MetricColumn(**metric._asdict()) for metric in metrics),
        models=rows,
        headline=headline(rows, models),
        failed=failed,
        skipped=skipped,
        **asked,
    )


class _Comparison:
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

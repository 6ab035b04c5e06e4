"""Compare models on one data set: same rows, tables, optimizer, tuning budget and seeds.

    RUN/manifest.json      settings, data fingerprint, tuning budget, versions
    RUN/ledger.jsonl       one line per tuning trial, per (model, seed), per latency measurement
    RUN/predictions/       logits of every (model, seed) on the test rows, float32 .npy
    RUN/leaderboard.json   everything; leaderboard.csv the same as one line per model

Every model gets the same number of trials, drawn from its declared grid by one seed and judged by validation
log loss; then the chosen one is trained with every seed, and each training reads test once, after its end.
What is in the ledger is not run again: a run that was killed goes on, and more models or seeds may be added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recnas.bench.bootstrap import Difference, RowSums, paired_bootstrap, row_sums
from recnas.bench.floor import guess_logits
from recnas.bench.leaderboard import headline, model_row, rank, write_board
from recnas.bench.other_models import why_not
from recnas.data.prepared import PreparedData
from recnas.data.quality import warn_of_data
from recnas.data.schema import Schema
from recnas.engines.execution import Execution
from recnas.errors import ConfigError
from recnas.jobs.compare.entrants import Choice, Entrant, OtherLibrary, Trainable
from recnas.jobs.compare.resolve import find_entrant, resolve, with_options
from recnas.jobs.compare.work import CompareWork, Trial, predictions_path
from recnas.runs.folder import RunDir
from recnas.runs.identity import data_facts
from recnas.runs.records import ModelLatency, ModelTraining, Record, read_lines
from recnas.train.latency import latency_percentiles
from recnas.train.metrics import REPORTED
from recnas.train.settings import TrainSettings
from recnas.train.setup import NOT_THE_RESULT, check_stopping

TUNING_SEED = 1_000_000  # added to the first seed: no final training repeats a trial


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
) -> dict[str, Any]:
    """Run a comparison, or what is missing of one; the number of workers changes nothing but speeds.

    Args:
        models: see `recnas.jobs.compare.resolve`. reference: what the others are compared with; the first
            model if None.
        tune: trials per model, the model's defaults among them; 0 takes the defaults as they are.
        budget: instead of a number of trials, what the trials of a model may train on: this many times the
            training rows. The last trial ends where the budget does.
        options: by model, what is set for it alone: its own options, and settings of the recipe.
        keep: keep the weights of every final training under RUN/models.
    """
    settings, how = settings or TrainSettings(), how or Execution()
    how.check()
    entrants = with_options(resolve(models, data), options or {}, settings)
    compared_with = find_entrant(reference, entrants) if reference else entrants[0]
    _check_trials(entrants, settings, tune, budget)
    skipped = {e.label: why for e in entrants if isinstance(e, OtherLibrary) and (why := why_not(e.id))}
    entrants = [entrant for entrant in entrants if entrant.label not in skipped]
    if compared_with.label in skipped:
        raise ConfigError(f"the reference {compared_with.label} cannot be fitted here: {skipped[compared_with.label]}.")
    check_stopping(settings, data, how.progress)
    run = RunDir.create(
        out,
        "compare",
        data=data_facts(data.path, data.fingerprint, out),
        threads=1,
        settings=settings.model_dump(mode="json", exclude=NOT_THE_RESULT),
        tune=tune,
        first_seed=first_seed,
        **({"budget": budget} if budget is not None else {}),
        **({"options": options} if options else {}),
    )
    warn_of_data(data, how.progress)
    with run.locked():
        job = _Comparison(data, run, settings, entrants, keep, how)
        choices = job.tune(tune, first_seed) if budget is None else job.tune_within(budget, first_seed)
        job.train(choices, range(first_seed, first_seed + seeds))
        job.time(choices)
        board = job.board(choices, compared_with, range(first_seed, first_seed + seeds), tune, budget)
        board |= {"skipped": skipped}
        write_board(run.path, board)
    return board


def _check_trials(entrants: Sequence[Entrant], settings: TrainSettings, tune: int, budget: float | None) -> None:
    """The same number of trials for all, or none: a small grid must not get fewer in silence."""
    if tune and budget is not None:
        raise ConfigError("--tune and --budget both say how much is tuned.", "Leave one of them out.")
    smallest = min(entrants, key=lambda entrant: entrant.points(settings))
    most = smallest.points(settings)
    if tune > most:
        raise ConfigError(
            f"--tune {tune} is more than the grid of {smallest.label} has: {most} points. Every model gets the same "
            "number of trials.",
            f"Use --tune {most} or less.",
        )


class _Comparison:
    def __init__(
        self,
        data: PreparedData,
        run: RunDir,
        settings: TrainSettings,
        entrants: list[Entrant],
        keep: bool,
        how: Execution,
    ) -> None:
        self.data, self.folder, self.settings = data, run, settings
        self.entrants, self.how = entrants, how
        self.work = CompareWork(str(data.path), settings, str(run.path), keep)
        self.records: list[Record] = read_lines("compare", run.ledger.read(), str(run.ledger.path))

    # Phases

    def tune(self, trials: int, first_seed: int) -> dict[str, Choice]:
        """The choice of every model: the best trial on validation, or its defaults."""
        drawn = {e.id: e.choices(self.settings, trials, first_seed) for e in self.entrants}
        if trials > 1:
            missing = [
                Trial(entrant, choice, first_seed + TUNING_SEED, number)
                for entrant in self.entrants
                for number, choice in enumerate(drawn[entrant.id])
                if self._trial(entrant, number) is None
            ]
            self._run("tune", len(self.entrants) * trials, missing)
        return {e.id: self._best(e, drawn[e.id]) for e in self.entrants}

    def tune_within(self, budget: float, first_seed: int) -> dict[str, Choice]:
        """The same, with as many trials as train on `budget` times the training rows, the same for every model.

        Each round gives every model that has something left one more trial. None is begun that could not
        reach its first look at validation.
        """
        least = (
            1 / self.settings.stop.checks if self.settings.stop.patience is not None else min(1, self.settings.epochs)
        )
        while True:
            missing = []
            for entrant in self.entrants:
                done = len(self._trials(entrant))
                left = budget - sum(line.trained_rows for line in self._trials(entrant)) / self.data.rows("train")
                drawn = entrant.choices(self.settings, done + 1, first_seed)
                if left >= least and len(drawn) > done:
                    epochs = min(self.settings.epochs, left)
                    missing.append(Trial(entrant, drawn[done], first_seed + TUNING_SEED, done, epochs))
            if not missing:
                break
            self._run("tune", len(missing), missing)
        return {e.id: self._best(e, e.choices(self.settings, len(self._trials(e)), first_seed)) for e in self.entrants}

    def train(self, choices: dict[str, Choice], seeds: Iterable[int]) -> None:
        wanted = [
            Trial(entrant, choices[entrant.id], seed)
            for seed in seeds  # every model once before any twice: a board is useful early
            for entrant in self.entrants
            if seed in self._seeds_of(entrant, seeds)
        ]
        self._run("train", len(wanted), [trial for trial in wanted if not self._is_done(trial)])

    def time(self, choices: dict[str, Choice]) -> None:
        """Latency, one model after the other while nothing else of ours runs."""
        schema = self.data.schema
        one_row = Schema.of_shape(schema.n_dense, [3] * schema.n_sparse)  # look-ups are not timed
        tables = self.settings.embeddings.model_copy(update={"cap": None})
        settings = self.settings.model_copy(update={"embeddings": tables})
        for entrant in self.entrants:
            if isinstance(entrant, Trainable) and self._latency(entrant) is None:
                built = entrant.build(choices[entrant.id], one_row, settings, 0, torch.device("cpu"))
                times = latency_percentiles(built.network, schema.n_dense, schema.n_sparse, built.embeddings.width)
                self._append(ModelLatency(id=entrant.id, model=entrant.label, **times))

    def board(
        self,
        choices: dict[str, Choice],
        reference: Entrant,
        seeds: Iterable[int],
        tune: int,
        budget: float | None,
    ) -> dict[str, Any]:
        label = np.asarray(self.data.array("test", "label"))
        weight = np.asarray(self.data.array("test", "weight")) if self.data.weighted else None
        failed: dict[str, str] = {}
        lines: dict[str, list[ModelTraining]] = {}
        sums: dict[str, list[RowSums]] = {}
        for entrant in self.entrants:
            of_seeds = [self._seed(entrant, seed) for seed in self._seeds_of(entrant, seeds)]
            mine = [line for line in of_seeds if line is not None]
            if broken := [line for line in mine if line.failed is not None]:
                failed[entrant.label] = f"seed {broken[0].seed}: {broken[0].failed}"
                continue
            lines[entrant.id] = mine
            final = [Trial(entrant, choices[entrant.id], line.seed) for line in mine]
            sums[entrant.id] = [
                row_sums(np.load(predictions_path(self.folder.path, trial)), label, weight=weight) for trial in final
            ]
        train_rate = self.data.manifest["click_rate"]["train"]
        guess = row_sums(guess_logits(train_rate or 0.0, self.data.rows("train"), len(label)), label, weight=weight)
        rows = []
        for entrant in self.entrants:
            if entrant.id in lines:
                to_guess = paired_bootstrap(sums[entrant.id], [guess])
                latency = self._latency(entrant)
                difference: Difference | None = None
                if entrant.id != reference.id and reference.id in sums:
                    difference = paired_bootstrap(sums[entrant.id], sums[reference.id])
                times = latency.times if latency is not None else None
                mine = lines[entrant.id]
                trials = self._trials(entrant)
                rows.append(model_row(entrant.label, mine, trials, times, difference, to_guess, entrant.searched))
        ranked = rank(rows)
        return {
            "data": self.data.fingerprint,
            "rows": {split: self.data.rows(split) for split in ("train", "valid", "test")},
            **({"weight": self.data.manifest["weight"]} if self.data.weighted else {}),
            "reference": reference.label,
            "seeds": list(seeds),
            "tune": tune,
            "budget": budget,
            "guess": {"click_rate": train_rate, "logloss": guess.logloss},
            "metrics": [metric._asdict() for metric in REPORTED],
            "models": ranked,
            "headline": headline(ranked, {e.id for e in self.entrants if e.searched}, sums),
            "failed": failed,
        }

    # Help

    def _run(self, name: str, total: int, trials: list[Trial]) -> None:
        progress = self.how.progress
        progress.phase(name, total, "trainings")
        progress.advance(total - len(trials))
        if trials:
            with self.how.open(self.work) as engine:
                for line in engine.map(trials):
                    self._append(line)
                    loss = line.valid.get("logloss")
                    note = "failed" if loss is None else f"validation log loss {loss:.5f}"
                    progress.advance(1, note=f"{line.model} {note}")
        progress.end()

    def _best(self, entrant: Entrant, drawn: list[Choice]) -> Choice:
        """Lowest validation log loss, the earlier of equals; the defaults if no trial came through."""
        judged = [
            (loss, number)
            for number in range(len(drawn))
            if (line := self._trial(entrant, number)) and (loss := line.valid.get("logloss")) is not None
        ]
        return drawn[min(judged)[1]] if judged else drawn[0]

    def _seeds_of(self, entrant: Entrant, seeds: Iterable[int]) -> list[int]:
        """One fit stands for all seeds of a model that repeats itself exactly."""
        return list(seeds)[:1] if entrant.repeats else list(seeds)

    def _is_done(self, trial: Trial) -> bool:
        line = self._seed(trial.entrant, trial.seed)
        if line is None:
            return False
        return line.failed is not None or predictions_path(self.folder.path, trial).exists()

    def _trial(self, entrant: Entrant, number: int) -> ModelTraining | None:
        return self._last(lambda line: line.event == "trial" and line.id == entrant.id and line.trial == number)

    def _trials(self, entrant: Entrant) -> list[ModelTraining]:
        """All of a model, in the order of their numbers."""
        lines = {r.trial: r for r in self.records if isinstance(r, ModelTraining) and r.id == entrant.id}
        return [lines[number] for number in sorted(number for number in lines if number is not None)]

    def _seed(self, entrant: Entrant, seed: int) -> ModelTraining | None:
        return self._last(lambda line: line.event == "seed" and line.id == entrant.id and line.seed == seed)

    def _latency(self, entrant: Entrant) -> ModelLatency | None:
        return self._last(lambda line: line.event == "latency" and line.id == entrant.id)

    def _last(self, fits: Any) -> Any:
        """The last record that fits."""
        return next((record for record in reversed(self.records) if fits(record)), None)

    def _append(self, record: Record) -> None:
        self.folder.ledger.append(record.to_json())
        self.records.append(record)

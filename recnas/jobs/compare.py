"""Lay models side by side on one data set: same rows, tables, optimizer, tuning budget and seeds.

    RUN/manifest.json      settings, data fingerprint, tuning budget, versions
    RUN/ledger.jsonl       one line per tuning trial, per (model, seed), per latency measurement
    RUN/predictions/       logits of every (model, seed) on the test rows, float32 .npy
    RUN/leaderboard.json   everything; leaderboard.csv the same as one line per model

Every model gets the same number of trials, drawn from its declared grid by one seed and judged by validation
log loss; then the chosen one is trained with every seed, and each training reads test once, after its end.
What is in the ledger is not run again: a run that was killed goes on, and more models or seeds may be added.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from recnas.bench.bootstrap import Difference, RowSums, paired_bootstrap, row_sums
from recnas.bench.floor import guess_logits
from recnas.data.prepared import PreparedData
from recnas.engines.base import EngineChoice, open_engine
from recnas.errors import ConfigError
from recnas.jobs.compare_board import headline, model_row, rank, write_board
from recnas.jobs.compare_floors import why_not
from recnas.jobs.compare_latency import measure
from recnas.jobs.compare_models import Choice, Entrant, find_entrant, resolve
from recnas.jobs.compare_work import CompareWork, Item, predictions_path
from recnas.jobs.notice import warn_of_data
from recnas.jobs.training import NOT_THE_RESULT
from recnas.progress import Progress
from recnas.run import RunDir
from recnas.run_facts import data_facts
from recnas.train.settings import TrainSettings

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
    workers: int = 1,
    keep: bool = False,
    progress: Progress | None = None,
    engine: EngineChoice | None = None,
) -> dict[str, Any]:
    """Run a comparison, or what is missing of one; the number of workers changes no figure.

    Args:
        models: see `recnas.jobs.compare_models`. reference: what the others are compared with; the first
            model if None.
        tune: trials per model, the model's defaults among them; 0 takes the defaults as they are.
        keep: keep the weights of every final training under RUN/models.
    """
    settings = settings or TrainSettings()
    engine = engine or EngineChoice()
    engine.check()
    entrants = resolve(models, data)
    compared_with = find_entrant(reference, entrants) if reference else entrants[0]
    _check_budget(entrants, settings, tune)
    skipped = {e.label: why for e in entrants if e.kind == "floor" and (why := why_not(e.id))}
    entrants = [entrant for entrant in entrants if entrant.label not in skipped]
    if compared_with.label in skipped:
        raise ConfigError(
            f"the reference {compared_with.label} cannot be fitted here: {skipped[compared_with.label]}."
        )
    run = RunDir.create(
        out,
        "compare",
        data=data_facts(data.path, data.fingerprint, out),
        threads=1,
        settings=settings.model_dump(mode="json", exclude=NOT_THE_RESULT),
        tune=tune,
        first_seed=first_seed,
    )
    warn_of_data(data, progress or Progress(quiet=True))
    with run.locked():
        job = _Comparison(data, run, settings, entrants, workers, keep, progress or Progress(quiet=True), engine)
        choices = job.tune(tune, first_seed)
        job.train(choices, range(first_seed, first_seed + seeds))
        job.time(choices)
        board = job.board(choices, compared_with, range(first_seed, first_seed + seeds), tune)
        board |= {"skipped": skipped}
        write_board(run.path, board)
    return board


def _check_budget(entrants: Sequence[Entrant], settings: TrainSettings, tune: int) -> None:
    """The same number of trials for all, or none: a small grid must not get fewer in silence."""
    most = {e.label: len(e.choices(settings, 10**9, 0)) for e in entrants}
    label = min(most, key=lambda name: most[name])
    if tune > most[label]:
        raise ConfigError(
            f"--tune {tune} is more than the grid of {label} has: {most[label]} points. Every model gets the same "
            "number of trials.",
            f"Use --tune {most[label]} or less.",
        )


class _Comparison:
    def __init__(
        self,
        data: PreparedData,
        run: RunDir,
        settings: TrainSettings,
        entrants: list[Entrant],
        workers: int,
        keep: bool,
        progress: Progress,
        engine: EngineChoice,
    ) -> None:
        self.engine = engine
        self.data, self.folder, self.settings = data, run, settings
        self.entrants, self.workers, self.progress = entrants, workers, progress
        self.work = CompareWork(str(data.path), settings, str(run.path), keep)
        self.events = run.ledger.read()

    # Phases

    def tune(self, trials: int, first_seed: int) -> dict[str, Choice]:
        """The choice of every model: the best trial on validation, or its defaults."""
        drawn = {e.id: e.choices(self.settings, trials, first_seed) for e in self.entrants}
        if trials > 1:
            items = [
                Item(entrant, choice, first_seed + TUNING_SEED, number)
                for entrant in self.entrants
                for number, choice in enumerate(drawn[entrant.id])
                if self._find("trial", entrant, trial=number) is None
            ]
            self._run("tune", len(self.entrants) * trials, items)
        return {e.id: self._best(e, drawn[e.id]) for e in self.entrants}

    def train(self, choices: dict[str, Choice], seeds: Iterable[int]) -> None:
        wanted = [
            Item(entrant, choices[entrant.id], seed)
            for seed in seeds  # every model once before any twice: a board is useful early
            for entrant in self.entrants
            if seed in self._seeds_of(entrant, seeds)
        ]
        missing = [item for item in wanted if not self._is_done(item)]
        self._run("train", len(wanted), missing)

    def time(self, choices: dict[str, Choice]) -> None:
        """Latency, one model after the other while nothing else of ours runs."""
        for entrant in self.entrants:
            if entrant.kind != "floor" and self._find("latency", entrant) is None:
                found = measure(entrant, choices[entrant.id], self.data.schema, self.settings)
                self._append({"event": "latency", "id": entrant.id, "model": entrant.label, **found})

    def board(
        self, choices: dict[str, Choice], reference: Entrant, seeds: Iterable[int], tune: int
    ) -> dict[str, Any]:
        label = np.asarray(self.data.array("test", "label"))
        failed: dict[str, str] = {}
        events: dict[str, list[dict[str, Any]]] = {}
        sums: dict[str, list[RowSums]] = {}
        for entrant in self.entrants:
            found = [self._find("seed", entrant, seed=seed) for seed in self._seeds_of(entrant, seeds)]
            mine = [event for event in found if event is not None]
            if broken := [event for event in mine if "failed" in event]:
                failed[entrant.label] = f"seed {broken[0]['seed']}: {broken[0]['failed']}"
                continue
            events[entrant.id] = mine
            items = [Item(entrant, choices[entrant.id], event["seed"]) for event in mine]
            sums[entrant.id] = [
                row_sums(np.load(predictions_path(self.folder.path, item)), label) for item in items
            ]
        train_rate = self.data.manifest["click_rate"]["train"]
        guess = row_sums(guess_logits(train_rate or 0.0, self.data.rows("train"), len(label)), label)
        rows = []
        for entrant in self.entrants:
            if entrant.id in events:
                to_guess = paired_bootstrap(sums[entrant.id], [guess])
                latency = self._find("latency", entrant)
                times = {k: v for k, v in (latency or {}).items() if k.startswith("p")}
                difference: Difference | None = None
                if entrant.id != reference.id and reference.id in sums:
                    difference = paired_bootstrap(sums[entrant.id], sums[reference.id])
                rows.append(model_row(entrant.label, events[entrant.id], tune, times or None, difference, to_guess))
        ranked = rank(rows)
        return {
            "data": self.data.fingerprint,
            "rows": {split: self.data.rows(split) for split in ("train", "valid", "test")},
            "reference": reference.label,
            "seeds": list(seeds),
            "tune": tune,
            "guess": {"click_rate": train_rate, "logloss": guess.logloss},
            "models": ranked,
            "headline": headline(ranked, {e.id for e in self.entrants if e.kind == "arch"}, sums),
            "failed": failed,
        }

    # Help

    def _run(self, name: str, total: int, items: list[Item]) -> None:
        self.progress.phase(name, total, "trainings")
        self.progress.advance(total - len(items))
        if items:
            with open_engine(self.work, self.workers, self.engine.kind, self.engine.address) as engine:
                for event in engine.map(items):
                    self._append(event)
                    valid = event.get("valid")
                    note = f"validation log loss {valid['logloss']:.5f}" if valid else "failed"
                    self.progress.advance(1, note=f"{event['model']} {note}")
        self.progress.end()

    def _best(self, entrant: Entrant, drawn: list[Choice]) -> Choice:
        """Lowest validation log loss, the earlier of equals; the defaults if no trial came through."""
        judged = [
            (event["valid"]["logloss"], number)
            for number in range(len(drawn))
            if (event := self._find("trial", entrant, trial=number)) and "failed" not in event
        ]
        return drawn[min(judged)[1]] if judged else drawn[0]

    def _seeds_of(self, entrant: Entrant, seeds: Iterable[int]) -> list[int]:
        """A floor repeats itself exactly: one fit stands for all seeds."""
        return list(seeds)[:1] if entrant.kind == "floor" else list(seeds)

    def _is_done(self, item: Item) -> bool:
        event = self._find("seed", item.entrant, seed=item.seed)
        return event is not None and ("failed" in event or predictions_path(self.folder.path, item).exists())

    def _find(self, kind: str, entrant: Entrant, **facts: int) -> dict[str, Any] | None:
        """The last such line of the ledger."""
        for event in reversed(self.events):
            wanted = {"event": kind, "id": entrant.id, **facts}
            if all(event.get(name) == value for name, value in wanted.items()):
                return event
        return None

    def _append(self, event: dict[str, Any]) -> None:
        self.folder.ledger.append(event)
        self.events.append(event)

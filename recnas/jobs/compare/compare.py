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

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from recnas.bench.bootstrap import judge
from recnas.bench.entrants import Entrant, OtherLibrary
from recnas.bench.floor import guess_logits
from recnas.bench.leaderboard import TrainedModel, headline, ranked, write_board
from recnas.bench.other_models import why_not
from recnas.data.prepared import PreparedData
from recnas.data.quality import warn_of_data
from recnas.devices import choose_device
from recnas.engines.execution import Execution
from recnas.errors import ConfigError
from recnas.jobs.compare.running import Comparison
from recnas.runs.folder import RunDir
from recnas.runs.identity import data_facts
from recnas.runs.results import Leaderboard, MetricColumn
from recnas.searchers.settings import HalvingSettings
from recnas.tasks.comparison.halving import Budget
from recnas.tasks.comparison.settings import NOWHERE
from recnas.tasks.comparison.tuning import check_trials
from recnas.tasks.models import find_entrant, resolve, with_options
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
            rows, spent on a race of its recipes (`recnas.tasks.comparison.halving`).
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
            job = Comparison(data, run, settings, entrants, keep, how, workers)
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

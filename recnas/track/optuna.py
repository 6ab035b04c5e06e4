"""A search as an Optuna study: its trials, values and states, for Optuna's dashboard and plots.

study = recnas.open_run("runs/first").to_optuna()                         # in memory
study = recnas.open_run("runs/first").to_optuna("sqlite:///studies.db")   # kept
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

from recnas.errors import BackendMissing, RunError
from recnas.runs.folder import RunDir
from recnas.runs.records import Candidate, read_lines
from recnas.track.base import flat

KEY, ORIGIN, ARCH, FAILED = "recnas.key", "recnas.origin", "recnas.arch", "recnas.failed"
RUN = "recnas.run"  # of a study: which run it is
_THE_SAME = ("format", "space")  # of every architecture of a run


def import_optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise BackendMissing(f"Optuna cannot be loaded: {error}.", "pip install 'recnas[optuna]'") from None
    return optuna


def to_optuna(path: Path | str, storage: Any = None, name: str | None = None) -> Any:
    """The candidates of a search as the trials of a study; one of the same run that has fewer is written anew.

    Objectives are the study's, in their order and directions. A candidate that failed is a failed trial. Choices of an architecture are
    parameters, by dotted name; its key, origin, scores and costs are attributes of the trial.

    Args:
        storage: an Optuna storage or its URL; None keeps the study in memory. name: of the study; None: the run's folder.
    """
    optuna = import_optuna()
    run = RunDir.open(path)
    manifest = run.manifest()
    if manifest["kind"] != "search":
        raise RunError(
            f"{run.path} is the folder of a {manifest['kind']} run, and only the candidates of a search are trials.",
            f"For curves: recnas track {run.path} --to tensorboard",
        )
    goals: dict[str, str] = manifest["objectives"]
    lines = read_lines("search", run.ledger.read(), str(run.ledger.path))
    candidates = [line for line in lines if isinstance(line, Candidate)]
    name = name or run.path.absolute().name
    if storage is not None and name in optuna.get_all_study_names(storage):
        study = optuna.load_study(study_name=name, storage=storage)
        if study.trials and study.user_attrs.get(RUN) != manifest["check"]:
            raise RunError(f"the study {name} holds trials of something else.", "Give it another name: --study NAME")
        if len(study.trials) == len(candidates):
            return study
        optuna.delete_study(
            study_name=name, storage=storage
        )  # the run has gone on, and parameters may have more options
    study = optuna.create_study(
        storage=storage,
        study_name=name,
        directions=["maximize" if way == "max" else "minimize" for way in goals.values()],
    )
    study.set_user_attr(RUN, manifest["check"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna calls names of metrics an experiment
        study.set_metric_names(list(goals))
    options = _options(candidates)
    for candidate in candidates:
        study.add_trial(_trial(optuna, candidate, candidates, list(goals), options))
    return study


def _options(candidates: list[Candidate]) -> dict[str, list[Any]]:
    """Every value that a choice has in the run: an Optuna parameter has the same options in all trials of a study."""
    found: dict[str, list[Any]] = {}
    for candidate in candidates:
        for name, value in _choices(candidate).items():
            some = found.setdefault(name, [])
            if not any(value == one and type(value) is type(one) for one in some):
                some.append(value)
    return found


def _choices(candidate: Candidate) -> dict[str, Any]:
    """Leaves of the architecture; lists of choices become one text, places of blocks a part of the name."""

    def leaves(value: Any) -> Any:
        if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            return {str(place): leaves(one) for place, one in enumerate(value)}
        if isinstance(value, dict):
            return {name: leaves(one) for name, one in value.items()}
        return value if value is None or isinstance(value, (str, int, float, bool)) else json.dumps(value)

    found = flat(leaves({name: value for name, value in candidate.arch.items() if name not in _THE_SAME}))
    return {name: value for name, value in found.items() if not isinstance(value, dict)}


def _trial(
    optuna: Any, candidate: Candidate, every: list[Candidate], goals: list[str], options: dict[str, list[Any]]
) -> Any:
    first = candidate if candidate.same_as is None else every[candidate.same_as]  # what is known counts with its values
    choices = _choices(candidate)
    states = optuna.trial.TrialState
    return optuna.trial.create_trial(
        state=states.FAIL if first.values is None else states.COMPLETE,
        values=None if first.values is None else [first.values[name] for name in goals],
        params=choices,
        distributions={name: optuna.distributions.CategoricalDistribution(options[name]) for name in choices},
        user_attrs={
            KEY: candidate.key,
            ORIGIN: candidate.origin,
            ARCH: candidate.arch,
            **({FAILED: first.failed} if first.failed is not None else {}),
            **{name: score.value for name, score in candidate.scores.items()},
            **candidate.cost,
        },
    )

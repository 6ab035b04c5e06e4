"""What a reader needs to repeat or to doubt a run: commands, settings, versions, data, and what was not done."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

import yaml

from recnas.report.advice import compare_command, draw_command, resume_command
from recnas.report.kinds import is_gradient, phase_title, unit_of
from recnas.report.ranking import Ranking
from recnas.report.table import Column, Row, Table
from recnas.runs.run import Run


def phases(runs: Sequence[Run]) -> Table:
    """Seconds of every phase."""
    rows: list[Row] = [
        {"run": run.label, "phase": phase_title(run, phase.name), "seconds": phase.seconds, "workers": phase.workers,
         "state": "done" if phase.state == "done" else "not finished"}
        for run in runs
        for phase in run.phases
    ]  # fmt: skip
    columns = (
        Column("run", "run"),
        Column("phase", "phase"),
        Column("seconds", "wall clock", "seconds"),
        Column("workers", "workers", "int"),
        Column("state", "state"),
    )
    return Table(
        "phases",
        "What every phase took",
        columns,
        rows,
        "Seconds on the wall clock of the machine that ran it, resumed parts added up.",
    )


def facts(runs: Sequence[Run]) -> Table:
    """One row per run and fact."""
    rows: list[Row] = []
    for run in runs:
        manifest = run.manifest
        found: dict[str, Any] = {
            "directory": str(run.path),
            "kind": run.kind + ("" if run.finished else ", not finished"),
            "task": manifest.task,
            "data": run.data.path if run.data is not None else None,
            "data fingerprint": run.data.fingerprint if run.data is not None else None,
            "seed": run.setting("seed") if run.config else manifest.first_seed,
            "training seeds": _seeds(run),
            "search": run.method or None,
            "ranked by": _ranked_by(run),
            "warm-up": _warmup(run),
            unit_of(run): _proposed(run),
            "limits": _limits(run),
            "trained from scratch": f"{len(run.trained)}" if run.trained else None,
            "tuning trials per model": manifest.tune if manifest.budget is None else None,
            "training rows of each model's tuning": f"{manifest.budget:g} times"
            if run.kind == "compare" and manifest.budget is not None
            else None,
            "torch threads": manifest.threads,
            "plugins": ", ".join(f"{name} {version}" for name, version in manifest.plugins.items()) or None,
            "versions": ", ".join(
                f"{name} {version}" for name, version in manifest.versions.items() if version != "missing"
            ),
        }
        rows += [
            {"run": run.label, "fact": name, "value": str(value)} for name, value in found.items() if value is not None
        ]
    return Table("facts", "Facts", (Column("run", "run"), Column("fact", "fact"), Column("value", "value")), rows)


def _proposed(run: Run) -> str | None:
    total = run.manifest.proposals
    if not run.is_search or total is None:
        return None
    if is_gradient(run):
        return f"{run.proposed:,} of {total:,}"
    scored = run.result.budget.scored if run.result is not None else sum(one.same_as is None for one in run.candidates)
    return f"{run.proposed:,} of {total:,} proposed, {scored:,} scored"


def _ranked_by(run: Run) -> str | None:
    named = ", ".join(f"{name} ({way})" for name, way in run.objectives.items())
    return f"vote of {named}" if Ranking(run).is_vote else named or None


def _seeds(run: Run) -> str | None:
    if run.board is not None:
        return ", ".join(map(str, run.board.seeds))
    if run.training is not None:
        return ", ".join(map(str, run.training.seeds))
    if run.races:
        return f"{run.setting('final.race.seeds')} per entrant that was trained to its end"
    if not run.trainings_asked:
        return None
    winner = run.setting("final.retrain_seeds") if run.searches_clicks else 1
    return f"{run.setting('final.seeds')} per candidate, {winner} for the winner"


def _warmup(run: Run) -> str | None:
    if run.share is None:
        return None
    rows = f", {run.warmup.rows:,} rows in {run.warmup.steps:,} steps" if run.warmup is not None else ""
    return f"{100 * run.share:g} % of the training rows{rows}"


def _limits(run: Run) -> str | None:
    counted = run.result.limits.get("limits", {}) if run.result is not None else {}
    asked = {
        name: value for name, value in (run.setting("limits") or {}).items() if value is not None and name != "tries"
    }
    parts = []
    for name, value in asked.items():
        tally = counted.get(name) or {}
        share = tally.get("rejected", 0) / tally["checked"] if tally.get("checked") else None
        parts.append(
            f"{name} at most {value:,.10g}" + (f" (rejected {100 * share:.1f} % of draws)" if share is not None else "")
        )
    return "; ".join(parts) or None


def commands(run: Run, config_file: str) -> list[str]:
    """What to type to get the run again, to go on with it, and to use it."""
    path = shlex.quote(str(run.path))
    data = shlex.quote(run.data.path if run.data is not None and run.data.path is not None else "DATA")
    if run.is_search:
        again = f"recnas search {shlex.quote(config_file)} --out runs/again"
        if not run.finished:
            return [resume_command(run), again]
        return [again, draw_command(run), *([compare_command(run, " --seeds 5")] if run.searches_clicks else [])]
    if run.board is not None:
        board = run.board
        models = shlex.join(row.model for row in board.models)
        changed = " ".join(
            f"{name}={_override(value)}" for name, value in _flat(run.manifest.settings).items() if value is not None
        )
        return [
            f"recnas compare --data {data} --models {models} --reference {shlex.quote(board.reference)} "
            f"--seeds {len(board.seeds)} --seed {run.manifest.first_seed or 0} --tune {board.tune} {changed} --out runs/again"
        ]
    if run.kind == "warmup":
        return [f"recnas warmup {shlex.quote(config_file)} --out runs/again"]
    if run.kind == "train":
        seeds = max(1, len(run.winner_trainings))
        return [f"recnas train {path}/arch.json --data {data} --seeds {seeds} --out runs/again"]
    return []


def _flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in settings.items():
        found |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


def _override(value: Any) -> str:
    return shlex.quote(json.dumps(value) if not isinstance(value, str) else value)


def config_text(run: Run) -> str:
    """The settings as a file that the command reads."""
    return yaml.safe_dump(run.config or run.manifest.settings, sort_keys=False)

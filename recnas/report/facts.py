"""What a reader needs to repeat or to doubt a run: commands, settings, versions, data, and what was not done."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

import yaml

from recnas.report.kinds import is_one_shot, phases_of, total_of, unit_of
from recnas.report.runs import Run
from recnas.report.table import Column, Row, Table

_PHASE_NAMES = {
    "warmup": "warm up the supernet",
    "search": "score candidates",
    "top": "train the best",
    "best": "retrain the winner",
}


def phases(runs: Sequence[Run]) -> Table:
    """Seconds of every phase."""
    rows: list[Row] = []
    for run in runs:
        for name in dict.fromkeys([*(phases_of(run.config) if run.kind == "search" else ()), *run.phases]):
            event = run.phases.get(name, {})
            rows.append({"run": run.label, "phase": _PHASE_NAMES.get(name, name), "seconds": event.get("seconds"),
                         "workers": event.get("workers"), "state": "done" if event else "not finished"})  # fmt: skip
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
        config, result, versions = run.config, run.result or {}, run.manifest.get("versions") or {}
        budgets = result.get("budgets") or {}
        total = total_of(config) if run.kind == "search" else None
        found: dict[str, Any] = {
            "directory": str(run.path),
            "kind": run.kind + ("" if run.finished else ", not finished"),
            "data": run.data.get("path"),
            "data fingerprint": run.data.get("fingerprint"),
            "seed": config.get("seed", run.manifest.get("first_seed")),
            "training seeds": _seeds(run),
            "search": run.method or None,
            "ranked by": _ranked_by(run),
            "warm-up": _warmup(run),
            unit_of(config): f"{len(run.candidates):,} of {total:,} proposed, {budgets.get('scored', len(run.candidates)):,} scored"
            if total and unit_of(config) == "candidates"
            else total,
            "limits": _limits(run),
            "trained from scratch": f"{len(run.trained)}" if run.trained else None,
            "tuning trials per model": run.manifest.get("tune"),
            "torch threads": run.manifest.get("threads"),
            "versions": ", ".join(
                f"{name} {version}" for name, version in versions.items() if version != "missing"
            ),
        }
        rows += [
            {"run": run.label, "fact": name, "value": str(value)}
            for name, value in found.items()
            if value is not None
        ]
    return Table(
        "facts", "Facts", (Column("run", "run"), Column("fact", "fact"), Column("value", "value")), rows
    )


def _ranked_by(run: Run) -> str | None:
    named = ", ".join(f"{name} ({way})" for name, way in run.objectives.items())
    return f"vote of {named}" if run.is_vote else named or None


def _seeds(run: Run) -> str | None:
    if run.board:
        return ", ".join(map(str, run.board.get("seeds", [])))
    final = run.config.get("final")
    if final and run.on_clicks:
        return f"{final.get('seeds')} per candidate, {final.get('retrain_seeds')} for the winner"
    seeds = (run.result or {}).get("seeds")
    return ", ".join(map(str, seeds)) if isinstance(seeds, list) else None


def _warmup(run: Run) -> str | None:
    if run.share is None:
        return None
    rows = f", {run.warmup['rows']:,} rows in {run.warmup['steps']:,} steps" if run.warmup else ""
    return f"{100 * run.share:g} % of the training rows{rows}"


def _limits(run: Run) -> str | None:
    counted = ((run.result or {}).get("limits") or {}).get("limits") or {}
    asked = {
        name: value
        for name, value in (run.config.get("limits") or {}).items()
        if value is not None and name != "tries"
    }
    parts = []
    for name, value in asked.items():
        tally = counted.get(name) or {}
        share = tally.get("rejected", 0) / tally["checked"] if tally.get("checked") else None
        parts.append(
            f"{name} at most {value:,.10g}"
            + (f" (rejected {100 * share:.1f} % of draws)" if share is not None else "")
        )
    return "; ".join(parts) or None


def commands(run: Run, config_file: str) -> list[str]:
    """What to type to get the run again, to go on with it, and to use it."""
    path = shlex.quote(str(run.path))
    data = shlex.quote(str(run.data.get("path", "DATA")))
    if run.kind == "search":
        found = [] if run.finished else [f"recnas search --resume {path}"]
        found.append(f"recnas search {shlex.quote(config_file)} --out runs/again")
        if run.finished:
            found += [
                f"recnas draw {path}:best -o best.svg",
                *([f"recnas compare --data {data} --models dlrm deepfm dcn-v2 {path}:best --seeds 5 --out runs/compare"] if run.on_clicks else []),
            ]
        return found
    if run.kind == "compare" and run.board:
        board, settings = run.board, run.manifest.get("settings") or {}
        models = shlex.join(str(row.get("model")) for row in board.get("models", []))
        changed = " ".join(
            f"{name}={_override(value)}" for name, value in _flat(settings).items() if value is not None
        )
        return [
            f"recnas compare --data {data} --models {models} --reference {shlex.quote(str(board.get('reference')))} "
            f"--seeds {len(board.get('seeds', []))} --seed {run.manifest.get('first_seed', 0)} --tune {board.get('tune', 0)} {changed} --out runs/again"
        ]
    if run.kind == "warmup":
        return [f"recnas warmup {shlex.quote(config_file)} --out runs/again"]
    if run.kind == "train":
        return [
            f"recnas train {path}/arch.json --data {data} --seeds {max(1, len(run.best_events))} --out runs/again"
        ]
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
    return yaml.safe_dump(run.config or run.manifest.get("settings") or {}, sort_keys=False)


def not_done(runs: Sequence[Run]) -> list[str]:
    """What a reader might take for granted and must not."""
    found: list[str] = []
    searches = [run for run in runs if run.kind == "search"]
    compares = [run for run in runs if run.kind == "compare"]
    for run in searches:
        final, label = run.config.get("final") or {}, f"{run.label}: " if len(runs) > 1 else ""
        if not run.finished:
            found.append(
                f"{label}the run did not reach its end; every figure is of what was done until then."
            )
        if run.on_table:
            found.append(f"{label}nothing was trained here: accuracies are those of the benchmark's authors.")
        elif not run.on_clicks and not (run.result or {}).get("test_accuracy"):
            found.append(f"{label}the network it chose was not trained.")
        if not run.on_clicks:
            if run.finished and run.result and run.result["test_accuracy"]:
                found.append(f"{label}only the winner's test accuracy was looked at, once, at the end.")
            continue
        compared = {row.get("id") for other in compares for row in (other.board or {}).get("models", []) if len(row.get("seeds") or []) > 1}
        if final.get("retrain_seeds", 1) == 1 and ((run.result or {}).get("best") or {}).get("key") not in compared:
            found.append(
                f"{label}the winner was trained with one seed; how much another seed would differ was not measured."
            )
        if final.get("seeds", 1) == 1:
            found.append(
                f"{label}each trained candidate got one seed, so part of the choice among them is luck."
            )
        if final.get("top") is not None and run.candidates:
            found.append(
                f"{label}only the best {final['top']} of {len(run.candidates):,} candidates by {'vote' if run.is_vote else 'score'} were trained; a good one with a bad score would have been missed."
            )
        if final.get("rows"):
            found.append(f"{label}candidates were trained on the first {final['rows']:,} rows, not on all.")
        if run.share is not None and run.share < 1:
            found.append(
                f"{label}the supernet saw {100 * run.share:g} % of the training rows; no other share was tried."
                if run.share
                else f"{label}scores are zero-shot: the supernet was not trained at all."
            )
        if run.finished:
            found.append(f"{label}only the winner was evaluated on test, once, after its last training; no other candidate has a test figure.")
    if searches and len({run.config.get("seed") for run in searches}) == 1:
        found.append("The search was run with one seed; another would propose other candidates.")
    if any(not is_one_shot(run.config) for run in searches) and not any(run.method == "random" for run in searches):
        found.append(
            "No random search of the same budget is in this report; the grey line is what the random first candidates let one expect."
        )
    if any(run.on_clicks for run in searches) and not compares:
        found.append("No hand-crafted model was trained on the same rows.")
    for run in compares:
        board = run.board or {}
        if not board.get("tune"):
            found.append(f"{run.label}: no model was tuned; each has its default settings.")
        if len(board.get("seeds", [])) < 3:
            found.append(f"{run.label}: {len(board.get('seeds', []))} seed(s) say little about the spread.")
        for word in ("failed", "skipped"):
            found += [
                f"{run.label}: {name} {'failed' if word == 'failed' else 'was left out'}: {why}"
                for name, why in (board.get(word) or {}).items()
            ]
    if any((run.config.get("limits") or {}).get("latency_ms_1") is None for run in searches if run.on_clicks):
        found.append("Latency was no objective and no limit of the search.")
    return [line for line in dict.fromkeys(found) if line]

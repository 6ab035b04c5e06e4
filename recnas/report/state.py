"""Where a run stands, read from its directory while another process writes it.

    state = state_of("runs/first")
    print(describe(state))      # phases, the best so far, what to type next
    state.finished
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from recnas.bench.floor import not_better
from recnas.progress import duration
from recnas.report.kinds import is_one_shot, phases_of, total_of, unit_of
from recnas.report.runs import Run, read_run

_NAMES = {
    "warmup": "warm up",
    "search": "score candidates",
    "top": "train the best",
    "best": "retrain the winner",
}


@dataclass(frozen=True)
class Phase:
    """One phase of a search; `done` of `total` are known for some of them while they run."""

    name: str
    title: str
    state: str  # done, now, to come
    seconds: float | None = None
    done: int | None = None
    total: int | None = None


@dataclass(frozen=True)
class State:
    """A run as `recnas watch` shows it."""

    run: str
    kind: str
    finished: bool
    phases: tuple[Phase, ...]
    facts: tuple[str, ...]  # sentences about what there is so far
    next: tuple[str, ...]  # commands that make sense now
    best: dict[str, Any] | None = None  # the best candidate so far: index, key, values, place in a vote
    result: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def state_of(path: Path | str) -> State:
    """Phases, counts, and the best candidate so far."""
    run = read_run(path)
    facts = {"search": _of_search, "train": _of_train, "compare": _of_compare, "warmup": _of_warmup, "bench": _of_bench}.get(run.kind)
    return State(
        run=str(path),
        kind=run.kind,
        finished=_finished(run),
        phases=tuple(_phases(run)),
        facts=tuple(facts(run)) if facts else (f"{len(run.others)} lines in its ledger",),
        next=tuple(_next(run)),
        best=_best(run),
        result=run.result,
    )


def describe(state: State) -> str:
    lines = [f"{state.run}: {state.kind}, {'finished' if state.finished else 'running or interrupted'}"]
    for phase in state.phases:
        if phase.state == "done":
            told = f"done in {duration(phase.seconds or 0.0)}"
        elif phase.state == "to come":
            told = "to come"
        elif phase.done is None:
            told = "under way"
        else:
            told = f"{phase.done:,} of {phase.total:,}" if phase.total else f"{phase.done:,}"
        lines.append(f"  {phase.title:<19} {told}")
    lines += [f"  {fact}" for fact in state.facts]
    lines += [f"  {'next' if state.finished else 'to continue'}: {command}" for command in state.next]
    return "\n".join(lines)


def _finished(run: Run) -> bool:
    """A table of trainings is made anew when all are done; every other kind leaves a result."""
    return (run.path / "table.parquet").exists() if run.kind == "bench" else run.finished


def _phases(run: Run) -> Iterator[Phase]:
    if run.kind != "search":
        return
    order = phases_of(run.config)
    now = next((name for name in order if name not in run.phases), None)
    for name in order:
        title = f"train, by {unit_of(run.config)}" if name == "search" and is_one_shot(run.config) else _NAMES[name]
        if name in run.phases:
            yield Phase(name, title, "done", run.phases[name].get("seconds"))
        elif name == now:
            yield Phase(name, title, "now", None, *_progress(run, name))
        else:
            yield Phase(name, title, "to come")


def _progress(run: Run, name: str) -> tuple[int | None, int | None]:
    final = run.config.get("final") or {}
    if name == "search":
        return len([c for c in run.candidates if c.get("origin") != "chosen"]), total_of(run.config)
    if name == "top":
        done = len(run.trained) + sum(event.get("event") == "longer" for event in run.others)
        return done, (final.get("top") or 0) * final.get("seeds", 1) or None
    return None, None


def _best(run: Run) -> dict[str, Any] | None:
    """Who leads so far; a search on a supernet has no candidates to choose from, only its last state."""
    best = run.best_by_score if run.kind == "search" and not is_one_shot(run.config) else None
    if best is None:
        return None
    found = {name: best[name] for name in ("index", "key", "values")}
    return found | {"place": 1, "of": len(run.places)} if run.is_vote else found


def _of_search(run: Run) -> Iterator[str]:
    best = _best(run)
    if best is not None:
        name = f"best candidate: number {best['index'] + 1}"
        if run.is_vote:
            voices = ", ".join(run.objectives)
            yield f"{name}, leads the vote of {len(run.objectives)} proxies ({voices}) over {best['of']:,} candidates; {best['key']}"
        else:
            yield f"{name}, {', '.join(f'{voice} {value:.6g}' for voice, value in best['values'].items())}, {best['key']}"
    losses = [figures["valid_logloss"] for figures in run.trained_mean().values()]
    if losses:
        yield f"best validation log loss of a trained candidate: {min(losses):.5f}"
    longer = [event["valid"] for event in run.others if event.get("event") == "longer" and "valid" in event]
    if longer:
        yield f"best validation accuracy of a trained candidate in percent: {max(longer):.2f}"
    result = run.result or {}
    if "test_accuracy" in result:
        shown = ", ".join(f"{name} {value:.2f}" for name, value in result["test_accuracy"].items() if value is not None)
        chosen = result["best"].get("arch", result["best"]["key"])
        yield f"chosen: {chosen}"
        yield f"test accuracy of the winner in percent: {shown}" if shown else "no table says how it does when trained"
    elif "test" in result:
        best = result["best"]
        yield f"winner: number {best['index'] + 1}, place {best['rank'] + 1} before training; of those trained it had the lowest validation log loss"
        yield f"test log loss of the winner: {result['test']['logloss']:.5f}{_warned(result['test'].get('normalized_entropy'))}"


def _of_train(run: Run) -> Iterator[str]:
    seeds = [event["seed"] for event in run.best_events]
    yield f"trainings done: {len(seeds)}" + (f" (seed {', '.join(map(str, seeds))})" if seeds else "")
    losses = [event["test"]["logloss"] for event in run.best_events if "test" in event]
    if losses:
        entropies = [event["test"].get("normalized_entropy") for event in run.best_events if "test" in event]
        known = [value for value in entropies if value is not None]
        yield f"mean test log loss: {fmean(losses):.5f}{_warned(fmean(known) if known else None)}"


def _of_compare(run: Run) -> Iterator[str]:
    by_kind = {kind: [event for event in run.others if event.get("event") == kind] for kind in ("trial", "seed")}
    if by_kind["trial"]:
        yield f"tuning trials done: {len(by_kind['trial'])}"
    models = dict.fromkeys(str(event.get("model")) for event in by_kind["seed"])
    yield f"trainings done: {len(by_kind['seed'])}" + (f" ({', '.join(models)})" if models else "")
    board = run.board or {}
    joined = {"better": "better than {}", "worse": "worse than {}", "no real difference": "no real difference to {}"}
    for row in board.get("models", []):
        verdict = joined.get(row["verdict"], row["verdict"] or "reference").format(board.get("reference"))
        yield f"{row['rank']}. {row['model']}: test log loss {row['test']['logloss']['mean']:.5f}, {verdict}"


def _of_warmup(run: Run) -> Iterator[str]:
    if run.result:
        yield f"{100 * run.result['share']:g} % of the training rows: {run.result['rows']:,} rows in {run.result['steps']:,} steps"


def _of_bench(run: Run) -> Iterator[str]:
    yield f"trainings done: {len(run.trained)} of {len(run.trained_mean())} architectures"


def _warned(entropy: float | None) -> str:
    below = not_better(entropy)
    return f"; warning: {below}" if below else ""


def _next(run: Run) -> list[str]:
    path = shlex.quote(str(run.path))
    if not _finished(run):
        resume = f"recnas search --resume {path}"
        return [resume if run.kind == "search" else f"repeat the command it was started with, --out {path}"]
    if run.kind in ("compare", "train"):
        return [f"recnas report {path} -o report.html"]
    if run.kind != "search":
        return []
    if run.on_clicks:
        data = shlex.quote(str(run.data.get("path", "DATA")))
        return [
            f"recnas compare --data {data} --models dlrm deepfm dcn-v2 {path}:best --out runs/compare",
            f"recnas report {path} runs/compare -o report.html",
        ]
    return [f"recnas report {path} -o report.html", f"recnas draw {path}:best -o best.svg"]

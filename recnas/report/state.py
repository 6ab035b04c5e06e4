"""Where a run stands, read from its directory while another process writes it.

state = state_of("runs/first")
print(describe(state))      # phases, the best so far, what to type next
state.finished
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from recnas.bench.floor import not_better
from recnas.progress import duration
from recnas.report.advice import next_commands
from recnas.report.contest import contest_lines
from recnas.report.kinds import phase_title
from recnas.report.last_lines import accuracies
from recnas.report.race import came_from, race_so_far, recipe_of_the_winner
from recnas.report.ranking import Ranking
from recnas.report.table import METRIC_NAMES
from recnas.runs.read import read_run
from recnas.runs.records import ModelTraining
from recnas.runs.run import FINALISTS, Phase, Run
from recnas.runs.search_result import SearchResult


@dataclass(frozen=True)
class TitledPhase(Phase):
    """A phase as it is called on a screen."""

    title: str = ""


@dataclass(frozen=True)
class State:
    """A run as `recnas watch` shows it."""

    run: str
    kind: str
    finished: bool
    phases: tuple[TitledPhase, ...]
    facts: tuple[str, ...]  # sentences about what there is so far
    next: tuple[str, ...]  # commands that make sense now
    best: dict[str, Any] | None = None  # the best candidate so far: index, key, values, place in a vote
    result: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def state_of(path: Path | str) -> State:
    """Phases, counts, and the best candidate so far."""
    run = read_run(path)
    facts = _FACTS.get(run.kind, _of_others)
    result = run.result or run.training or (run.warmup if run.kind == "warmup" else None)
    return State(
        run=str(path),
        kind=run.kind,
        finished=run.finished,
        phases=tuple(TitledPhase(**asdict(phase), title=phase_title(run, phase.name)) for phase in run.phases),
        facts=tuple(facts(run)),
        next=tuple(next_commands(run)),
        best=_best(run),
        result=None if result is None else result.model_dump(mode="json"),
    )


def describe(state: State) -> str:
    lines = [f"{state.run}: {state.kind}, {'finished' if state.finished else 'running or interrupted'}"]
    lines += [f"  {phase.title:<19} {_progress(phase)}" for phase in state.phases]
    lines += [f"  {fact}" for fact in state.facts]
    lines += [f"  {'next' if state.finished else 'to continue'}: {command}" for command in state.next]
    return "\n".join(lines)


def _progress(phase: Phase) -> str:
    if phase.state == "done":
        return f"done in {duration(phase.seconds or 0.0)}"
    if phase.state == "to come":
        return "to come"
    if phase.done is None:
        return "under way"
    return f"{phase.done:,} of {phase.total:,}" if phase.total else f"{phase.done:,}"


def _best(run: Run) -> dict[str, Any] | None:
    ranking = Ranking(run)
    best = ranking.best
    if best is None:
        return None
    found = {"index": best.index, "key": best.key, "values": best.values}
    return found | {"place": 1, "of": len(ranking.places)} if ranking.is_vote else found


def _of_search(run: Run) -> Iterator[str]:
    best, ranking = _best(run), Ranking(run)
    if best is not None:
        name = f"best candidate: number {best['index'] + 1}"
        if ranking.is_vote:
            yield (
                f"{name}, leads the vote of {len(ranking.objectives)} proxies ({ranking.voices}) over {best['of']:,} "
                f"candidates; {best['key']}"
            )
        else:
            yield f"{name}, {', '.join(f'{voice} {value:.6g}' for voice, value in best['values'].items())}, {best['key']}"
    metric = run.metric
    if run.races and run.race_lines:
        yield race_so_far(run)
    judged = [mean for arch in run.trained_archs if (mean := arch.mean(metric.name)) is not None]
    if judged:
        best_of = min(judged) if metric.direction == "min" else max(judged)
        yield f"best validation {METRIC_NAMES[metric.name]} of a finalist: {_metric(metric.name, best_of)}"
    if run.result is not None:
        yield from _of_result(run, run.result)


def _of_result(run: Run, result: SearchResult) -> Iterator[str]:
    winner = result.winner
    if FINALISTS in run.manifest.phases:
        better = "lowest" if run.metric.direction == "min" else "highest"
        if result.race is not None:
            yield recipe_of_the_winner(result.race)
            if result.race.verdict is not None:
                yield f"verdict: {result.race.verdict}"
        which = f"number {winner.index + 1}, place {winner.rank + 1} before training"
        if result.race is not None:
            which = came_from(result)
        yield (f"winner: {which}; of those trained it had the {better} validation {METRIC_NAMES[run.metric.name]}")
    else:
        yield f"chosen: {winner.text or winner.key}"
    if run.task == "ctr":
        loss, entropy = result.test.get("logloss"), result.test.get("normalized_entropy")
        yield f"test log loss of the winner: {loss:.5f}{_warned(entropy)}"
    elif FINALISTS in run.manifest.phases:
        yield f"test accuracy of the winner: {result.test['accuracy']:.2f} %"
    elif shown := accuracies(result):
        yield f"test accuracy of the winner in percent: {shown}"
    else:
        yield "no table says how it does when trained"


def _metric(name: str, value: float) -> str:
    return f"{value:.5f}" if name == "logloss" else f"{value:.2f} %"


def _of_train(run: Run) -> Iterator[str]:
    seeds = [training.seed for training in run.winner_trainings]
    yield f"trainings done: {len(seeds)}" + (f" (seed {', '.join(map(str, seeds))})" if seeds else "")
    if run.test_losses:
        tests = [training.test for training in run.winner_trainings if training.test is not None]
        known = [value for test in tests if (value := test.get("normalized_entropy")) is not None]
        yield f"mean test log loss: {fmean(run.test_losses):.5f}{_warned(fmean(known) if known else None)}"


def _of_compare(run: Run) -> Iterator[str]:
    lines = run.of(ModelTraining)
    trials = {(line.id, line.trial): line.trained_rows for line in lines if line.event == "trial"}
    seeds = [line for line in lines if line.event == "seed"]
    if trials:
        yield f"tuning trials: {len(trials)}, {sum(trials.values()):,} training rows read by them"
    models = dict.fromkeys(line.model for line in seeds)
    yield f"trainings done: {len(seeds)}" + (f" ({', '.join(models)})" if models else "")
    if run.board is None:
        return
    words = {"better": "better than {}", "worse": "worse than {}", "no real difference": "no real difference to {}"}
    for row in run.board.models:
        verdict = row.verdict or "reference"
        shown = words.get(verdict, verdict).format(run.board.reference)
        yield f"{row.rank}. {row.model}: test log loss {row.value('test', 'logloss').mean:.5f}, {shown}"


def _of_warmup(run: Run) -> Iterator[str]:
    if run.warmup is not None:
        share, rows, steps = run.warmup.share, run.warmup.rows, run.warmup.steps
        yield f"{100 * share:g} % of the training rows: {rows:,} rows in {steps:,} steps"


def _of_bench(run: Run) -> Iterator[str]:
    yield f"trainings done: {len(run.trained)} of {len(run.trained_archs)} architectures"


def _of_others(run: Run) -> Iterator[str]:
    yield f"{run.lines} lines in its ledger"


_FACTS: dict[str, Callable[[Run], Iterator[str]]] = {
    "search": _of_search,
    "train": _of_train,
    "compare": _of_compare,
    "contest": contest_lines,
    "warmup": _of_warmup,
    "bench": _of_bench,
}


def _warned(entropy: float | None) -> str:
    below = not_better(entropy)
    return f"; warning: {below}" if below else ""

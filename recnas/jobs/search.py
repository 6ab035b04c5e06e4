"""Find an architecture: prepare, evaluate candidates, train the best from scratch, read test once.

    RUN/manifest.json   task, config, data fingerprint, objectives, phases, versions
    RUN/ledger.jsonl    one line per phase, per candidate in the order proposed, and per training
    RUN/winner.json     the winner, as its space describes it
    RUN/winner/         its last training, where there is one
    RUN/result.json     what was found and what it cost (`recnas.runs.records.SearchResult`)

One loop for every task (`recnas.tasks`). Validation chooses among the finalists; test is read by the winner
only, after its last training. A run that is repeated after a crash goes on where it was: phases that ended are
not repeated, the searcher replays the ledger, trainings continue from their checkpoints, and the result is the
same.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from recnas.engines.execution import Execution
from recnas.errors import RunError
from recnas.evaluators.base import Evaluation
from recnas.evaluators.training import Training, TrainRequest
from recnas.files import write_json
from recnas.jobs.race import RaceRun
from recnas.proxies.registry import get_proxies
from recnas.runs.book import Book
from recnas.runs.folder import RunDir
from recnas.runs.layout import RACE_FOLDER, RESULT, WINNER_FILE
from recnas.runs.records import Candidate, Trained
from recnas.runs.search_result import Finalist, SearchResult, Winner
from recnas.searchers.base import Searcher
from recnas.searchers.limits import Gate
from recnas.searchers.proposal import Outcome, Proposal
from recnas.searchers.registry import get_searcher
from recnas.tasks.base import FINALISTS, SEARCH, WARMUP, WINNER, Final, Task
from recnas.tasks.racing import Racing
from recnas.tasks.registry import AnySearch, make_task
from recnas.tasks.search_result import finalist_of, result_of, seeds_left_out, seeds_passed_over, winner_of
from recnas.tasks.settings import CtrSearchConfig, GradientSearchConfig
from recnas.threads import computing_with, settle_threads
from recnas.track.follow import tracking


def search(config: AnySearch, out: Path | str, how: Execution | None = None) -> SearchResult:
    """Run a whole search, or the rest of one that was interrupted; how it is executed may differ."""
    how = how or Execution()
    how.check()
    with tracking(config.track, out, how.progress.note):
        if isinstance(config, GradientSearchConfig):
            from recnas.jobs.gradient_search import gradient_search

            return gradient_search(config, out, how)
        return search_task(make_task(config), out, how)


def search_task(task: Task, out: Path | str, how: Execution | None = None) -> SearchResult:
    """The same for a task that is made already."""
    how = how or Execution()
    task.check_devices(how)
    if isinstance(task.config, CtrSearchConfig) and not (Path(out) / "manifest.json").exists():
        from recnas.tasks.forecast import check_fits, forecast

        check_fits(forecast(task.config, how.workers_here))
    threads = settle_threads(out, task.threads or how.threads)
    run = RunDir.create(
        out,
        "search",
        task=task.name,
        phases=list(task.phases),
        config=task.config.identity(),
        objectives=task.objectives.to_dict(),
        directions=_directions(task),
        combine=task.objectives.combine,
        metric=asdict(task.metric),
        proposals=task.searcher.proposals,
        threads=threads,
        **task.sources(out),
    )
    task.warn(how)
    with run.locked(), computing_with(threads):
        return _Search(task, run, replace(how, threads=threads)).run()


def _directions(task: Task) -> dict[str, str]:
    """Which way is better, of everything a candidate is scored by: a report must not load the proxies to know."""
    scored = get_proxies(task.proxies) if task.proxies else []
    return task.objectives.to_dict() | {one.name: "max" if one.higher_is_better else "min" for one in scored}


@dataclass
class _Search:
    task: Task
    folder: RunDir
    how: Execution

    def run(self) -> SearchResult:
        task = self.task
        self.book = Book(self.folder, self.how.workers)
        if WARMUP in task.phases:
            with self.book.phase(WARMUP):
                task.prepare(self.folder, self.how)
        with self.book.phase(SEARCH):
            searcher = self._search()
        result = self._chosen(searcher) if task.racing is None else self._raced(searcher, task.racing)
        write_json(self.folder.path / RESULT, result.to_json())
        return result

    def _chosen(self, searcher: Searcher[Any]) -> SearchResult:
        task = self.task
        best = searcher.best(task.finalists)
        if not best:
            raise RunError(
                f"all {searcher.total:,} candidates failed, the first because: {searcher.history[0].failed}.",
                f"The reasons are in {self.folder.ledger.path}.",
            )
        finalists, outcome = list[Finalist](), best[0]
        if FINALISTS in task.phases:
            with self.book.phase(FINALISTS):
                finalists = self._train_finalists(best)
            outcome = best[min(finalists, key=lambda one: (task.metric.cost(one.valid), one.rank)).rank]
        arch = outcome.proposal.arch
        winner = winner_of(task, arch, outcome.proposal.index, best.index(outcome), outcome.values)
        final = self._finish(winner, lambda: task.finish(arch, self.folder, self.how))
        trained = len(finalists) * task.finalist_seeds
        return result_of(task, searcher, winner, finalists, final, self.book.seconds, trained)

    def _raced(self, searcher: Searcher[Any], racing: Racing) -> SearchResult:
        race = RaceRun(self.task, racing, searcher, self.book, self.folder, self.how)
        with self.book.phase(FINALISTS):
            best, finalists = race.run()
            found = race.result(best)
        chosen = next(one for one in finalists if one.key == best.key)
        arch = self.task.space.from_dict(best.arch)
        winner = winner_of(self.task, arch, best.index, chosen.rank, chosen.values)
        final = self._finish(winner, lambda: racing.finish(arch, best, self.folder, self.how))
        shutil.rmtree(self.folder.path / RACE_FOLDER, ignore_errors=True)
        return result_of(self.task, searcher, winner, finalists, final, self.book.seconds, found.trainings, found)

    def _finish(self, winner: Winner, finish: Callable[[], Final]) -> Final:
        write_json(self.folder.path / WINNER_FILE, winner.arch)
        if WINNER not in self.task.phases:
            return finish()
        with self.book.phase(WINNER):
            return finish()

    def _search(self) -> Searcher[Any]:
        task, progress = self.task, self.how.progress
        gate = Gate(task.space, task.limits, cost=task.cost, measure=task.measure)
        pool = task.pool_scores(self.folder, self.how)
        searcher = get_searcher(task.searcher.method, task.space, task.objectives, task.seed, task.searcher, gate, pool)
        searcher.begin_with(seed.arch for seed in task.seeds)
        searcher.replay(self.book.records)
        progress.phase("search", searcher.total, "candidates")
        progress.advance(len(searcher.history))
        if not searcher.done:
            with self.how.open(task.evaluator(self.folder)) as engine:
                while batch := searcher.ask_batch():
                    fresh = [proposal.arch for proposal in batch if not proposal.known]
                    described = [task.space.to_dict(arch) for arch in fresh]
                    sizes = [task.cost(arch).get("macs", 0.0) for arch in fresh]
                    results = engine.map_largest_first(described, sizes)
                    for proposal in batch:
                        record = (
                            searcher.tell(proposal) if proposal.known else self._told(searcher, proposal, next(results))
                        )
                        self.book.append(record)
                        progress.advance(1, note=searcher.leader())
        progress.end()
        for note in (seeds_left_out(task, searcher), seeds_passed_over(task, searcher)):
            if note is not None:
                progress.say(note)
        return searcher

    def _told(self, searcher: Searcher[Any], proposal: Proposal[Any], evaluation: Evaluation) -> Candidate:
        """Tell the values of the objectives; costs and latencies are the task's, the others were evaluated."""
        cost = dict(self.task.cost(proposal.arch))
        if evaluation.failed is not None:
            record = searcher.tell(proposal, failed=evaluation.failed)
        else:
            values: dict[str, float] = {}
            for name in self.task.objectives.names:
                if name in evaluation.values:
                    values[name] = evaluation.values[name]
                else:
                    values[name] = cost[name] if name in cost else self.task.measure(proposal.arch)[name]
            record = searcher.tell(proposal, values)
        return record.model_copy(
            update={
                "scores": dict(evaluation.scores),
                "cost": cost,
                "seconds": evaluation.seconds,
                "facts": {**record.facts, **evaluation.extras},
            }
        )

    def _train_finalists(self, best: list[Outcome[Any]]) -> list[Finalist]:
        """The best candidates, trained from scratch and judged by validation."""
        task, progress = self.task, self.how.progress
        work = task.finalist_work(self.folder)
        assert work is not None, f"{task.name} has a phase of finalists and no work for it"
        seeds = range(task.seed, task.seed + task.finalist_seeds)
        done = {(line.key, line.seed): line for line in self.book.of(Trained)}
        missing = [
            (rank, outcome, seed)
            for rank, outcome in enumerate(best)
            for seed in seeds
            if (outcome.proposal.key, seed) not in done
        ]
        progress.phase("train finalists", len(best) * len(seeds), "trainings")
        progress.advance(len(best) * len(seeds) - len(missing))
        requests = [TrainRequest(seed, task.space.to_dict(outcome.proposal.arch)) for _, outcome, seed in missing]
        if missing:
            with self.how.open(work) as engine:
                for (rank, outcome, seed), training in zip(missing, engine.map(requests)):
                    line = self._trained(rank, outcome, seed, training)
                    self.book.append(line)
                    done[line.key, seed] = line
                    value = line.valid.get(task.metric.name)
                    note = f"failed: {line.failed}" if value is None else f"validation {task.metric.name} {value:.5g}"
                    progress.advance(1, note=note)
        progress.end()
        finalists = [
            finalist_of([done[one.proposal.key, seed] for seed in seeds], one.values, task.metric.name) for one in best
        ]
        if all(one.valid.get(task.metric.name) is None for one in finalists):
            reasons = sorted({line.failed for line in done.values() if line.failed})
            raise RunError(f"every finalist failed in training: {'; '.join(reasons)}.", "Lower final.train.lr.")
        return finalists

    def _trained(self, rank: int, outcome: Outcome[Any], seed: int, training: Training) -> Trained:
        proposal = outcome.proposal
        return Trained(
            index=proposal.index,
            rank=rank,
            key=proposal.key,
            arch=self.task.space.to_dict(proposal.arch),
            seed=seed,
            cost=dict(self.task.cost(proposal.arch)),
            valid=training.metrics.get("valid", {}),
            failed=training.failed,
            train_loss=training.train_loss,
            steps=training.steps,
            seconds=training.seconds,
        )

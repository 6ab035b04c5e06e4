"""The race of a search, while it is run: who takes part, laps that engines do, lines of the ledger, checkpoints.

What is decided is decided in `recnas.searchers.race`. A race that goes on after a crash asks for the same laps again and
is told what the ledger holds; each training goes on from its own checkpoint.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from recnas.bench.verdict import race_verdict
from recnas.engines.base import Engine
from recnas.engines.execution import Execution
from recnas.errors import RunError
from recnas.evaluators.race import RungDone, RungRequest, scores_path
from recnas.runs.book import Book
from recnas.runs.folder import RunDir
from recnas.runs.layout import RACE_FOLDER
from recnas.runs.records import Candidate, Entrant, RungTraining, Trained, Versus
from recnas.runs.search_result import Finalist, HandCrafted, RaceResult
from recnas.searchers.base import Searcher
from recnas.searchers.entry import Contender, Entry, contenders_of
from recnas.searchers.race import Lap, Race
from recnas.seeds import stream
from recnas.tasks.base import Task
from recnas.tasks.racing import Racing
from recnas.tasks.search_result import finalist_of


class RaceRun:
    """Args:
    task: that has a race. searcher: whose search is over.
    """

    def __init__(
        self, task: Task, racing: Racing, searcher: Searcher[Any], book: Book, folder: RunDir, how: Execution
    ) -> None:
        self.task, self.racing, self.searcher = task, racing, searcher
        self.book, self.folder, self.how = book, folder, how
        self._costs: dict[int, dict[str, float]] = {}  # of entrants
        self.names = {task.space.key(seed.arch): seed.name for seed in task.seeds if seed.hand_crafted}
        for entered in book.of(Entrant):
            searcher.gate.remember(entered.measured)
        entry = Entry(
            racing.settings,
            contenders_of(searcher, {line.index: line for line in book.of(Candidate)}, self.names),
            racing.recipe,
            self._mutated,
        )
        self.race = Race(racing.course, entry, task.metric.cost, task.seed)

    def run(self) -> tuple[Entrant, list[Finalist]]:
        """To the end, or what is left of it; the winner and all that were trained to their end."""
        race, progress = self.race, self.how.progress
        progress.phase("race", race.course.budget, "rows")
        known = {(line.entrant, line.seed, line.rung): line for line in self.book.of(RungTraining)}
        with ExitStack() as stack:
            engine: Engine | None = None
            while laps := race.ask():
                self._note_entrants()
                self._forget()
                missing = [lap for lap in laps if (lap.entrant.number, lap.seed, lap.rung) not in known]
                if missing and engine is None:
                    engine = stack.enter_context(self.how.open(self.racing.work(self.folder)))
                results = iter(()) if engine is None else self._done(engine, missing)
                for lap in laps:
                    before = race.spent
                    line = known.get((lap.entrant.number, lap.seed, lap.rung))
                    if line is None:
                        line = self._line(lap, next(results))
                        self.book.append(line)
                    race.tell(lap, line)
                    progress.advance(race.spent - before, note=self._note(lap))
        progress.end()
        self._forget()
        if race.winner is None:
            reasons = sorted({line.failed for line in race.trainings if line.failed})
            raise RunError(
                f"every training of the race failed: {'; '.join(reasons) or 'nobody could enter'}.",
                "Lower final.train.lr.",
            )
        return race.winner, self._finalists()

    def result(self, winner: Entrant) -> RaceResult:
        """With the winner against the best hand-crafted model."""
        task, known, metric = self.task, self.race.hand_crafted, self.task.metric.name
        found = self.race.result(winner, self.racing.changed(winner.recipe), metric)
        found = found.model_copy(update={"latency": dict(task.measure(task.space.from_dict(winner.arch)))})
        if known is None:
            return found
        versus = self._versus(winner, known)
        hand_crafted = HandCrafted(
            name=known.name or "",
            key=known.key,
            arch=known.arch,
            changed=self.racing.changed(known.recipe),
            valid=self.race.valid(known, metric),
            cut=any(line.cut for line in self.race.trainings_of(known)),
            cost=self._costs[known.number],
            latency=dict(task.measure(task.space.from_dict(known.arch))) if versus is not None else found.latency,
            difference=None if versus is None else versus.difference,
        )
        said = race_verdict(hand_crafted, found, self._costs[winner.number], self.race.valid(winner, metric))
        return found.model_copy(update={"hand_crafted": hand_crafted, "verdict": said})

    def _versus(self, winner: Entrant, known: Entrant) -> Versus | None:
        """None if they are one. Scores that were lost with a crash are made again."""
        if known == winner:
            return None
        noted = next(iter(self.book.of(Versus)), None)
        if noted is None:
            names: list[list[str]] = []
            for one in (winner, known):
                laps = [Lap(one, line.rung, line.seed, line.steps, True) for line in self.race.trainings_of(one)]
                names.append([lap.training for lap in laps])
                lost = [lap for lap in laps if not scores_path(self.folder.path / RACE_FOLDER, lap.training).exists()]
                if lost:
                    with self.how.open(self.racing.work(self.folder)) as engine:
                        list(self._done(engine, lost))
            difference = self.racing.difference(self.folder, *names)
            noted = Versus(winner=winner.number, other=known.number, difference=difference)
            self.book.append(noted)
        return noted

    # Who enters

    def _mutated(self, parent: Contender, draw: int) -> Contender | None:
        space, rng = self.task.space, stream(self.task.seed, "race-mutations", draw)
        arch = space.from_dict(parent.arch)
        child = self.searcher.gate.attempt(lambda: space.mutate(arch, rng))
        if child is None:
            return None
        key = space.key(child)
        return Contender(parent.index, key, space.to_dict(child), parent.root, "mutation", self.names.get(key))

    def _note_entrants(self) -> None:
        """Those that are new go into the ledger; those that are there must be the same."""
        there = {line.number: line for line in self.book.of(Entrant)}
        for one in self.race.entrants[len(self._costs) :]:
            self._costs[one.number] = dict(self.task.cost(self.task.space.from_dict(one.arch)))
            noted = there.get(one.number)
            if noted is None:
                self.book.append(one.model_copy(update={"measured": self.searcher.gate.new_measurements()}))
            elif (noted.key, noted.recipe) != (one.key, one.recipe):
                raise RunError(
                    f"the ledger belongs to another race: entrant {one.number} is {noted.key}, and here {one.key}.",
                    "Start a new run directory.",
                )

    # Laps

    def _done(self, engine: Engine, laps: list[Lap]) -> Iterator[RungDone]:
        requests = [
            RungRequest(
                lap.training,
                lap.entrant.arch,
                lap.entrant.recipe,
                lap.seed,
                lap.until,
                lap.end,
                self.race.course.valid_rows(lap.rung),
            )
            for lap in laps
        ]
        return engine.map_largest_first(requests, [self._costs[lap.entrant.number]["macs"] for lap in laps])

    def _line(self, lap: Lap, done: RungDone) -> RungTraining:
        return RungTraining(
            entrant=lap.entrant.number,
            rung=lap.rung,
            seed=lap.seed,
            trained_rows=self.race.course.rows_at(done.steps, int(lap.entrant.recipe["batch_size"])),
            checkpoint=f"{RACE_FOLDER}/{lap.training}",
            **asdict(done),
        )

    def _note(self, lap: Lap) -> str:
        value = self.race.value(lap.entrant)
        return f"bracket {lap.entrant.bracket + 1}, rung {lap.rung + 1}, entrant {lap.entrant.number + 1}: {value:.5g}"

    def _forget(self) -> None:
        """Remove checkpoints of trainings that will not go on: tables are large and entrants many."""
        for training in self.race.dropped:
            shutil.rmtree(self.folder.path / RACE_FOLDER / training, ignore_errors=True)
            scores_path(self.folder.path / RACE_FOLDER, training).unlink(missing_ok=True)

    # Its end

    def _finalists(self) -> list[Finalist]:
        """Every architecture that was trained to its end, with its best recipe; a line in the ledger per training."""
        task, noted = self.task, {(line.key, line.seed) for line in self.book.of(Trained)}
        best: dict[str, Entrant] = {}
        for one in self.race.order(self.race.finalists):
            best.setdefault(one.key, one)
        places = {told.proposal.key: place for place, told in enumerate(self.searcher.best(len(self.searcher.history)))}
        found = []
        for one in best.values():
            rank, told = places.get(one.key, len(places)), self.searcher.history[one.index]
            lines = [
                Trained(
                    index=one.index,
                    rank=rank,
                    key=one.key,
                    arch=one.arch,
                    seed=done.seed,
                    cost=self._costs[one.number],
                    valid=done.valid,
                    failed=done.failed,
                    steps=done.steps,
                    seconds=done.seconds,
                )
                for done in self.race.trainings_of(one)
            ]
            for line in lines:
                if (line.key, line.seed) not in noted:
                    self.book.append(line)
            values = told.values if told.proposal.key == one.key else None
            found.append(finalist_of(lines, values, task.metric.name))
        return found

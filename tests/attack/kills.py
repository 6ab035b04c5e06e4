"""SIGKILL, to the command or to its workers, again and again until it is done: at random moments, and before random calls."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.attack.bench import Bench
from tests.attack.children import Child, Ended
from tests.attack.faults import calls
from tests.attack.shim import KILL, Fault
from tests.attack.tally import Outcome
from tests.attack.tiny import Job

MOST = 10  # kills of one run; then it is left to end
KILLS, RUNS = "kill -9", "runs that were killed"


def run_with_kills(bench: Bench, job: Job, most: int = MOST) -> None:
    """One run of a job, killed up to `most` times."""
    bench.reference(job)
    out, kills = bench.out(), 0
    while kills < most:
        ended = (
            _at_a_moment(bench, job, out) if job.workers or bench.rng.random() < 0.7 else _at_a_call(bench, job, out)
        )
        if not ended.killed:
            break
        kills += 1
        bench.tally.add(KILLS, Outcome.RIGHT)  # what came of it shows at the run's end
    ended = bench.children.run(job.argv(bench.base, out))
    bench.judge(RUNS, job, out, ended, f"after {kills} kills")


def run_killed_at(bench: Bench, job: Job, kind: str, places: Sequence[float]) -> None:
    """One run of a job, killed before calls of a kind, each at a share of the calls of an undisturbed run."""
    every, out = calls(bench, job, kind), bench.out()
    for place in places:
        fault = Fault(kind, max(1, int(place * every)), KILL)
        ended = bench.children.run(job.argv(bench.base, out), fault=fault, below=bench.folder)
        if ended.killed:
            bench.tally.add(KILLS, Outcome.RIGHT)
    bench.judge(RUNS, job, out, bench.children.run(job.argv(bench.base, out)), f"before {kind} at {places}")


def _at_a_moment(bench: Bench, job: Job, out: Path) -> Ended:
    after = bench.rng.uniform(0.02, 0.95) * bench.seconds[job.name]
    child = bench.children.begin(job.argv(bench.base, out))
    if not job.workers or bench.rng.random() < 0.5:
        return child.wait(kill_after=after)
    _kill_a_worker(bench, child, after)
    return child.wait()


def _at_a_call(bench: Bench, job: Job, out: Path) -> Ended:
    kind = bench.rng.choice(["write", "rename", "fsync"])
    at = bench.rng.randint(1, 60)
    return bench.children.run(job.argv(bench.base, out), fault=Fault(kind, at, KILL), below=bench.folder)


def _kill_a_worker(bench: Bench, child: Child, after: float) -> None:
    """Kill one process that the command started, if there is one by then; the command lives on."""
    time.sleep(after)
    workers = [pid for pid in child.workers() if b"spawn_main" in _command(pid)]
    if workers:
        with suppress(ProcessLookupError):
            os.kill(bench.rng.choice(workers), signal.SIGKILL)
        bench.tally.add("kill -9 of a worker", Outcome.RIGHT)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def attack(bench: Bench, jobs: Sequence[Job]) -> None:
    """Runs of all jobs in turn, as long as there is time."""
    while jobs and not bench.late:
        for job in jobs:
            if not bench.late:
                run_with_kills(bench, job)

"""SIGKILL before chosen calls of the system: the same command goes on to the same result."""

from __future__ import annotations

import pytest

from tests.attack.bench import Bench
from tests.attack.kills import KILLS, run_killed_at, run_with_kills
from tests.attack.tiny import BENCH, COMPARE, PREPARE, RACE_JOB, SEARCH_JOB, TRAIN_JOB, WARMUP, Job


@pytest.mark.usefixtures("shim")
@pytest.mark.parametrize(
    "job", [PREPARE, WARMUP, TRAIN_JOB, SEARCH_JOB, RACE_JOB, COMPARE, BENCH], ids=lambda job: job.name
)
def test_a_killed_job_goes_on_to_the_same_result(bench: Bench, job: Job):
    run_killed_at(bench, job, bench.rng.choice(["rename", "fsync"]), [0.4])
    assert bench.tally.tried(KILLS) == 1
    assert bench.tally.well, bench.tally.faults


def test_so_it_does_after_a_kill_at_any_moment(bench: Bench):
    run_with_kills(bench, TRAIN_JOB, most=3)
    assert bench.tally.well, bench.tally.faults

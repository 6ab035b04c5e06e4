"""Calls of the system that fail: a sentence or the right result, and the reference when the same command is given again."""

from __future__ import annotations

import pytest

from tests.attack.bench import Bench
from tests.attack.faults import calls, one_fault
from tests.attack.shim import Fault
from tests.attack.tally import Outcome
from tests.attack.tiny import PREPARE, SEARCH_JOB, TRAIN_JOB, Job


@pytest.mark.usefixtures("shim")
@pytest.mark.parametrize(
    ("job", "kinds"),
    [(PREPARE, {"write": "ENOSPC", "open": "EIO"}), (TRAIN_JOB, {"fsync": "EIO", "rename": "ENOSPC", "read": "EIO"})],
    ids=["prepare", "train"],
)
def test_a_call_that_fails_is_said_and_changes_nothing(bench: Bench, job: Job, kinds: dict[str, str]):
    for kind, error in kinds.items():
        every = calls(bench, job, kind)
        assert every > 5, "the shim sees nothing"
        one_fault(bench, job, Fault(kind, bench.rng.randint(1, every), error))
    assert bench.tally.well, bench.tally.faults
    refused = sum(found[Outcome.REFUSED] for found in bench.tally.counts.values())
    assert refused >= len(kinds) - 1, "hardly any fault was met"


@pytest.mark.usefixtures("shim")
def test_a_supernet_that_cannot_be_read_for_a_moment_is_not_replaced(bench: Bench):
    """One read error of a checkpoint once gave a search on random weights, with exit code 0 and another winner."""
    bench.reference(SEARCH_JOB)
    every = calls(bench, SEARCH_JOB, "read")
    for at in sorted({every // 2, bench.rng.randint(1, every)}):
        one_fault(bench, SEARCH_JOB, Fault("read", at, "EIO"))
    assert bench.tally.well, bench.tally.faults

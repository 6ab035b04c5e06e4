from __future__ import annotations

import pytest

from tests.attack.bench import Bench
from tests.attack.children import Children
from tests.attack.tiny import PREPARE, TRAIN_JOB
from tests.attack.writers import two_at_once


@pytest.fixture
def other(bench: Bench):
    with Children(bench.children.folder.with_name("other"), None) as children:
        yield children


def test_of_two_that_begin_at_once_one_writes(bench: Bench, other: Children):
    for job in (PREPARE, TRAIN_JOB):
        two_at_once(bench, other, job)
    assert bench.tally.tried("two writers") == 2
    assert bench.tally.well, "\n".join(bench.tally.faults)

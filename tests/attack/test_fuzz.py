"""What people type and what files hold, at random: an answer or a `RecnasError`, and no row is lost."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.attack.fuzz import TARGETS, Target


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_every_past_crash_is_refused(target: Target):
    for example in target.examples:
        assert target.check(example) >= 0


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_cases_at_random(target: Target):
    cases = 0

    @settings(max_examples=25, database=None, derandomize=True)
    @given(st.integers(0, 2**32))
    def check(number: int) -> None:
        nonlocal cases
        cases += target.check(target.make(random.Random(number)))

    check()
    assert cases >= 25

"""Hostile recipes, raw files and folders: nothing outside changes, nothing runs, all ends with a sentence."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.attack.bench import Bench
from tests.attack.hostile import FOLDERS, RAWS, RECIPES, Case, try_case


@pytest.mark.parametrize("cases", [RECIPES, RAWS, FOLDERS], ids=["recipes", "raw files", "folders"])
def test_nothing_leaves_the_folder_and_nothing_runs(bench: Bench, cases: Sequence[Case]):
    small = [case for case in cases if not case.large]
    for case in small:
        try_case(bench, case)
    assert bench.tally.tried("hostile files") == len(small)
    assert bench.tally.well, "\n".join(bench.tally.faults)

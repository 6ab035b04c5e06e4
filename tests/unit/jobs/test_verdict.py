"""The last lines of a search: who judged the winner."""

from __future__ import annotations

import pytest

from recnas.jobs.verdict import verdict


@pytest.mark.parametrize(
    ("values", "combine", "said"),
    [
        ({"sigeo": 12.3456789}, "pareto", "by sigeo (12.346) it was number 2"),
        ({"sigeo": 1.0, "naswot": 2.0}, "vote", "in the vote of sigeo, naswot it was number 2"),
        ({"sigeo": 1.0, "macs": 2.0}, "pareto", "by the front of sigeo, macs it was number 2"),
    ],
)
def test_the_rank_is_said_with_what_ranked(values, combine, said):
    result = {
        "best": {"key": "k", "params": 10, "macs": 20, "index": 3, "rank": 1, "values": values},
        "test": {"logloss": 0.5, "std": None},
        "valid": {"logloss": 0.4},
        "budgets": {"proposed": 8, "scored": 7, "trained": 3},
        "combine": combine,
        "seconds": {"search": 60.0},
    }
    assert said in verdict(result)

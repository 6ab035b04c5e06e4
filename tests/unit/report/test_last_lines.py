"""The last lines of a search: who judged the winner."""

from __future__ import annotations

import pytest

from recnas.report.last_lines import verdict
from recnas.runs.search_result import Budget, SearchResult, Winner


@pytest.mark.parametrize(
    ("values", "combine", "said"),
    [
        ({"sigeo": 12.3456789}, "pareto", "place 2 of 6 by sigeo (12.346)"),
        ({"sigeo": 1.0, "naswot": 2.0}, "vote", "place 2 of 6 by vote of sigeo, naswot"),
        ({"sigeo": 1.0, "macs": 2.0}, "pareto", "place 2 of 6 on the front of sigeo, macs"),
    ],
)
def test_the_rank_is_said_with_what_ranked(values, combine, said):
    assert said in verdict(result(values, combine))


def test_a_winner_that_only_guesses_is_called_that():
    assert "not better" not in verdict(result({"sigeo": 1.0}, normalized_entropy=0.999))
    said = verdict(result({"sigeo": 1.0}, normalized_entropy=1.024))
    assert "warning: the winner is not better than always predicting the click rate (1.024 times that loss)\n" in said
    assert "all rows have the same label" in verdict(result({"sigeo": 1.0}, normalized_entropy=None))


def result(values, combine="pareto", normalized_entropy=0.9) -> SearchResult:
    return SearchResult(
        task="ctr",
        method="evolution",
        metric="logloss",
        winner=Winner(key="k", index=3, rank=1, arch={}, values=values, cost={"params": 10, "macs": 20}),
        valid={"logloss": 0.4},
        test={"logloss": 0.5, "auc": 0.7, "normalized_entropy": normalized_entropy},
        objectives=dict.fromkeys(values, "max"),
        combine=combine,
        seeds={"search": 0},
        budget=Budget(proposed=8, scored=7, failed=1, trained=3),
        seconds={"search": 60.0},
        data="f",
    )

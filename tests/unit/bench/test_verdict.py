"""What a race says in its last sentence."""

from __future__ import annotations

from typing import Any

import pytest

from recnas.bench.verdict import race_verdict
from recnas.runs.records import PairedDifference
from recnas.runs.search_result import HandCrafted, RaceResult

RACE: dict[str, Any] = {"entrants": 9, "architectures": 9, "trainings": 9, "whole": 2, "budget_rows": 9, "trained_rows": 9, "recipe": {}, "why": "search"}  # fmt: skip


def said(difference: tuple[float, float, float] | None, flops: float = 8.0, cut: bool = False, **race: Any) -> str:
    paired = None
    if difference is not None:
        value, low, high = difference
        paired = PairedDifference(
            logloss=value,
            logloss_interval=(low, high),
            auc=None,
            auc_interval=None,
            real=not low <= 0 <= high,
            resamples=9,
            level=0.95,
        )
    known = HandCrafted(
        name="dcn-v2", key="k", arch={}, valid=0.45, cut=cut, cost={"flops": 10.0, "embedding_mb": 3.0}, latency={"latency_ms_512": 2.0},
        difference=paired,
    )  # fmt: skip
    result = RaceResult(**{**RACE, "latency": {"latency_ms_512": 1.5}, **race})
    return race_verdict(known, result, {"flops": flops, "embedding_mb": 6.0}, 0.45)


def test_a_lead_beyond_the_interval_is_a_lead():
    assert said((-0.0021, -0.003, -0.001)) == (
        "better than dcn-v2 by 0.00210 [+0.00100, +0.00300] on validation, at 0.8 times its FLOPs, 1.5 ms against 2 ms for 512 rows, "
        "tables of 6 MB against 3 MB"
    )
    assert "the budget ended the training of dcn-v2" in said((-0.0021, -0.003, -0.001), cut=True)


@pytest.mark.parametrize(
    ("flops", "begins"), [(8.0, "keep dcn-v2, or take the winner for its cost: "), (21.0, "keep dcn-v2: ")]
)
def test_a_lead_that_may_be_chance_is_none(flops: float, begins: str):
    found = said((-0.0004, -0.0014, 0.0006), flops)
    assert found.startswith(
        f"{begins}the winner's lead of 0.00040 [-0.00060, +0.00140] on validation may be chance, at "
    )


def test_a_hand_crafted_winner_is_kept():
    assert (
        said(None, searched_valid=0.4512, name="dcn-v2")
        == "keep dcn-v2: the best searched network is behind it by 0.00120 on validation"
    )
    assert said(None, name="dcn-v2") == "keep dcn-v2: no searched network came to the end of the race"

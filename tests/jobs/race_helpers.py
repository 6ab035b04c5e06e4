"""A search with a race, small enough for a test."""

from __future__ import annotations

from typing import Any

from recnas.tasks.settings import CtrSearchConfig
from tests.jobs.search_helpers import small_search

PLUS = {"name": "nasrec-plus", "blocks": 2}
RACE = {"budget": 8, "rungs": [0.5, 1], "eta": 2, "brackets": 1}


def small_race(data: Any, race: dict[str, Any] | None = None, **changes: Any) -> CtrSearchConfig:
    """Three seeds and six candidates; trainings of at most three passes."""
    settings = {
        "space": PLUS,
        "search": {
            "method": "random",
            "candidates": 9,
            "seeds": ["lr", "fm", "fwfm"],
        },
        "final": {
            "train": {"epochs": 3, "batch_size": 128, "stop": {"patience": 1}, "checkpoint_seconds": 0.2},
            "race": {**RACE, **(race or {})},
        },
    }
    return small_search(data, **{**settings, **changes})

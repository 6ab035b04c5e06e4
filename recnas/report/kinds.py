"""Words for the different searches, the same in `recnas watch` and in reports: phases, units, methods."""

from __future__ import annotations

from collections.abc import Sequence

from recnas.runs.run import SEARCH, Run

GRADIENT = {"nasi": "steps", "darts": "epochs"}  # methods that train on a supernet and read an architecture off it
_TITLES = {
    "warmup": "warm up",
    "search": "score candidates",
    "finalists": "train finalists",
    "winner": "retrain the winner",
}
_OF_A_RACE = {"finalists": "race, rows", "winner": "read test"}


def is_gradient(run: Run) -> bool:
    """Whether an architecture was read off a supernet; such a search has no candidates to choose from."""
    return run.is_search and run.method in GRADIENT


def unit_of(run: Run) -> str:
    """What a search counts."""
    return GRADIENT.get(run.method, "candidates")


def phase_title(run: Run, name: str) -> str:
    if run.races and name in _OF_A_RACE:
        return _OF_A_RACE[name]
    if name != SEARCH:
        return _TITLES.get(name, name)
    if is_gradient(run):
        return f"search, by {unit_of(run)}"
    if run.task == "table":
        return "look candidates up"
    return "train candidates" if run.setting("evaluator") == "training" else _TITLES[name]


def example_word(runs: Sequence[Run]) -> str:
    """What a network reads at a time, and FLOPs are counted for."""
    return "image" if runs and all(run.task in ("images", "table") for run in runs) else "row"

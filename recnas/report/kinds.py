"""What kind of search a config asks for, as far as showing one needs it: phases, how much there is to do, who leads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recnas.searchers.objective import Objectives

PLACE = "place by vote"  # what candidates of a vote are shown by; 1 is the best
ONE_SHOT = ("nasi", "darts")  # methods that train one supernet and read an architecture off it

Config = Mapping[str, Any]


def method_of(config: Config) -> str:
    return str((config.get("search") or {}).get("method", ""))


def is_one_shot(config: Config) -> bool:
    return method_of(config) in ONE_SHOT


def predicts_clicks(config: Config) -> bool:
    """On prepared data; searches of vision spaces name images or a table instead."""
    return "data" in config


def phases_of(config: Config) -> tuple[str, ...]:
    """The phases of a search in order; without a supernet there is no warm-up, on a table nothing is trained."""
    if "query" in config or is_one_shot(config):
        return ("search",)
    return ("warmup", "search", "top", "best") if predicts_clicks(config) else ("search", "top", "best")


def total_of(config: Config) -> int | None:
    """How many candidates a search proposes; of one on a supernet, how many steps or epochs it has."""
    chosen = (config.get("search") or {}).get(method_of(config)) or {}
    if "population" in chosen:
        return int(chosen["population"] + chosen["generations"] * chosen["children"])
    return next((int(chosen[name]) for name in ("candidates", "steps", "epochs") if name in chosen), None)


def unit_of(config: Config) -> str:
    """What `total_of` counts."""
    return {"nasi": "steps", "darts": "epochs"}.get(method_of(config), "candidates")


def vote_places(candidates: Sequence[Mapping[str, Any]], directions: Mapping[str, str]) -> list[int | None]:
    """The place of each candidate in the vote over all of these; None for failed ones and repeats."""
    voted = [c for c in candidates if c.get("values") and c.get("same_as") is None]
    places = iter(Objectives.of(directions, "vote").places([c["values"] for c in voted]) if voted else ())
    return [next(places) if c.get("values") and c.get("same_as") is None else None for c in candidates]

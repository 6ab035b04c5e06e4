"""Two starts of one run: which settings differ, in words, and where the data of a run are now."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from recnas.errors import RunError
from recnas.files import read_json

# Where things lie and how often a checkpoint is written change no figure, and the device none beyond rounding: a run
# may go on with others.
MAY_DIFFER = (
    "data.path",
    "data.absolute",
    "data.relative",
    "config.data",
    "config.table",
    "config.scores",
    "config.images.path",
    "*.checkpoint_seconds",
    "*.device",
    "config.track",
)
# They follow from the config, which is compared; a reader should not need the settings' classes to know them.
_FOLLOW = (
    "objectives.*",
    "directions.*",
    "metric.*",
    "combine",
    "proposals",
    "phases",
    "task",
    "race_rows",
    "decidable*",
)
_LONGEST = 60  # characters of a value that are shown
_ABSENT = object()


def data_facts(path: Path | str, fingerprint: str, out: Path | str) -> dict[str, str]:
    """What a manifest says of prepared data: the fingerprint, and every way to find them again."""
    there = os.path.realpath(path)
    return {
        "path": str(path),
        "absolute": there,
        "relative": os.path.relpath(there, os.path.realpath(out)),
        "fingerprint": fingerprint,
    }


def find_data(run: Path, facts: Mapping[str, Any]) -> Path:
    """Where the data of a run are: of the places its manifest names, the one that holds that fingerprint.

    The path as it was typed if none does; opening it says what is wrong.
    """
    typed = str(facts.get("path", ""))
    places = [Path(typed)]
    absolute, relative = facts.get("absolute"), facts.get("relative")
    if isinstance(absolute, str) and isinstance(relative, str):
        places += [Path(absolute), run / relative]
    for place in places:
        try:
            found = read_json(place / "manifest.json")
        except (OSError, ValueError, RunError):
            continue
        if isinstance(found, dict) and found.get("fingerprint") == facts.get("fingerprint"):
            return place
    return places[0]


def differences(before: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """`final.candidates was 3, now 2` for every setting of `wanted` that is another one in `before`."""
    wanted = json.loads(json.dumps(dict(wanted)))
    lines = []
    for name, now in wanted.items():
        was = before.get(name, _ABSENT)
        if name == "data" and isinstance(was, dict) and isinstance(now, dict):
            lines += _other_data(was, now)
            continue
        for path, old, new in _leaves(name, was, now):
            if not any(fnmatch(path, free) for free in (*MAY_DIFFER, *_FOLLOW)):
                lines.append(_line(path, old, new))
    return lines


def _other_data(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The fingerprint names data; a path alone does not."""
    if was.get("fingerprint") == now.get("fingerprint"):
        return []
    shown = [f"{one.get('path', 'data')} (fingerprint {str(one.get('fingerprint'))[:12]})" for one in (was, now)]
    return [f"the data were {shown[0]}, now {shown[1]}"]


def _leaves(path: str, was: Any, now: Any) -> Iterator[tuple[str, Any, Any]]:
    """Dotted paths whose values differ."""
    if isinstance(was, dict) and isinstance(now, dict):
        for name in [*was, *(name for name in now if name not in was)]:
            yield from _leaves(f"{path}.{name}", was.get(name, _ABSENT), now.get(name, _ABSENT))
    elif was != now:
        yield path, was, now


def _line(path: str, was: Any, now: Any) -> str:
    # Users type `final.candidates=2`; which part of the manifest it is kept in is ours to know.
    name = path.removeprefix("config.").removeprefix("settings.")
    old, new = _shown(was), _shown(now)
    return f"{name} was {old}, now {new}" if max(len(old), len(new)) <= _LONGEST else f"{name} is another one"


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "not there"
    return value if isinstance(value, str) else json.dumps(value)

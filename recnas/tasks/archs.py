"""The architecture a user names: ARCH.json, RUN:best (of a search or a training) or RUN:NUMBER (a candidate)."""

from __future__ import annotations

from pathlib import Path

from recnas.errors import RunError, SpaceError
from recnas.runs.folder import RunDir
from recnas.runs.layout import WINNER_FILE
from recnas.space.nasrec.arch import NasrecArch
from recnas.space.nasrec.json import from_dict, load_arch

FORMS = "ARCH.json, RUN:best or RUN:NUMBER"


def named_arch(name: str) -> NasrecArch:
    """The architecture that `name` stands for.

    Raises:
        SpaceError: there is no such file, or it holds something else.
        RunError: there is no such run, it is not finished, or it has no such candidate.
    """
    path = Path(name)
    if path.is_file():
        return load_arch(path)
    if path.is_dir():
        raise SpaceError(f"{name} is a folder, and an architecture is needed.", f"For the winner of a run: {name}:best")
    run, colon, which = name.rpartition(":")
    if colon and run:
        return _of_run(RunDir.open(run), which)
    raise SpaceError(f"There is no architecture file {name}.", f"Check the path, or name one by {FORMS}.")


def _of_run(run: RunDir, which: str) -> NasrecArch:
    manifest = run.manifest()
    if which == "best" and manifest["kind"] == "train":
        return from_dict(manifest["arch"])
    if manifest["kind"] != "search":
        raise RunError(
            f"{run.path} is the folder of a {manifest['kind']} run; it holds no architecture {which!r}.",
            f"Name a search, a training or a file: {FORMS}.",
        )
    if which == "best":
        if not (run.path / WINNER_FILE).exists():
            raise RunError(f"{run.path} has no winner yet.", f"Continue it: recnas search --resume {run.path}")
        return load_arch(run.path / WINNER_FILE)
    candidates = [event for event in run.ledger.read() if event.get("event") == "candidate"]
    for event in candidates:
        if which.isdigit() and event.get("index") == int(which) - 1 and "arch" in event:
            return from_dict(event["arch"])
    has = f"it has candidates 1 to {len(candidates)}" if candidates else "it has no candidates yet"
    raise RunError(f"{run.path} has no architecture {which!r}; {has}.", f"Write {run.path}:best or {run.path}:1")

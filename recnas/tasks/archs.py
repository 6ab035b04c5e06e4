"""The architecture a user names: ARCH.json, RUN:best (of a search or a training), RUN:NUMBER (a candidate) or a published one."""

from __future__ import annotations

from pathlib import Path

from recnas.errors import RunError, SpaceError
from recnas.resources import resource_dir
from recnas.runs.read import read_run
from recnas.runs.run import CTR, Run
from recnas.space.nasrec.arch import NasrecArch
from recnas.space.nasrec.json import from_dict, load_arch

FORMS = "ARCH.json, RUN:best or RUN:NUMBER"


def published() -> dict[str, Path]:
    """The shipped architectures of others, by name; where they come from is said beside them."""
    return {path.stem: path for path in sorted((resource_dir("configs") / "published").glob("*.json"))}


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
    if name in (shipped := published()):
        return load_arch(shipped[name])
    run, colon, which = name.rpartition(":")
    if colon and run:
        return _of_run(read_run(run), which)
    raise SpaceError(
        f"There is no architecture file {name}.",
        f"Check the path, or name one by {FORMS}. Published: {', '.join(shipped)}.",
    )


def _of_run(run: Run, which: str) -> NasrecArch:
    if run.kind not in ("search", "train"):
        raise RunError(
            f"{run.path} is the folder of a {run.kind} run; it holds no architecture {which!r}.",
            f"Name a search, a training or a file: {FORMS}.",
        )
    check_clicks(run)
    if which == "best":
        if run.winner_arch is None:
            raise RunError(f"{run.path} has no winner yet.", f"Continue it: recnas search --resume {run.path}")
        return from_dict(run.winner_arch)
    candidate = run.by_index.get(int(which) - 1) if which.isdecimal() else None
    if candidate is not None:
        return from_dict(candidate.arch)
    has = f"it has candidates 1 to {len(run.candidates)}" if run.candidates else "it has no candidates yet"
    raise RunError(f"{run.path} has no architecture {which!r}; {has}.", f"Write {run.path}:best or {run.path}:1")


def check_clicks(run: Run) -> None:
    """Refuse networks that read images where a click model is needed."""
    if run.task != CTR:
        raise RunError(
            f"{run.path} is a search of the task {run.task}; its networks read images and predict no clicks.",
            f"To see its winner: recnas draw {run.path}:best -o best.svg",
        )

"""From the ledger of a run to trackers, while it is written or afterwards.

    with tracking(["tensorboard"], "runs/first"):
        search(...)

Whatever a tracker keeps lies beside the run, in runs/track/NAME: in it, it would be a part of what is checked and sealed. How
many lines a tracker has been sent is noted there too, so a run that goes on, or that is sent again, sends what is new. A
tracker that is not installed, or fails, is told of in one sentence; the run goes on without it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from recnas.errors import ConfigError, RecnasError
from recnas.files import read_json
from recnas.runs.folder import RunDir
from recnas.runs.following import followed_by
from recnas.runs.layout import LEDGER, MANIFEST
from recnas.runs.records import KINDS, read_lines
from recnas.track.base import TrackedRun, Tracker, TrackerName, flat
from recnas.track.points import Points

# By name: the class, the package that must be there, and the extra that brings it.
TRACKERS: dict[TrackerName, tuple[str, str, str]] = {
    "tensorboard": ("recnas.track.tensorboard:TensorBoard", "tensorboard", "tensorboard"),
    "mlflow": ("recnas.track.mlflow:MLflow", "mlflow", "mlflow"),
    "wandb": ("recnas.track.wandb:WandB", "wandb", "wandb"),
}
_IS_THE_RUN = ("config", "settings", "seed", "first_seed", "tune", "threads", "task", "models")


class Sending:
    """One tracker and one run, with the runs in it.

    Args:
        place: where trackers keep the runs of this place.
        say: told the one sentence if it fails.
    """

    def __init__(self, name: TrackerName, run: Path, place: Path, say: Callable[[str], None]) -> None:
        self.name, self.run, self.say = name, run, say
        self.folder = place / name
        self._state_file = self.folder / f".recnas-{run.name}.json"
        self._tracker: Tracker | None = None
        self._points: dict[str, Points] = {}
        self._kinds: dict[Path, str] = {}
        self._state: dict[str, Any] = {}
        self.failed = False

    def lines(self, run: Path, lines: Sequence[dict[str, Any]], first: int) -> None:
        """Lines of the run, or of a run in it; `first` is the number of the first of them."""
        if self.failed:
            return
        try:
            self._send(run, lines, first)
        except Exception as error:  # whatever others' code raises
            self._fail(error)

    def end(self) -> None:
        if self._tracker is not None and not self.failed:
            try:
                self._tracker.end()
            except Exception as error:
                self._fail(error)

    def _send(self, run: Path, lines: Sequence[dict[str, Any]], first: int) -> None:
        if self._tracker is None:
            self._begin()
        inside = "" if run == self.run else run.relative_to(self.run).as_posix()
        sent = self._state["lines"].get(inside, 0)
        if first == 0:  # from the beginning, with places counted anew; a repaired ledger has fewer lines than it had
            self._points[inside] = Points(f"{inside}/" if inside else "")
            sent = min(sent, len(lines))
        points = self._points[inside]
        if run not in self._kinds:
            self._kinds[run] = RunDir(run).manifest()["kind"]
        kind = self._kinds[run]
        records = read_lines(kind, lines, str(run / LEDGER)) if kind in KINDS else []
        found = [(first + number, points.of(record)) for number, record in enumerate(records)]
        new = [point for number, some in found if number >= sent for point in some]
        if new and self._tracker is not None:
            self._tracker.send(new)
        self._state["lines"][inside] = max(sent, first + len(lines))
        self._note()

    def _begin(self) -> None:
        self._state = {"lines": {}}
        with suppress(OSError, ValueError, RecnasError):
            self._state = read_json(self._state_file)
        manifest = RunDir(self.run).manifest()
        started = self._state.get("started")
        if started != manifest["check"]:  # another run had this name
            self._state = {"lines": {}, "started": manifest["check"]}
        settings = flat({key: manifest[key] for key in _IS_THE_RUN if key in manifest})
        self.folder.mkdir(parents=True, exist_ok=True)
        module, _, name = TRACKERS[self.name][0].partition(":")
        tracker: Tracker = getattr(import_module(module), name)()
        known = self._state.get("known")
        self._state["known"] = tracker.begin(TrackedRun(self.run.name, manifest["kind"], settings, self.folder, known))
        self._tracker = tracker

    def _note(self) -> None:
        part = self._state_file.with_suffix(".part")
        part.write_text(json.dumps(self._state))
        part.replace(self._state_file)

    def _fail(self, error: Exception) -> None:
        self.failed = True
        _, package, extra = TRACKERS[self.name]
        if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] == package:
            why = f"it is not installed (pip install 'recnas[{extra}]')"
        else:
            why = f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"
        self.say(
            f"note: {self.name} cannot be told of the run: {why}. Once that is mended: recnas track {self.run} --to {self.name}"
        )


class Trackers:
    """Follows a run for several trackers."""

    def __init__(self, sendings: Iterable[Sending]) -> None:
        self.sendings = list(sendings)
        self._count: dict[Path, int] = {}

    def opened(self, run: Path, lines: list[dict[str, Any]]) -> None:
        run = run.absolute()
        self._count[run] = len(lines)
        for sending in self._of(run):
            sending.lines(run, lines, 0)

    def appended(self, run: Path, line: dict[str, Any]) -> None:
        run = run.absolute()
        number = self._count[run]
        self._count[run] = number + 1
        for sending in self._of(run):
            sending.lines(run, [line], number)

    def _of(self, run: Path) -> list[Sending]:
        return [one for one in self.sendings if run == one.run or one.run in run.parents]

    def end(self) -> None:
        for sending in self.sendings:
            sending.end()


@contextmanager
def tracking(
    names: Sequence[str], out: Path | str, say: Callable[[str], None], place: Path | str | None = None
) -> Iterator[None]:
    """Within, trackers are told of what is written into the run `out`."""
    trackers = _trackers(names, out, say, place)
    with followed_by(trackers) if trackers.sendings else nullcontext():
        try:
            yield
        finally:
            trackers.end()


def send_run(name: str, path: Path | str, place: Path | str | None = None, say: Callable[[str], None] = print) -> bool:
    """Send what is there of a run and of those in it; whether it arrived."""
    run = RunDir.open(path)
    trackers = _trackers([name], path, say, place)
    inside = (found.parent for found in sorted(run.path.absolute().rglob(MANIFEST)) if (found.parent / LEDGER).exists())
    for folder in inside:
        trackers.opened(folder, RunDir(folder).ledger.read())
    trackers.end()
    return not any(sending.failed for sending in trackers.sendings)


def _trackers(names: Sequence[str], out: Path | str, say: Callable[[str], None], place: Path | str | None) -> Trackers:
    run = Path(out).absolute()
    where = run.parent / "track" if place is None else Path(place).absolute()
    return Trackers(Sending(_known(name), run, where, say) for name in dict.fromkeys(names))


def _known(name: str) -> TrackerName:
    from recnas.config import nearest

    for one in TRACKERS:
        if one == name:
            return one
    raise ConfigError(f"there is no tracker {name!r}; {nearest(name, TRACKERS)}", f"Choose of: {', '.join(TRACKERS)}")

"""A run directory: what was asked for, what happened, and nothing lost on a crash.

    manifest.json   seed, settings, versions, data fingerprint; written once, atomically
    ledger.jsonl    one JSON object per event, append only, on disk before the next step starts
    checkpoints/    weights and optimizer state, each file written beside its name and renamed
    .lock           held by the one process that writes

Every report is a pure function of this folder, and a search resumes by replaying the ledger.
"""

from __future__ import annotations

import difflib
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from recnas.errors import RunError
from recnas.files import make_folder, read_json, refuse_links, sweep, write_json
from recnas.locks import lock
from recnas.plugins import require, used_by
from recnas.runs.checks import has_check, with_check
from recnas.runs.following import follower
from recnas.runs.identity import differences, find_data
from recnas.runs.layout import LEDGER
from recnas.runs.ledger import Ledger
from recnas.runs.seal import seal, unseal

FORMAT = 1  # raised when an older reader could misread a newer folder
_PACKAGES = ("recnas", "torch", "torchrec", "fbgemm-gpu", "numpy", "pyarrow", "scikit-learn")


def versions() -> dict[str, str]:
    """Versions that can change a result, from package metadata, without importing anything."""
    found = {"python": platform.python_version(), "platform": f"{sys.platform}-{platform.machine()}"}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "missing"
    return found


_PATIENCE = 1.0  # seconds: whoever only compares settings with those of a run holds it for less


def _wait_for(handle: int) -> None:
    """Two that begin at once: the one that finds the other's settings and gives up must not keep that one from writing."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return lock(handle)
        except BlockingIOError:
            if time.monotonic() > until:
                raise
        time.sleep(0.02)


class FolderLock:
    """An advisory lock on a folder, released by the system even when the process is killed.

    Whoever holds it may write: there are no links in the folder that lead elsewhere, and what writers that were killed left
    half-done is gone.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / ".lock"
        self._file: IO[str] | None = None

    def __enter__(self) -> FolderLock:
        make_folder(self.path.parent)
        refuse_links(self.path.parent)
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        file = os.fdopen(handle, "r+")  # held open for the life of the lock
        try:
            _wait_for(file.fileno())
        except BlockingIOError:
            holder = file.read(20).strip() or "unknown"
            file.close()
            raise RunError(
                f"{self.path.parent} is being written by another process (pid {holder}).",
                "Wait for it to finish, or stop it; then run the same command again.",
            ) from None
        except BaseException:
            file.close()
            raise
        self._file = file
        try:
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            sweep(self.path.parent)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class RunDir:
    """One run on disk. Use `create` for a new one, `open` for an existing one.

    Writing needs the lock:  `with run.locked(): run.ledger.append({...})`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ledger = Ledger(path / LEDGER)

    @property
    def manifest_path(self) -> Path:
        return self.path / "manifest.json"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @classmethod
    def create(cls, path: Path | str, kind: str, *, names: Sequence[str] = (), **facts: Any) -> RunDir:
        """Make a run directory; the same path with the same facts is simply opened again.

        Which plugins `facts` and `names` name parts of is kept with it; others, or other versions, are refused later.
        """
        run = cls(Path(path))
        plugins = used_by([facts, list(names)])
        # Two that begin at once: one writes the manifest, the other finds it and compares.
        with FolderLock(run.path):
            if run.manifest_path.exists():
                run.check(kind, **facts)
                run._check_plugins(plugins)
                return run
            if any(p.name != ".lock" for p in run.path.iterdir()):
                raise RunError(f"{run.path} exists and is not a recnas run.", "Choose another --out.")
            made_with = {"plugins": plugins} if plugins else {}
            about = {"format": FORMAT, "kind": kind, **facts, **made_with, "versions": versions()}
            write_json(run.manifest_path, with_check(about))
        return run

    @classmethod
    def open(cls, path: Path | str) -> RunDir:
        run = cls(Path(path))
        run.manifest()
        return run

    def manifest(self) -> dict[str, Any]:
        try:
            manifest = read_json(self.manifest_path)
        except (FileNotFoundError, NotADirectoryError):
            raise self._no_run() from None
        except ValueError:
            raise self._damaged("it is not JSON") from None
        if not isinstance(manifest, dict):
            raise self._damaged("it is no JSON object")
        if "kind" not in manifest and "fingerprint" in manifest:
            raise RunError(
                f"{self.path} is a prepared data set, not a run.",
                f"Name a folder that a recnas command wrote with --out. To look at the data: recnas inspect {self.path}",
            )
        if manifest.get("format") != FORMAT:
            raise RunError(
                f"{self.path} was written by another version of recnas (format {manifest.get('format')}, this one reads {FORMAT})."
            )
        if not has_check(manifest):
            raise self._damaged("its content does not have its checksum")
        return manifest

    def _damaged(self, why: str) -> RunError:
        return RunError(
            f"{self.manifest_path} is damaged or was changed: {why}.",
            "Restore it from a copy; without it nobody can tell what the run is. Or start a new run directory.",
        )

    def _no_run(self) -> RunError:
        """Why there is no manifest here, and where the nearest one is."""
        made = "Runs are the folders that commands write with --out, such as: recnas search CONFIG --out RUN"
        if self.path.is_dir():
            inside = sorted(found.parent for found in self.path.glob("*/manifest.json"))
            hint = f"It holds: {', '.join(map(str, inside[:5]))}" if inside else made
            return RunError(f"{self.path} is not a run directory: it has no manifest.json.", hint)
        if self.path.exists():
            return RunError(f"{self.path} is a file, and a run directory is needed.", made)
        beside = {found.parent.name: found.parent for found in self.path.parent.glob("*/manifest.json")}
        close = difflib.get_close_matches(self.path.name, beside, n=1)
        hint = f"Did you mean {beside[close[0]]}?" if close else made
        return RunError(f"There is no run directory {self.path}.", hint)

    def data_path(self) -> Path:
        """Where the prepared data of this run are now, from whatever folder it is asked."""
        return find_data(self.path, self.manifest().get("data") or {})

    def check(self, kind: str, **facts: Any) -> None:
        """Refuse to continue a run that was started from something else."""
        manifest = self.manifest()
        if manifest.get("kind") != kind:
            raise RunError(
                f"{self.path} is the folder of a {manifest.get('kind')} run, not of a {kind} run.",
                f"Name a folder that recnas {kind} wrote; for a new run choose another --out.",
            )
        if different := differences(manifest, facts):
            raise RunError(
                f"{self.path} holds another run: {'; '.join(different)}.",
                "Choose another --out, or repeat the command the run was started with.",
            )

    def _check_plugins(self, now: dict[str, str]) -> None:
        before = self.manifest().get("plugins", {})
        require({"plugins": {name: version for name, version in before.items() if name in now}}, self.path)
        if added := [name for name in now if name not in before]:
            raise RunError(
                f"{self.path} was begun without the plugin {', '.join(added)}, and now it would use a part of it.",
                "Choose another --out.",
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else writes meanwhile; the ledger is closed at the end, however that comes."""
        with FolderLock(self.path):
            unseal(self.path)
            if (one := follower()) is not None:
                one.opened(self.path, self.ledger.read())
                self.ledger.appended = lambda line: one.appended(self.path, line)
            try:
                yield
            finally:
                self.ledger.close()
                self.ledger.appended = None
            seal(self.path)

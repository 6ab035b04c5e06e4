"""A run directory: what was asked for, what happened, and nothing lost on a crash.

    manifest.json   seed, settings, versions, data fingerprint; written once, atomically
    ledger.jsonl    one JSON object per event, append only, on disk before the next step starts
    checkpoints/    weights and optimizer state, each file written beside its name and renamed
    .lock           held by the one process that writes

Every report is a pure function of this folder, and a search resumes by replaying the ledger.
"""

from __future__ import annotations

import difflib
import fcntl
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from recnas.errors import RunError
from recnas.files import make_folder
from recnas.runs.identity import differences, find_data

FORMAT = 1  # raised when an older reader could misread a newer folder
_PACKAGES = ("recnas", "torch", "torchrec", "fbgemm-gpu", "numpy", "pyarrow", "scikit-learn")


def write_atomic(path: Path, write: Callable[[IO[bytes]], None]) -> None:
    """Write a file so that a reader sees the old content or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part-{os.getpid()}")
    try:
        with open(part, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    fsync_folder(path.parent)


def write_json(path: Path, value: Any) -> None:
    text = json.dumps(value, indent=1, allow_nan=False) + "\n"

    def write(file: IO[bytes]) -> None:
        file.write(text.encode())

    write_atomic(path, write)


def fsync_folder(folder: Path) -> None:
    """Make a rename within the folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def versions() -> dict[str, str]:
    """Versions that can change a result, from package metadata, without importing anything."""
    found = {"python": platform.python_version(), "platform": f"{sys.platform}-{platform.machine()}"}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "missing"
    return found


class FolderLock:
    """An advisory lock on a folder, released by the system even when the process is killed."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / ".lock"
        self._file: IO[str] | None = None

    def __enter__(self) -> FolderLock:
        make_folder(self.path.parent)
        file = open(self.path, "a+")  # held open for the life of the lock
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            file.close()
            raise RunError(
                f"{self.path.parent} is being written by another process (pid {holder}).",
                "Wait for it to finish, or stop it; then run the same command again.",
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        self._file = file
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class Ledger:
    """An append-only file of JSON lines. A line that a crash cut short is dropped on the next open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[bytes] | None = None

    def read(self) -> list[dict[str, Any]]:
        return list(self._events(drop_torn_tail=False))

    def append(self, event: dict[str, Any]) -> None:
        """Add one event; it is on disk when this returns."""
        if self._file is None:
            for _ in self._events(drop_torn_tail=True):
                pass
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(self.path, "ab")  # noqa: SIM115 - closed by close()
        self._file.write(json.dumps(event, separators=(",", ":"), allow_nan=False).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _events(self, drop_torn_tail: bool) -> Iterator[dict[str, Any]]:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return
        good = 0
        for number, line in enumerate(data.splitlines(keepends=True), start=1):
            is_last = good + len(line) == len(data)
            try:
                event = json.loads(line)
                torn = not line.endswith(b"\n") or not isinstance(event, dict)
            except ValueError:
                torn = True
            if torn:
                if is_last:
                    break
                raise RunError(
                    f"{self.path} line {number} is not a JSON object; only a last line can be cut short by a crash, "
                    "so the file was changed by something else.",
                    "Restore the file, or start a new run directory.",
                )
            good += len(line)
            yield event
        if drop_torn_tail and good < len(data):
            with open(self.path, "r+b") as file:
                file.truncate(good)


class RunDir:
    """One run on disk. Use `create` for a new one, `open` for an existing one.

    Writing needs the lock:  `with run.locked(): run.ledger.append({...})`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ledger = Ledger(path / "ledger.jsonl")

    @property
    def manifest_path(self) -> Path:
        return self.path / "manifest.json"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @classmethod
    def create(cls, path: Path | str, kind: str, **facts: Any) -> RunDir:
        """Make a run directory; the same path with the same facts is simply opened again."""
        run = cls(Path(path))
        make_folder(run.path)
        if run.manifest_path.exists():
            run.check(kind, **facts)
            return run
        if any(p.name != ".lock" for p in run.path.iterdir()):
            raise RunError(f"{run.path} exists and is not a recnas run.", "Choose another --out.")
        manifest = {"format": FORMAT, "kind": kind, **facts, "versions": versions()}
        write_json(run.manifest_path, manifest)
        return run

    @classmethod
    def open(cls, path: Path | str) -> RunDir:
        run = cls(Path(path))
        run.manifest()
        return run

    def manifest(self) -> dict[str, Any]:
        try:
            manifest = json.loads(self.manifest_path.read_text())
        except (FileNotFoundError, NotADirectoryError):
            raise self._no_run() from None
        except ValueError:
            raise RunError(f"{self.manifest_path} is damaged: it is not JSON.") from None
        if "kind" not in manifest and "fingerprint" in manifest:
            raise RunError(
                f"{self.path} is a prepared data set, not a run.",
                f"Name a folder that a recnas command wrote with --out. To look at the data: recnas inspect {self.path}",
            )
        if manifest.get("format") != FORMAT:
            raise RunError(
                f"{self.path} was written by another version of recnas (format {manifest.get('format')}, this one reads {FORMAT})."
            )
        return manifest

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

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else writes meanwhile; the ledger is closed at the end, however that comes."""
        with FolderLock(self.path):
            try:
                yield
            finally:
                self.ledger.close()

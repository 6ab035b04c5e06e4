"""Files that were found to be what the manifest says: not read again while size and time stamp stay.

DIR/.verified.json   by file: size, time stamp in nanoseconds, checksum. Only a saving of time: without it, or where it does not
fit, a file is read once and compared. What changes a file and leaves both as they were, such as a failing disk, only
`recnas verify` finds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from recnas.errors import DataError
from recnas.files import read_json, sha256_file, write_json

NAME = ".verified.json"
_seen: dict[tuple[str, str], list[Any]] = {}  # in this process


def remember(folder: Path, checksums: Mapping[str, str]) -> None:
    """Files that were hashed just now."""
    write_json(folder / NAME, {name: [*_stamp(folder / name), digest] for name, digest in checksums.items()})


def check_files(folder: Path, names: Iterable[str], checksums: Mapping[str, str]) -> None:
    """Compare files with their checksums, each once.

    Raises:
        DataError: one was changed, or is not listed.
    """
    todo = [name for name in names if _seen.get((str(folder), name)) != _entry(folder, name, checksums)]
    if not todo:
        return
    known = _read(folder)
    fresh = {}
    for name in todo:
        entry = _entry(folder, name, checksums)
        if known.get(name) != entry:
            if sha256_file(folder / name) != checksums[name]:
                raise DataError(
                    f"{folder / name} is not what was prepared: it was changed or damaged since.",
                    f"See what else was: recnas verify {folder}. Restore it from a copy, or prepare the data again.",
                )
            fresh[name] = entry
        _seen[str(folder), name] = entry
    if fresh:
        with contextlib.suppress(OSError):  # of others, or on a medium that cannot be written to
            write_json(folder / NAME, known | fresh)


def _entry(folder: Path, name: str, checksums: Mapping[str, str]) -> list[Any]:
    if name not in checksums:
        raise DataError(f"{folder / name} is not listed in {folder}/manifest.json.", "Prepare the data again.")
    try:
        return [*_stamp(folder / name), checksums[name]]
    except FileNotFoundError:
        raise DataError(
            f"{folder / name} is missing.", f"Prepare the data again, or restore the folder {folder}."
        ) from None


def _stamp(path: Path) -> tuple[int, int]:
    facts = path.stat()
    return facts.st_size, facts.st_mtime_ns


def _read(folder: Path) -> dict[str, Any]:
    try:
        known = read_json(folder / NAME)
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}

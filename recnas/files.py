"""Folders that recnas writes to: made here, so that whatever stands in the way is said in one sentence."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from recnas.errors import RunError

# Faults of the machine or of permissions: nobody can mend them by reading a traceback.
_NOT_OURS = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT}


def make_folder(path: Path, option: str = "--out") -> None:
    """Make a folder that can be written to, parents included.

    Raises:
        RunError: the path, or a part of it, is a file, or this user may not write there.
    """
    there = next(part for part in (path, *path.parents, Path("/")) if part.exists())
    if not there.is_dir():
        below = "" if there == path else f", so there can be no folder {path} below it"
        raise RunError(f"{there} is a file, not a folder{below}.", f"Choose another {option}.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise RunError(
            f"{there} is a folder that you may not write to.",
            f"Choose another {option}, or look at its permissions: ls -ld {there}",
        )
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"The folder {path} cannot be made: {error.strerror}.", f"Choose another {option}.") from None


def make_place(path: Path, option: str = "-o") -> None:
    """Make the folder of a file that is to be written; said before any work is done for it.

    Raises:
        RunError: the path is a folder, or its folder cannot be made.
    """
    if path.is_dir():
        raise RunError(
            f"{path} is a folder, and this writes a file.", f"Name a file in it: {option} {path}/NAME{path.suffix}"
        )
    make_folder(path.parent, option)


def machine_fault(error: OSError) -> str | None:
    """One sentence for a full disk or missing permissions; None for anything else."""
    if error.errno not in _NOT_OURS:
        return None
    where = f"{error.filename}: " if error.filename else ""
    return (
        f"{where}{error.strerror}. Nothing that was finished is lost; the same command continues once this is mended."
    )

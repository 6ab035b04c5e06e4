"""Files that recnas writes and reads: every write is whole or absent, every read is of a regular file of bounded size.

Folders are made here, so that whatever stands in the way is said in one sentence; and faults of the machine are told
from faults of recnas here.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import shutil
import stat
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from recnas.errors import RecnasError, RunError

LARGEST_TEXT = 1 << 30  # bytes of a file that is read as a whole; sizes of files of others are not to be trusted
# Faults of the machine, of its limits or of permissions: nobody can mend them by reading a traceback.
_NOT_OURS = {
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EMFILE, errno.ENFILE,
    errno.ENOMEM, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EBUSY, errno.ESTALE, errno.ETIMEDOUT,
    errno.ENODEV, errno.ENXIO, errno.ENOLCK, errno.EREMOTEIO,
}  # fmt: skip
_LEFT_OVER = re.compile(r"\..+\.(?:part|old)-[0-9a-f]+")  # as `part_of` names them, and checkpoints on their way out
_NUMBER_IN_TEXT = re.compile(
    r"(?:\[Errno |os error |errno[: ]+|code: )(\d+)"
)  # how libraries in C++ and Rust pass it on


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
        ensure_folder(path)
    except OSError as error:
        raise RunError(f"The folder {path} cannot be made: {error.strerror}.", f"Choose another {option}.") from None


def ensure_folder(path: Path) -> None:
    """Make a folder and those above it; their names survive a power cut, as what is written into them will."""
    missing = [part for part in (path, *path.parents) if not part.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for part in reversed(missing):
        fsync_folder(part.parent)


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


def refuse_links(folder: Path) -> None:
    """Before anything is written below `folder`: all of it is files and folders, so no write can leave it.

    Raises:
        RunError: it holds a link, a pipe or a device. recnas makes none.
    """
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(parent, name)
            try:
                mode = os.lstat(path).st_mode
            except FileNotFoundError:  # a worker's file of a moment
                continue
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                kind = f"a link to {os.readlink(path)}" if stat.S_ISLNK(mode) else "a pipe or a device"
                raise RunError(
                    f"{path} is {kind}; recnas makes none, and writing through it could change files elsewhere.",
                    f"Remove it: rm {path}",
                )


def sweep(folder: Path) -> None:
    """Remove what writers that were killed left below `folder`: nobody else may be writing there."""
    for parent, folders, files in os.walk(folder):
        for name in [name for name in folders if _LEFT_OVER.fullmatch(name)]:
            folders.remove(name)
            shutil.rmtree(os.path.join(parent, name), ignore_errors=True)
        for name in files:
            if _LEFT_OVER.fullmatch(name):
                Path(parent, name).unlink(missing_ok=True)


# Writing


def part_of(path: Path) -> Path:
    """A new name beside `path` to write under; `sweep` knows it."""
    return path.with_name(f".{path.name}.part-{uuid.uuid4().hex[:12]}")


def write_atomic(path: Path, write: Callable[[IO[bytes]], None]) -> None:
    """Write a file so that a reader sees the old content or the new, never a part; a link in its place is replaced."""
    ensure_folder(path.parent)
    part = part_of(path)
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)  # the umask applies
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    fsync_folder(path.parent)


def write_bytes(path: Path, content: bytes) -> None:
    def write(file: IO[bytes]) -> None:
        file.write(content)

    write_atomic(path, write)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


def fsync_folder(folder: Path) -> None:
    """Make a rename within the folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def fsync_file(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def fsync_tree(folder: Path) -> None:
    """Make everything below a folder survive a power cut, before the folder gets the name it is found under."""
    for parent, _, files in os.walk(folder):
        for name in files:
            fsync_file(Path(parent, name))
        fsync_folder(Path(parent))


# Reading


def read_bytes(path: Path, most: int = LARGEST_TEXT) -> bytes:
    """The content of a regular file; a pipe would never end, nor would a device.

    Raises:
        FileNotFoundError, NotADirectoryError: there is none. Other OSErrors: it is there and cannot be read.
        RunError: it is no regular file, or larger than `most`.
    """
    with _regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise RunError(f"{path} has {size:,} bytes; a file of its kind has at most {most:,}.")
        return file.read(size)  # what is appended meanwhile is for the next reader


def _regular(path: Path) -> io.BufferedReader:
    """Open a file to read it; it neither waits for a pipe's other end nor reads a device."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise RunError(f"{path} is not a file that can be read.", f"Look at it: ls -ld {path}")
    return file


def read_text(path: Path, most: int = LARGEST_TEXT) -> str:
    """Raises: as `read_bytes`; ValueError if it is no UTF-8."""
    return read_bytes(path, most).decode()


def read_json(path: Path, most: int = LARGEST_TEXT) -> Any:
    """Raises: as `read_bytes`; ValueError for anything that is no JSON we would write, whatever Python raises for it."""
    return parse_json(read_bytes(path, most))


def parse_json(text: bytes | str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def sha256_file(path: Path) -> str:
    with _regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# Faults of the machine


def machine_fault(error: BaseException) -> str | None:
    """One sentence for a full disk, missing permissions, a limit, memory; None for anything else.

    Libraries in other languages wrap what the system said into errors of their own.
    """
    if isinstance(error, RecnasError):
        return None
    if isinstance(error, MemoryError):
        said = str(error) or "this process may have no more memory"
        return f"Not enough memory: {said}. Nothing that was finished is lost; the same command continues with more."
    if type(error).__name__ == "OutOfMemoryError":  # torch's, which is not loaded here
        said = (str(error) or "no more is to be had").splitlines()[0].split(". GPU")[0].rstrip(".")
        return (
            f"Not enough memory on the GPU: {said}. Nothing that was finished is lost; the same command continues with "
            "fewer --workers, smaller batches, tables in host memory (embeddings.offload=true of the phase) or device=cpu."
        )
    number = error.errno if isinstance(error, OSError) else None
    if number is None:
        number = _number_in(f"{error} {error!r}")
    if number not in _NOT_OURS:
        return None
    where = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
    return f"{where}{os.strerror(number)}. Nothing that was finished is lost; the same command continues once this is mended."


def _number_in(text: str) -> int | None:
    if found := _NUMBER_IN_TEXT.search(text):
        return int(found[1])
    return next((number for number in _NOT_OURS if f"{os.strerror(number)} ({number})" in text), None)  # torch's way


def told(error: BaseException) -> RunError | None:
    """A fault of the machine as an error of ours, which travels from a worker as it is; None for anything else."""
    return None if (said := machine_fault(error)) is None else RunError(said)

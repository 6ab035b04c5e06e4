"""Files that appear whole or not at all, compressed if their name says so."""

from __future__ import annotations

import errno
import os
import shutil
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import pyarrow as pa

from recnas.errors import DataError

_GZIP = 31  # window bits that make zlib write a gzip header, without name or time


def _gzip_member(data: bytes) -> bytes:
    packer = zlib.compressobj(level=4, wbits=_GZIP)
    return packer.compress(data) + packer.flush()


def _zstd_frame(data: bytes) -> bytes:
    return pa.Codec("zstd", compression_level=3).compress(data, asbytes=True)


_PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": _gzip_member,
    ".zst": _zstd_frame,
    ".zstd": _zstd_frame,
}
_PACKED_SHARE = 0.55  # hashed ids hardly compress: about half remains


def compressor_for(out: Path) -> Callable[[bytes], bytes]:
    """How a chunk is packed. Members are packed one by one, in the workers, and simply follow each
    other in the file: both formats define that as the concatenation of their contents."""
    return _PACKERS.get(out.suffix, lambda data: data)


def truth_path(out: Path) -> Path:
    """What was planted in the generated file `out`; a raw file that has one beside it is generated."""
    return out.with_name(f"{out.name}.truth.json")


def check_target(out: Path, raw_bytes: int) -> None:
    """Refuse before the work starts if `out` cannot be a file, or the disk is clearly too small."""
    folder = out.parent
    if not folder.is_dir():
        raise DataError(f"The folder {folder} does not exist, so {out.name} cannot be written.", f"mkdir -p {folder}")
    if out.is_dir():
        raise DataError(f"{out} is a folder; the rows go into one file.", f"--out {out / 'train.txt'}")
    needed = raw_bytes * (_PACKED_SHARE if out.suffix in _PACKERS else 1.0)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DataError(
            f"The file needs about {needed / 1e9:.1f} GB, but the disk of {folder} has {free / 1e9:.1f} GB free.",
            "ask for fewer --rows, or choose an --out on another disk; a name ending in .zst takes about half",
        )


class WholeFiles:
    """A set of files written under temporary names and renamed together at the end.

    Leaving the `with` block by an error removes every temporary file. Files are renamed in the
    reverse order of opening: open the main file first, and it appears last, when all that belongs
    to it is there.
    """

    def __init__(self) -> None:
        self._open: list[tuple[BinaryIO, Path, Path]] = []

    def open(self, target: Path) -> BinaryIO:
        temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            handle = temporary.open("wb")
        except OSError as fault:
            raise _readable(fault, target) from fault
        self._open.append((handle, temporary, target))
        return handle

    def __enter__(self) -> WholeFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if fault is None:
                for handle, _, _ in self._open:
                    handle.flush()
                    os.fsync(handle.fileno())
                for handle, temporary, target in reversed(self._open):
                    handle.close()
                    temporary.replace(target)
        except OSError as late:
            raise _readable(late, self._open[0][2]) from late
        finally:
            for handle, temporary, _ in self._open:
                _close_quietly(handle)
                temporary.unlink(missing_ok=True)
        if isinstance(fault, OSError):
            raise _readable(fault, self._open[0][2]) from fault


def _close_quietly(handle: BinaryIO) -> None:
    # A full disk also fails the last flush; the first error is the one to report.
    with suppress(OSError):
        handle.close()


def _readable(fault: OSError, target: Path) -> DataError:
    if fault.errno == errno.ENOSPC:
        return DataError(
            f"The disk filled up while {target} was written; nothing was left behind.",
            "free some space, ask for fewer --rows, or choose an --out on another disk",
        )
    return DataError(f"{target} cannot be written: {fault.strerror or fault}.", "choose another --out")

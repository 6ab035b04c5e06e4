"""The part of the attack that stands between a process and the system: `shim.c`, built where there is a compiler.

A C library and not a patched `recnas.files`, because pyarrow, safetensors and the interpreter itself open, read and write
files without passing through Python; what cannot fail there is not tested there. Nothing compiled is kept in the
repository: without a C compiler these attacks are skipped, and said to be.
"""

from __future__ import annotations

import errno
import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

KINDS = {"write": 1, "fsync": 2, "rename": 3, "open": 4, "read": 5}
KILL = "SIGKILL"  # instead of an error: the process is killed before that call
ERRORS = {name: getattr(errno, name) for name in ("EIO", "ENOSPC", "EMFILE", "EFBIG")} | {KILL: -1}
_HEAD = struct.Struct("=IIQQ")


@dataclass(frozen=True)
class Fault:
    """The `at`-th call of a kind on a file below a folder fails; `sticky`: and all after it."""

    kind: str
    at: int
    error: str
    sticky: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {self.at} {self.error}{' and on' if self.sticky else ''}"


@dataclass(frozen=True)
class Change:
    """One thing that a process did to a folder."""

    what: str  # C created, T cut to `offset`, W wrote `data` at `offset`, F forced to disk, R renamed to `data`, U removed, M made a folder
    path: str
    offset: int
    data: bytes


def compiler() -> str | None:
    return shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")


def build(folder: Path) -> Path | None:
    """The compiled library, or None where nothing can compile it."""
    if (program := compiler()) is None:
        return None
    out = folder / "shim.so"
    source = Path(__file__).with_name("shim.c")
    subprocess.run([program, "-O1", "-shared", "-fPIC", "-o", out, source, "-ldl", "-lpthread"], check=True)
    return out


def changes_of(record: Path) -> Iterator[Change]:
    """What was recorded, in order."""
    data = record.read_bytes()
    place = 0
    while place < len(data):
        code, length, offset, size = _HEAD.unpack_from(data, place)
        place += _HEAD.size
        path = data[place : place + length].decode()
        place += length
        yield Change(chr(code), path, offset, data[place : place + size])
        place += size

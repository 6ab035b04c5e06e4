"""A file of named arrays, written once and read array by array.

    8 bytes magic, 8 bytes header length, 4 bytes checksum of the header, JSON header, then the arrays back to back.

Used for the intermediate chunks of `prepare`, where a column is wanted without the rest of its chunk. They are not forced to
the disk, which would cost more than to parse again what a power cut took: checksums tell what is whole.
"""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from recnas.errors import DataError
from recnas.files import part_of

_MAGIC = b"RNARRAY2"
_START = 20  # bytes before the header
_AGAIN = "Run the same command again: it makes anew what is not whole."


def crc32(array: np.ndarray) -> int:
    """Checksum of an array's bytes."""
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data) if array.size else 0


def write_arrays(path: Path, arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> None:
    """Write atomically: a reader finds the whole file under its name, or none."""
    header: dict[str, Any] = {"facts": facts, "arrays": {}}
    offset = 0
    buffers = []
    for name, array in arrays.items():
        array = np.ascontiguousarray(array)
        view = array.reshape(-1).view(np.uint8)
        header["arrays"][name] = [array.dtype.str, list(array.shape), offset, crc32(array)]
        buffers.append(view)
        offset += view.nbytes
    text = json.dumps(header).encode()
    part = part_of(path)  # two writers must not share one
    with open(part, "xb") as file:
        file.write(_MAGIC + len(text).to_bytes(8, "little") + zlib.crc32(text).to_bytes(4, "little") + text)
        for buffer in buffers:
            file.write(buffer.data)
    os.replace(part, path)


class ArrayFile:
    """Opens the header; `read` fetches one array."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with open(path, "rb") as file:
            head = file.read(_START)
            size = int.from_bytes(head[8:16], "little")
            if head[:8] != _MAGIC or size > os.fstat(file.fileno()).st_size:
                raise DataError(f"{path} is not a chunk of recnas.", _AGAIN)
            text = file.read(size)
            if zlib.crc32(text) != int.from_bytes(head[16:], "little"):
                raise DataError(f"{path} is damaged.", _AGAIN)
            header = json.loads(text)
        self.facts: dict[str, Any] = header["facts"]
        self._arrays: dict[str, list[Any]] = header["arrays"]
        self._base = _START + size

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def read(self, name: str) -> np.ndarray:
        dtype, shape, offset, _ = self._arrays[name]
        out = np.empty(shape, dtype=dtype)
        with open(self.path, "rb", buffering=0) as file:
            file.seek(self._base + offset)
            view = memoryview(out.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
            got = 0
            while got < len(view):
                count = file.readinto(view[got:])
                if not count:
                    raise DataError(f"{self.path} ends in the middle of array {name!r}.", _AGAIN)
                got += count
        return out

    def is_whole(self) -> bool:
        """Whether every array still has the bytes that were written."""
        try:
            return all(crc32(self.read(name)) == entry[3] for name, entry in self._arrays.items())
        except DataError:
            return False

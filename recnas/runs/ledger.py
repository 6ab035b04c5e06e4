"""The ledger of a run: one JSON object per line, append only, every line with a checksum of itself and all before it.

    {"event":"candidate",...,"check":"0f3a..."}     16 hexadecimal digits of SHA-256(check of the line before + this line without it)

A last line without its end was cut short by a crash and is dropped. Anything else that does not fit was changed after
it was written: no line from there on can be trusted, and `recnas repair` keeps those before it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from recnas.errors import RunError
from recnas.files import ensure_folder, fsync_folder, parse_json, read_bytes

LARGEST = 4 << 30  # bytes; a search of a million candidates has one
_CHECK = re.compile(rb'[,{]"check":"([0-9a-f]{16})"\}\n')
_LENGTH = len(b',"check":"0123456789abcdef"}\n')


class Lines(NamedTuple):
    """What a ledger holds as far as it can be trusted."""

    events: list[dict[str, Any]]
    good: int  # bytes of them
    check: str  # of the last
    damaged: bool  # something follows that was not cut short, but changed


def chained(before: str, body: bytes) -> str:
    """The checksum of a line, given the one of the line before it."""
    return hashlib.sha256(before.encode() + body).hexdigest()[:16]


def line_of(before: str, event: Mapping[str, Any]) -> tuple[bytes, str]:
    """A line as it is written, and its checksum."""
    body = json.dumps(event, separators=(",", ":"), allow_nan=False).encode()
    check = chained(before, body)
    return body[:-1] + (b"," if len(body) > 2 else b"") + f'"check":"{check}"}}\n'.encode(), check


def read_chain(data: bytes) -> Lines:
    events: list[dict[str, Any]] = []
    good, check = 0, ""
    for line in _lines_of(data):
        match = _CHECK.fullmatch(line[-_LENGTH:])
        body = (line[:-_LENGTH] or b"{") + b"}"
        if match is None or match[1].decode() != chained(check, body):
            return Lines(events, good, check, True)
        try:
            event = parse_json(body)
        except ValueError:
            return Lines(events, good, check, True)
        if not isinstance(event, dict):
            return Lines(events, good, check, True)
        events.append(event)
        good, check = good + len(line), match[1].decode()
    return Lines(events, good, check, False)


def _lines_of(data: bytes) -> Iterator[bytes]:
    """With their ends, and without a last one that has none. Only \n ends a line: a damaged byte may be any other."""
    start = 0
    while (end := data.find(b"\n", start) + 1) > 0:
        yield data[start:end]
        start = end


class Ledger:
    """An append-only file of JSON lines that are checked when they are read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.appended: Callable[[dict[str, Any]], None] | None = None  # is told of every line that is on disk
        self._handle: int | None = None
        self._check = ""

    def read(self) -> list[dict[str, Any]]:
        """All lines but one that a crash cut short.

        Raises:
            RunError: a line was changed.
        """
        return self._lines().events

    def append(self, event: dict[str, Any]) -> None:
        """Add one event; it is on disk when this returns."""
        if self._handle is None:
            self._handle = self._open()
        line, check = line_of(self._check, event)
        try:
            view = memoryview(line)
            while view:
                view = view[os.write(self._handle, view) :]
            os.fsync(self._handle)
        except OSError as error:
            self.close()  # the next append looks at what is there, and drops half a line
            error.filename = str(self.path)
            raise
        self._check = check
        if self.appended is not None:
            self.appended(event)

    def close(self) -> None:
        if self._handle is not None:
            handle, self._handle = self._handle, None
            os.close(handle)

    def _open(self) -> int:
        lines = self._lines()
        ensure_folder(self.path.parent)
        new = not self.path.exists()
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            if os.fstat(handle).st_size > lines.good:
                os.ftruncate(handle, lines.good)
            if new:
                fsync_folder(self.path.parent)
        except BaseException:
            os.close(handle)
            raise
        self._check = lines.check
        return handle

    def _lines(self) -> Lines:
        try:
            data = read_bytes(self.path, LARGEST)
        except FileNotFoundError:
            return Lines([], 0, "", False)
        lines = read_chain(data)
        if lines.damaged:
            raise RunError(
                f"{self.path} line {len(lines.events) + 1} is not what was written: the file was changed or damaged since.",
                f"Restore it from a copy, or keep the lines before it: recnas repair {self.path.parent}",
            )
        return lines

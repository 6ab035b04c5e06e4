"""Who wants to know of lines as they are written: whatever follows a run learns of it after it is on disk, and changes nothing.

with followed_by(follower):
    search(...)                # of every run that is written meanwhile, and of those within it
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Protocol


class Follower(Protocol):
    """Its methods raise nothing: a run does not end because somebody could not look on."""

    def opened(self, run: Path, lines: list[dict[str, Any]]) -> None:
        """A run is about to be written or continued; `lines` are there already."""

    def appended(self, run: Path, line: dict[str, Any]) -> None:
        """A line is on disk."""


_follower: ContextVar[Follower | None] = ContextVar("follower", default=None)


def follower() -> Follower | None:
    return _follower.get()


@contextmanager
def followed_by(one: Follower) -> Iterator[None]:
    token = _follower.set(one)
    try:
        yield
    finally:
        _follower.reset(token)

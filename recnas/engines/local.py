"""The engine without workers: everything happens in this process, one item after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from recnas.engines.base import Engine, Work
from recnas.threads import one_thread


class LocalEngine(Engine):
    workers = 1

    def __init__(self, work: Work) -> None:
        self._work = work
        self._call: Callable[[Any], Any] | None = None

    def map(self, items: Iterable[Any]) -> Iterator[Any]:
        if self._call is None:
            with one_thread():
                self._call = self._work.open()
        for item in items:
            with one_thread():  # not around the yield: what the caller does meanwhile is not a worker's
                result = self._call(item)
            yield result

    def close(self) -> None:
        self._call = None

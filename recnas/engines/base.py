"""The promise of every engine: an ordered map over items, whatever does the work.

A `Work` is a small picklable description. Each worker opens it once (maps weights, builds a scorer) and
then calls the function it returned for one item after the other. That function must give the same result
for the same item in any process: it is what makes a ledger independent of the number of workers.

    with open_engine(work, workers=2) as engine:
        for result in engine.map(items):      # in the order of the items
            ...
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Protocol


class Work(Protocol):
    """What a worker does, in a form that can be sent to it."""

    def open(self) -> Callable[[Any], Any]:
        """Prepare once, in the worker; the result takes one item and returns something picklable."""
        ...


class Engine(ABC):
    """Runs one `Work` over items."""

    workers: int

    @abstractmethod
    def map(self, items: Iterable[Any]) -> Iterator[Any]:
        """Results in the order of `items`, each as soon as it and all before it are there.

        Items are drawn only a little ahead of the workers, so an endless iterable is fine.
        """

    @abstractmethod
    def close(self) -> None:
        """Stop the workers; what they were doing is dropped."""

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_engine(work: Work, workers: int = 1) -> Engine:
    """In this process for one worker, otherwise a pool of processes with one thread each."""
    from recnas.engines.local import LocalEngine
    from recnas.engines.pool import PoolEngine

    return LocalEngine(work) if workers <= 1 else PoolEngine(work, workers)

"""The promise of every engine: an ordered map over items, whatever does the work.

A `Work` is a small picklable description. Each worker opens it once (maps weights, builds a scorer) and
then calls the function it returned for one item after the other. That function must give the same result
for the same item in any process: it is what makes a ledger independent of the number of workers.

    with Execution(workers=2).open(work) as engine:
        for result in engine.map(items):      # in the order of the items
            ...
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Protocol

KINDS = ("auto", "local", "pool", "ray")
WINDOW = 16  # items whose order among the workers is free; a crash loses at most so many results


class Work(Protocol):
    """What a worker does, in a form that can be sent to it.

    A work may also offer `cargo()`, a dictionary of tensors that all workers only read, and take it back as
    `open(cargo)`: an engine whose workers are on other machines sends it there (see `ray`). A work that computes on
    a GPU if it is given one says so by `device`, the setting (`recnas.devices`); without it a work needs none.
    """

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

    def map_largest_first(self, items: Sequence[Any], sizes: Sequence[float]) -> Iterator[Any]:
        """Results in the order of `items`; of those near each other the largest is begun first.

        A generation ends when its last candidate does, and nobody should wait for one that was large and
        came late.
        """
        order: list[int] = []
        for start in range(0, len(items), WINDOW):
            near = range(start, min(start + WINDOW, len(items)))
            order += sorted(near, key=lambda i: -sizes[i])
        waiting: dict[int, Any] = {}
        next_out = 0
        for i, result in zip(order, self.map([items[i] for i in order])):
            waiting[i] = result
            while next_out in waiting:
                yield waiting.pop(next_out)
                next_out += 1

    @abstractmethod
    def close(self) -> None:
        """Stop the workers; what they were doing is dropped."""

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

"""The ordered map of engines whose workers are other processes and may die.

The standard library's pools give up when a worker dies. Here it is known which item each worker holds: a dead
worker is replaced and its item handed out again. An item that kills three workers in a row is to blame itself
(usually it does not fit into memory), and the map ends with an error that says so.

Who the workers are, how an item reaches them and how they answer is up to `pool` and `ray`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from recnas.engines.base import Engine
from recnas.errors import RunError

# A second OpenMP thread on a core that another worker uses makes small operators ten times slower.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
TRIES = 3
AHEAD = 2  # finished items that may wait per worker for a slow one before them

Numbered = tuple[int, Any]  # its number, and what the work is called with
Answer = tuple[bool, Any]  # True and the result, or False and the error to raise


class Worker(Protocol):
    item: Numbered | None  # what it is working on; None while it starts or waits


W = TypeVar("W", bound=Worker)


class SupervisedEngine(Engine, Generic[W]):
    """Hands items to workers and their results out in order."""

    def _ordered(self, items: Iterable[Any]) -> Iterator[Any]:
        source = enumerate(items)
        again: deque[Numbered] = deque()
        done: dict[int, Answer] = {}
        deaths: dict[int, int] = {}
        next_out = started = 0
        exhausted = False
        while True:
            while next_out in done:
                good, value = done.pop(next_out)
                if not good:
                    raise value
                next_out += 1
                yield value
            for worker in self._idle():
                if again:
                    self._give(worker, again.popleft())
                elif not exhausted and started - next_out < self.workers * (1 + AHEAD):
                    try:
                        self._give(worker, next(source))
                        started += 1
                    except StopIteration:
                        exhausted = True
            if exhausted and next_out == started:
                return
            for worker, answer in self._answers():
                item = worker.item
                if answer is not None:
                    if item is not None:
                        done[item[0]] = answer
                    self._free(worker)
                    continue
                if item is not None:
                    deaths[item[0]] = deaths.get(item[0], 0) + 1
                    if deaths[item[0]] == TRIES:
                        raise RunError(
                            f"{TRIES} {self._fate(worker, item[0] + 1)}",
                            "Usually memory: use fewer workers, or smaller batches.",
                        )
                    again.append(item)
                self._replace(worker)

    @abstractmethod
    def _idle(self) -> list[W]:
        """Workers that can be given an item now."""

    @abstractmethod
    def _give(self, worker: W, item: Numbered) -> None:
        """Hand out an item; a worker that is dead already is noticed by `_answers`."""

    @abstractmethod
    def _answers(self) -> list[tuple[W, Answer | None]]:
        """Wait until a worker has answered, started or died; None stands for a death."""

    @abstractmethod
    def _free(self, worker: W) -> None:
        """The worker has answered and waits."""

    @abstractmethod
    def _replace(self, worker: W) -> None:
        """Start another one in the place of a dead worker."""

    @abstractmethod
    def _fate(self, worker: W, number: int) -> str:
        """What happened to the last of the workers that died on item `number`, after "3 "."""

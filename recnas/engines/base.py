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
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from recnas.errors import ConfigError

KINDS = ("auto", "local", "pool", "ray")


class Work(Protocol):
    """What a worker does, in a form that can be sent to it.

    A work may also offer `cargo()`, a dictionary of tensors that all workers only read, and take it back as
    `open(cargo)`: an engine whose workers are on other machines sends it there (see `ray`).
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

    @abstractmethod
    def close(self) -> None:
        """Stop the workers; what they were doing is dropped."""

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True)
class EngineChoice:
    """Which engine a job uses. Never part of a run's settings: a run may go on with another one.

    Args:
        kind: "auto" is in this process for one worker and a pool of processes for more.
        address: of a running Ray cluster; None starts one on this machine.
    """

    kind: str = "auto"
    address: str | None = None

    def check(self) -> None:
        """Faults that can be known before the work begins: a search should not find them hours later."""
        if self.kind not in KINDS:
            raise ConfigError(f"There is no engine {self.kind!r}.", f"Choose one of: {', '.join(KINDS)}")
        if self.address is not None and self.kind != "ray":
            raise ConfigError("--ray-address goes with --engine ray.")
        if self.kind == "ray":
            from recnas.engines.ray_cluster import check_address, import_ray

            ray = import_ray()
            if self.address is not None and not ray.is_initialized():
                check_address(self.address)

    def workers_here(self, workers: int) -> int:
        """How many of the workers need memory of this machine: at most one, as far as we know of a cluster."""
        return min(workers, 1) if self.address is not None else workers


def open_engine(work: Work, workers: int = 1, kind: str = "auto", address: str | None = None) -> Engine:
    """In this process for one worker, otherwise a pool of processes with one thread each; or as `kind` says."""
    from recnas.engines.local import LocalEngine
    from recnas.engines.pool import PoolEngine

    if kind == "ray":
        from recnas.engines.ray import RayEngine

        return RayEngine(work, max(1, workers), address)
    if kind == "local" or (kind == "auto" and workers <= 1):
        return LocalEngine(work)
    return PoolEngine(work, max(1, workers))

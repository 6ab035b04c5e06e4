"""Worker processes that Ray runs, on this machine or on a cluster; an actor that dies is replaced.

The ordered map and its rules are those of `supervised`; what is special is how work travels. A worker on another
machine has no file of ours, so a `Work` that offers `cargo()` has those tensors put into Ray's object store
once; all workers of a machine map the one copy. Tensors are put as numpy arrays (Ray copies torch tensors),
and torch makes a writable tensor of a read-only array: a write would reach every worker. So each answer is
followed by a look at the tensors' version counters, which any write through torch raises.

Everything else that work names by path (prepared data, run directories) must be on a filesystem that all
machines share, under the same path.
"""

from __future__ import annotations

import os
import pickle
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from recnas.devices import give_back_memory, needs_device, share_of_gpu
from recnas.engines.base import Work
from recnas.engines.ray_cluster import connect, import_ray
from recnas.engines.supervised import ONE_THREAD, TRIES, Answer, Numbered, SupervisedEngine
from recnas.errors import RecnasError, RunError
from recnas.files import told
from recnas.plugins import Carried, carried, take
from recnas.threads import one_thread

_PATIENCE = 300.0  # seconds without a single worker before a full cluster is an error


@dataclass
class _Worker:
    actor: Any
    answer: Any  # the reference we wait for; None when idle
    item: Numbered | None = None
    pid: int | None = None  # known once it has started


class RayEngine(SupervisedEngine[_Worker]):
    """`workers` actors of one CPU each, and of their share of a GPU if the cluster has any and the work may use one,
    started when the first item arrives.

    Args:
        address: None starts a cluster on this machine and ends it on `close`; "auto" or host:port joins a
            running one. A connection that this process already has is used and left as it is.
    """

    def __init__(self, work: Work, workers: int, address: str | None = None) -> None:
        self.workers = workers
        self.replaced = 0  # actors that died and were started anew
        self._work = work
        self._address = address
        self._ray = import_ray()
        self._leave: Callable[[], None] | None = None
        self._pool: list[_Worker] = []
        self._cargo: Any = None
        self._failed_starts = 0

    def map(self, items: Iterable[Any]) -> Iterator[Any]:
        self._open()
        yield from self._ordered(items)

    def close(self) -> None:
        for worker in self._pool:
            with suppress(Exception):  # the cluster may be gone
                self._ray.kill(worker.actor)
        self._pool, self._cargo = [], None
        if self._leave is not None:
            self._leave()
            self._leave = None

    def pids(self) -> list[int]:
        """Process ids of the workers that have started, each on its own machine."""
        return [worker.pid for worker in self._pool if worker.pid is not None]

    def _open(self) -> None:
        if self._leave is None:
            self._leave = connect(self._ray, self.workers, self._address)
        if self._cargo is None and hasattr(self._work, "cargo"):
            arrays = {name: tensor.numpy() for name, tensor in self._work.cargo().items()}
            self._cargo = self._ray.put(arrays)
        for worker in self._pool:  # what a map that was not read to its end left behind
            if worker.item is not None:
                worker.answer = worker.item = None
        give_back_memory()
        while len(self._pool) < self.workers:
            self._pool.append(self._start())

    def _start(self) -> _Worker:
        kind = self._ray.remote(num_cpus=1, num_gpus=self._gpu_share(), max_restarts=0, max_task_retries=0)(_Actor)
        work = self._ray.cloudpickle.dumps(self._work)
        # In a list, Ray hands the reference on instead of fetching what it stands for.
        actor = kind.remote(carried(), work, [self._cargo] if self._cargo is not None else [], os.getcwd())
        return _Worker(actor, actor.hello.remote())

    def _gpu_share(self) -> float:
        """Ray hides the GPUs of a machine from actors that ask for none."""
        many = int(self._ray.cluster_resources().get("GPU", 0))
        return share_of_gpu(self.workers, many) if needs_device(getattr(self._work, "device", "cpu")) else 0.0

    def _idle(self) -> list[_Worker]:
        return [worker for worker in self._pool if worker.answer is None]

    def _give(self, worker: _Worker, item: Numbered) -> None:
        worker.item = item
        worker.answer = worker.actor.answer.remote(item[1])

    def _answers(self) -> list[tuple[_Worker, Answer | None]]:
        busy = {worker.answer: worker for worker in self._pool if worker.answer is not None}
        began = time.monotonic()
        ready: list[Any] = []
        while not ready:
            ready, _ = self._ray.wait(list(busy), num_returns=1, timeout=5.0)
            if not ready and not self.pids() and time.monotonic() - began > _PATIENCE:
                raise RunError(
                    f"Ray has started no worker in {_PATIENCE:.0f} seconds: the cluster has no free CPU.",
                    "See who holds them with `ray status`; wait, or ask for fewer with --workers.",
                )
        return [(busy[reference], self._fetch(busy[reference])) for reference in ready]

    def _fetch(self, worker: _Worker) -> Answer | None:
        failures = self._ray.exceptions
        try:
            answer = self._ray.get(worker.answer)
        except failures.RayTaskError as error:  # of ours: everything in the work itself is caught there
            return (False, RuntimeError(f"in a Ray worker:\n{error}"))
        except failures.RayError as error:  # dead, out of memory, its machine gone
            if worker.item is None:
                self._failed_starts += 1
                if self._failed_starts == TRIES:
                    raise RunError(
                        f"Ray cannot start a worker: {_last_line(error)}",
                        "Every machine of the cluster needs the same Python and the same recnas.",
                    ) from None
            return None
        if worker.item is None:
            worker.pid = answer
            self._failed_starts = 0
            return (True, None)
        return answer

    def _free(self, worker: _Worker) -> None:
        worker.answer = worker.item = None

    def _replace(self, worker: _Worker) -> None:
        with suppress(Exception):  # usually it is dead; one that is only out of reach must not go on
            self._ray.kill(worker.actor)
        self._pool[self._pool.index(worker)] = self._start()
        self.replaced += 1

    def _fate(self, worker: _Worker, number: int) -> str:
        return f"Ray workers in a row died on the same item (number {number})."


def _last_line(error: Exception) -> str:
    return ([line for line in str(error).splitlines() if line.strip()] or [type(error).__name__])[-1].strip()


class _Actor:
    """The life of a worker: open the work at the first item, then answer one item after the other."""

    def __init__(self, plugins: list[Carried], work: bytes, cargo: list[Any], folder: str) -> None:
        os.environ.update(ONE_THREAD)  # before anything imports torch
        with suppress(OSError):  # Ray starts workers where the cluster was started
            os.chdir(folder)
        self._plugins, self._work, self._cargo = plugins, work, cargo
        self._tensors: dict[str, Any] = {}
        self._call: Callable[[Any], Any] | None = None

    def hello(self) -> int:
        return os.getpid()

    def answer(self, item: Any) -> tuple[bool, Any]:
        try:
            with one_thread():
                if self._call is None:
                    self._call = self._open()
                value = self._call(item)
            written = [name for name, tensor in self._tensors.items() if tensor._version]
            if written:
                raise RuntimeError(f"the work wrote into {written[0]}, which all workers share")
            return (True, value)
        except RecnasError as error:
            return (False, error)
        except Exception as error:
            return (False, told(error) or RuntimeError(f"in a Ray worker:\n{traceback.format_exc()}"))

    def _open(self) -> Callable[[Any], Any]:
        take(self._plugins)
        work = pickle.loads(self._work)
        if not self._cargo:
            return work.open()
        import ray
        import torch

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the arrays are read-only: we look after every answer
            self._tensors = {name: torch.from_numpy(array) for name, array in ray.get(self._cargo[0]).items()}
        return work.open(dict(self._tensors))

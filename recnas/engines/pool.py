"""Worker processes on this machine, one thread each, that may be killed without harm; see `supervised`."""

from __future__ import annotations

import ctypes
import io
import multiprocessing
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from recnas.devices import be_worker, give_back_memory
from recnas.engines.base import Work
from recnas.engines.supervised import ONE_THREAD, Answer, Numbered, SupervisedEngine
from recnas.errors import RecnasError, RunError
from recnas.files import told
from recnas.plugins import Carried, carried, take
from recnas.stopping import GRACE, Stopped, listening
from recnas.threads import one_thread

_PR_SET_PDEATHSIG = 1


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    number: int  # among the workers of now; who replaces one has its number
    item: Numbered | None = None


class PoolEngine(SupervisedEngine[_Worker]):
    """`workers` processes, started when the first item arrives."""

    def __init__(self, work: Work, workers: int) -> None:
        self.workers = workers
        self.replaced = 0  # workers that died and were started anew
        self._work = work
        # A forked child would inherit the parent's thread pools in whatever state they are.
        self._context = multiprocessing.get_context("spawn")
        self._pool: list[_Worker] = []

    def map(self, items: Iterable[Any]) -> Iterator[Any]:
        try:
            yield from self._ordered(items)
        finally:  # given up half-way: nobody may take a late answer for one to a later item
            self._end([worker for worker in self._pool if worker.item is not None])

    def close(self) -> None:
        self._end(list(self._pool))

    def _end(self, workers: list[_Worker]) -> None:
        """Those that are in a training finish a step and write a checkpoint; the others end at once."""
        busy = [worker for worker in workers if worker.item is not None]
        for worker in busy:
            worker.process.terminate()
        until = time.monotonic() + GRACE
        for worker in busy:
            worker.process.join(max(0.0, until - time.monotonic()))
        for worker in workers:
            worker.pipe.close()
            worker.process.kill()
            worker.process.join()
            self._pool.remove(worker)

    def pids(self) -> list[int]:
        """Process ids of the workers that live."""
        return [worker.process.pid for worker in self._pool if worker.process.pid is not None]

    def _idle(self) -> list[_Worker]:
        if not self._pool:
            give_back_memory()
        while len(self._pool) < self.workers:
            taken = {worker.number for worker in self._pool}
            self._pool.append(self._start(min(set(range(self.workers)) - taken)))
        return [worker for worker in self._pool if worker.item is None]

    def _start(self, number: int) -> _Worker:
        work = _packed(self._work)
        here, there = self._context.Pipe()
        before = {name: os.environ.get(name) for name in ONE_THREAD}
        os.environ.update(ONE_THREAD)  # a spawned process inherits the environment of this moment
        try:
            process = self._context.Process(
                target=_serve, args=(there, carried(), work, os.getpid(), number), daemon=True
            )
            with _main_hidden(), _interrupts_held():
                process.start()
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
        there.close()
        return _Worker(process, here, number)

    def _give(self, worker: _Worker, item: Numbered) -> None:
        worker.item = item
        with suppress(OSError):  # it may be dead: `_answers` will notice
            worker.pipe.send(item[1])

    def _answers(self) -> list[tuple[_Worker, Answer | None]]:
        busy = {worker.pipe: worker for worker in self._pool if worker.item is not None}
        found: list[tuple[_Worker, Answer | None]] = []
        for pipe in wait(list(busy)):
            worker = busy[pipe]  # type: ignore[index]
            try:
                found.append((worker, worker.pipe.recv()))
            except (EOFError, OSError):
                worker.process.join()
                found.append((worker, None))
        return found

    def _free(self, worker: _Worker) -> None:
        worker.item = None

    def _replace(self, worker: _Worker) -> None:
        worker.pipe.close()
        fresh = self._start(worker.number)
        self._pool[self._pool.index(worker)] = fresh
        self.replaced += 1

    def _fate(self, worker: _Worker, number: int) -> str:
        code = worker.process.exitcode or 0
        cause = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return f"worker processes in a row died on the same item (number {number}; the last one {cause})."


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Start a process that Ctrl-C does not reach, not even before it can say so itself: it is the parent's business.

    A process inherits which signals wait. The parent gets a Ctrl-C of this moment when the process is started.
    """
    resource_tracker.ensure_running()  # multiprocessing would start it now, and let signals through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _main_hidden() -> Iterator[None]:
    """Start a process that does not run the user's script again.

    Spawned processes import the parent's main module, so that what it defines can be sent to them. A script without
    `if __name__ == "__main__"` would then start its search once more in every worker. All that recnas sends is
    defined in its own modules, so a worker can do without: with neither a name nor a file to be found, it is left out.
    """
    main = sys.modules["__main__"]
    kept: dict[str, Any] = {name: vars(main)[name] for name in ("__spec__", "__file__") if name in vars(main)}
    main.__spec__ = None
    vars(main).pop("__file__", None)
    try:
        yield
    finally:
        vars(main).update(kept)


class _Looking(pickle.Pickler):
    """Stops at the first thing that a worker could not import."""

    def reducer_override(self, value: Any) -> Any:
        if getattr(value, "__module__", None) == "__main__":
            name = getattr(value, "__qualname__", type(value).__qualname__)
            raise RunError(
                f"{name} is defined in the script that is being run, and worker processes cannot import it from there.",
                "Put it into a module (a file of its own beside the script) and import it, or use workers=1.",
            )
        return NotImplemented


def _packed(work: Work) -> bytes:
    """To be unpacked after the plugins are loaded: some of it may be theirs."""
    into = io.BytesIO()
    _Looking(into).dump(work)
    return into.getvalue()


def _serve(pipe: Connection, plugins: list[Carried], work: bytes, parent: int, number: int) -> None:
    """The life of a worker: open the work, then answer items until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # see _interrupts_held
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # of a terminal: likewise
    _die_with(parent)
    be_worker(number)
    with suppress(Stopped), listening((signal.SIGINT, signal.SIGHUP)):
        _answer(pipe, plugins, work)


def _answer(pipe: Connection, plugins: list[Carried], work: bytes) -> None:
    call = None
    while True:
        try:
            item = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            with one_thread():  # also where the environment (ONE_THREAD) did not reach torch
                if call is None:
                    take(plugins)
                    call = pickle.loads(work).open()
                answer = (True, call(item))
        except RecnasError as error:
            answer = (False, error)
        except Exception as error:
            answer = (False, told(error) or RuntimeError(f"in a worker process:\n{traceback.format_exc()}"))
        try:
            pipe.send(answer)
        except OSError:
            return


def _die_with(parent: int) -> None:
    """Ask the system to end this process when the parent ends, even when that one is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

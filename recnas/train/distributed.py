"""Training over several processes, each started by torchrun with the same command.

    torchrun --nproc-per-node 4 -m recnas train arch.json --data data/criteo --out runs/best

All processes see the same batches as one process would: of each batch, process r takes the r-th stretch of
rows. Tables are sharded (`recnas.model.embeddings.sharded`); the network is whole in every process, and its
gradients are added up before each step, so that all copies stay the same. The gradient is that of the mean
loss over the whole batch, and it is clipped by its norm over everything, wherever it lies. The first process
alone writes files. A checkpoint is the one a single process would write, so a run may go on with another
number of processes.

A fault in one process ends all: it is noted in the group's store, and the others, whose next exchange fails,
say which process failed first and why.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from recnas.data.batch import Batch
from recnas.data.rank_batch import PartBatch
from recnas.errors import ConfigError, RecnasError, RunError
from recnas.train.loop import Trainer
from recnas.train.loss import click_loss_sum
from recnas.train.slice_optim import global_norm, gradients, scale_to

Value = TypeVar("Value")

TIMEOUT_SECONDS = 600.0  # an exchange may wait while the first process writes a checkpoint
TIMEOUT_VARIABLE = "RECNAS_RANK_TIMEOUT"
_BUCKET = 2**24  # values added up in one exchange, so that the copy stays small beside the gradients
_FAULT = "recnas/fault"
_READ = "recnas/fault-read"  # how many processes know it
_FAULT_WAIT = 5.0  # seconds a process whose exchange failed looks for the reason


@dataclass(frozen=True)
class Ranks:
    """This process among those that train together. The default is a process on its own."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0  # on this machine
    local_world: int = 1

    @property
    def first(self) -> bool:
        """Whether this process writes and prints."""
        return self.rank == 0

    @property
    def several(self) -> bool:
        return self.world > 1

    def share(self, value: Value) -> Value:
        """The first process's value, everywhere."""
        if not self.several:
            return value
        told: list[Any] = [value if self.first else None]
        dist.broadcast_object_list(told, 0)
        return told[0]

    def sum(self, value: float) -> float:
        if not self.several:
            return value
        total = torch.tensor(value, dtype=torch.float64)
        dist.all_reduce(total)
        return float(total)

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        """Add up each tensor over all processes, in place; every process ends with the same bits."""
        bucket: list[Tensor] = []
        for tensor in [*tensors, None]:
            if bucket and (tensor is None or sum(t.numel() for t in bucket) + tensor.numel() > _BUCKET):
                flat = torch.cat([one.reshape(-1) for one in bucket])
                dist.all_reduce(flat)
                for one, total in zip(bucket, flat.split([one.numel() for one in bucket])):
                    one.copy_(total.view(one.shape))
                bucket = []
            if tensor is not None:
                bucket.append(tensor)

    def rows(self, mine: Tensor, whole: int) -> Tensor:
        """Rows of all processes in order, `whole` of them; what fills up a share is at the end of it."""
        if not self.several:
            return mine
        parts = [torch.empty_like(mine) for _ in range(self.world)]
        dist.all_gather(parts, mine.contiguous())
        return torch.cat(parts)[:whole]

    def check_batch(self, rows: int, name: str) -> None:
        if rows % self.world:
            fits = max(self.world, rows // self.world * self.world)
            raise ConfigError(
                f"{name} is {rows}, which {self.world} processes cannot share equally.",
                f"Use {name}={fits}, or a number of processes that divides it.",
            )


def current_ranks() -> Ranks:
    """Who this process is: on its own unless `join_ranks` has joined it to others."""
    if not (dist.is_available() and dist.is_initialized()):
        return Ranks()
    world = dist.get_world_size()
    local = int(os.environ.get("LOCAL_RANK", dist.get_rank()))
    return Ranks(dist.get_rank(), world, local, int(os.environ.get("LOCAL_WORLD_SIZE", world)))


@contextmanager
def join_ranks() -> Iterator[Ranks]:
    """Meet the other processes that torchrun started, if it did; leave them at the end."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2 or "RANK" not in os.environ:
        yield Ranks()
        return
    timeout = timedelta(seconds=_timeout())
    try:
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, timeout=timeout)
    except (RuntimeError, ValueError) as error:
        raise RunError(
            f"the processes did not meet: {_first_line(error)}",
            "Start them with: torchrun --nproc-per-node N -m recnas ...",
        ) from error
    store = dist.distributed_c10d._get_default_store()
    restore = _raise_on_sigterm()
    try:
        yield current_ranks()
        dist.barrier()  # nobody leaves while another may still need the store
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        _ignore_sigterm()  # torchrun's comes while this one looks for the reason
        named = _named(error, store)
        _let_others_read(store)
        raise named from error
    finally:
        restore()
        dist.destroy_process_group()


def _timeout() -> float:
    text = os.environ.get(TIMEOUT_VARIABLE, str(TIMEOUT_SECONDS))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise ConfigError(f"{TIMEOUT_VARIABLE} is {text!r}; it is a number of seconds above 0.")
    return seconds


class _Terminated(Exception):
    """torchrun ends the remaining processes with a signal; it becomes an error so that they can say why."""


class OtherRankFailed(RunError):
    """This process is well; another one is not."""

    def __reduce__(self) -> tuple:
        return (RunError, (self.what, self.fix))


def _named(error: BaseException, store: Any) -> BaseException:
    """The error to raise here: one's own if it came first, else the one that did."""
    rank = dist.get_rank()
    if isinstance(error, _Terminated) or _is_lost_peer(error):
        first = _wait_for_fault(store)
        if first is None:
            return RunError(
                f"process {rank} lost the others: one of them ended without a word (killed, or out of memory), or took "
                f"longer than {_timeout():.0f} s ({_first_line(error)}).",
                f"Look at the machine of the one that is gone; {TIMEOUT_VARIABLE} sets the longest wait. The same "
                "command continues from the last checkpoint.",
            )
        return OtherRankFailed(f"process {rank} stops because another failed first. {first}")
    fix = f"\n  -> {error.fix}" if isinstance(error, RecnasError) and error.fix else ""
    what = error.what if isinstance(error, RecnasError) else f"{type(error).__name__}: {_first_line(error)}"
    mine = f"Process {rank}: {what}{fix}"
    try:
        noted = store.compare_set(_FAULT, "", mine).decode()
    except RuntimeError:  # the store went with another process
        return error
    return error if noted == mine else OtherRankFailed(f"process {rank} stops because another failed first. {noted}")


def _is_lost_peer(error: BaseException) -> bool:
    if isinstance(error, (dist.DistBackendError, dist.DistNetworkError, dist.DistStoreError)):
        return True
    signs = ("gloo", "nccl", "connection", "timed out", "peer")
    return type(error) is RuntimeError and any(sign in str(error).lower() for sign in signs)


def _wait_for_fault(store: Any) -> str | None:
    until = time.monotonic() + _FAULT_WAIT
    while time.monotonic() < until:
        try:
            if store.check([_FAULT]):
                return str(store.get(_FAULT).decode())
        except RuntimeError:
            return None
        time.sleep(0.1)
    return None


def _let_others_read(store: Any) -> None:
    """Without torchrun the store lives in the first process: it stays until the others have read the fault, but not long."""
    try:
        if not store.check([_FAULT]):
            return
        until = time.monotonic() + _FAULT_WAIT
        read = store.add(_READ, 1)
        while dist.get_rank() == 0 and read < dist.get_world_size() and time.monotonic() < until:
            time.sleep(0.05)
            read = store.add(_READ, 0)
    except RuntimeError:  # the store went with another process
        return


def _first_line(error: BaseException) -> str:
    text = re.sub(r"^\[\S+:\d+\] ", "", str(error).strip())  # torch's own source line says nothing here
    return (text or type(error).__name__).splitlines()[0].split(". ")[0][:200]


def _ignore_sigterm() -> None:
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _raise_on_sigterm() -> Callable[[], None]:
    if threading.current_thread() is not threading.main_thread():
        return lambda: None

    def stop(number: int, frame: Any) -> None:
        _ignore_sigterm()
        raise _Terminated("stopped by torchrun")

    before = signal.signal(signal.SIGTERM, stop)

    def restore() -> None:
        signal.signal(signal.SIGTERM, before)

    return restore


class RankTrainer(Trainer):
    """`Trainer` for one of several processes; needs sharded tables and a loader with `split_batches`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.ranks = current_ranks()
        self.pending.every = 1  # the norms of shards are added up on the host anyway

    def _train(self, batch: Batch) -> None:
        assert isinstance(batch, PartBatch)
        settings = self.settings
        rate = self.rate()
        network, slices = self.trainee.at_step(self.step)
        self._set_table_rate(rate)
        lookup = self.embeddings.begin(batch.ids)
        with self.autocast():
            logits = network(batch.dense, lookup.leaf)
        # This share's part of the mean over the whole batch: parts and their gradients simply add up.
        weight = None if batch.weight is None else batch.weight[: batch.real]
        real = logits.float()[: batch.real], batch.label[: batch.real]
        losses = click_loss_sum(*real, weight, batch.label_weights)
        whole = batch.whole if weight is None else self.ranks.sum(float(weight.double().sum()))
        loss = losses / (whole or 1.0)  # a batch without any weight has no loss
        loss.backward()
        grads = gradients(slices)
        total = loss.detach()
        self.ranks.sum_([*grads, total])
        self._look_at(total)
        scale = 1.0
        if settings.clip is not None:
            squares = self.ranks.sum(float(lookup.table_gradient().norm().double()) ** 2)
            scale = scale_to((global_norm(grads) ** 2 + squares) ** 0.5, settings.clip)
        self._step(slices, lookup, rate, scale)

    def load(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Continue from what the first process has read; others pass anything. Collective."""
        facts = self.ranks.share(facts)
        if self.ranks.first:
            super().load(tensors, facts)
        else:
            self.embeddings.load_state_dict({})
            state = self.optimizer.state_dict()
            self.optimizer.load_state_dict({**state, "steps": dict(facts["optimizer_steps"])})
            self._go_to(facts)
        with torch.no_grad():
            for tensor in self._whole_tensors().values():
                dist.broadcast(tensor, 0)

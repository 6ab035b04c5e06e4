"""The training loop, for a fixed network and for the supernet alike.

What differs between the two is only which weights a step uses: a `Trainee` says so. Everything else (tables,
clipping, schedule, checkpoints, what happens when the loss is not a number) is the same code.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from recnas.data.batch import Batch
from recnas.data.joined_loader import JoinedLoader
from recnas.data.loader import BatchLoader
from recnas.errors import RunError
from recnas.model.embeddings import Embeddings, Lookup
from recnas.model.embeddings.base import Scale
from recnas.model.nasrec.supernet import Supernet
from recnas.space.nasrec.plan import HEAD_WEIGHT
from recnas.train.loss import click_loss
from recnas.train.paths import PathSampler
from recnas.train.pending import PendingLosses
from recnas.train.schedule import Schedule
from recnas.train.settings import TrainSettings
from recnas.train.slice_optim import Slice, SliceAdagrad, SliceAdamW, SliceOptimizer, clip_factor, gradients
from recnas.train.watch import Watch

Network = Callable[[Tensor, Tensor], Tensor]  # (dense [B, I], embedded [B, F, D]) -> logits [B]


class Trainee(Protocol):
    """Weights by name, and the part of them that a step trains."""

    @property
    def storages(self) -> Mapping[str, Tensor]: ...

    @property
    def buffers(self) -> Mapping[str, Tensor]:
        """What a step changes besides weights, by name: statistics of batch normalisation."""
        ...

    @property
    def lr_shares(self) -> Mapping[str, float]:
        """Storages that learn at a share of the learning rate, by name; all others learn at the whole."""
        ...

    @property
    def output_bias(self) -> Tensor:
        """What is added to every logit, `[1]`: a training from scratch starts it at the click rate."""
        ...

    @property
    def tables_of(self) -> nn.Module:
        """What says how wide its tables are: the network or the supernet."""
        ...

    def at_step(self, step: int) -> tuple[Network, list[Slice]]:
        """The function to train in this step and its leaf tensors."""
        ...


class FixedNetwork:
    """A standalone network, searched or hand-made: every step trains all of it.

    If it has a `begin_step(step)`, that is called before each step: dropout draws from (seed, step), so
    that a resumed training repeats it.
    """

    lr_shares: Mapping[str, float] = {}

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self._begin: Callable[[int], None] | None = getattr(network, "begin_step", None)
        self._slices: list[Slice] = [(name, parameter, name, ()) for name, parameter in network.named_parameters()]

    @property
    def storages(self) -> Mapping[str, Tensor]:
        return {name: parameter for name, parameter, _, _ in self._slices}

    @property
    def buffers(self) -> Mapping[str, Tensor]:
        return dict(self.network.named_buffers())

    @property
    def tables_of(self) -> nn.Module:
        return self.network

    @property
    def output_bias(self) -> Tensor:
        bias = self.network.output_bias  # of a Baseline or a Subnet; no other module is trained by jobs
        assert isinstance(bias, Tensor)
        return bias

    def at_step(self, step: int) -> tuple[Network, list[Slice]]:
        if not self.network.training:
            self.network.train()
        if self._begin is not None:
            self._begin(step)
        return self.network, self._slices


class SupernetPaths:
    """A supernet: every step trains the path that the sampler draws for it."""

    buffers: Mapping[str, Tensor] = {}

    def __init__(self, supernet: Supernet, sampler: PathSampler, head_lr_share: float) -> None:
        self.supernet, self.sampler = supernet, sampler
        self.lr_shares: Mapping[str, float] = {HEAD_WEIGHT: head_lr_share}

    @property
    def storages(self) -> Mapping[str, Tensor]:
        return self.supernet.storages

    @property
    def tables_of(self) -> nn.Module:
        return self.supernet

    @property
    def output_bias(self) -> Tensor:
        return self.supernet.output_bias

    def at_step(self, step: int) -> tuple[Network, list[Slice]]:
        candidate = self.supernet.candidate(self.sampler.path(step))
        return candidate, candidate.slices()


class Trainer:
    """Trains step by step; its state is everything a resumed run needs to go on bit for bit.

    Attributes:
        watch: looks at validation meanwhile; None for a training that does not.
        average: running mean of every weight by name, if settings.average is set (tables are not averaged).
        curve: steps and mean training losses up to them, every so many steps (see `train_with_checkpoints`).
        ended: nothing is left to train; with a watch the weights are then those of the best check.
    """

    def __init__(
        self,
        trainee: Trainee,
        embeddings: Embeddings,
        loader: BatchLoader | JoinedLoader,
        settings: TrainSettings,
        total_steps: int,
        device: torch.device,
    ) -> None:
        self.trainee, self.embeddings, self.loader = trainee, embeddings, loader
        self.settings, self.total_steps, self.device = settings, total_steps, device
        self.optimizer = _optimizer(trainee.storages, settings)
        self.schedule = Schedule(
            settings.schedule,
            settings.lr,
            total_steps,
            warmup=settings.lr_rise_share,
            least_rise=settings.least_rise,
        )
        self.watch: Watch | None = None
        self.average: dict[str, Tensor] | None = None
        if settings.average is not None:
            self.average = {name: tensor.detach().clone() for name, tensor in trainee.storages.items()}
        self.ended = False
        self.step = 0
        self.curve: list[tuple[int, float]] = []
        self.loss_sum = 0.0  # since its last point
        self.loss_steps = 0
        self.last_loss = 0.0  # of those that were read
        self.pending = PendingLosses(device)
        self.autocast = _autocast(settings, device)

    def run(self, on_step: Callable[[Trainer, float], None] | None = None, until: int | None = None) -> None:
        """Train until `total_steps`, or only `until` so many, or until `ended`.

        `on_step(trainer, loss)` is called after every step, with the last loss that was read: on a CPU that of the step.
        """
        for batch in self._batches(self.total_steps if until is None else min(until, self.total_steps)):
            self._train(batch.to(self.device, non_blocking=True))
            self.step += 1
            if self.average is not None:
                self._average(self.average)
            if on_step is not None:
                on_step(self, self.last_loss)
            if self.ended:
                break
        self.settle()

    def settle(self) -> None:
        """Read the losses that are not read yet: before anything is kept, evaluated or ended.

        Raises:
            NotFinite: names the first step whose loss is not a number.
        """
        for loss in self.pending.read():
            self.loss_sum += loss
            self.loss_steps += 1
            self.last_loss = loss

    def _look_at(self, loss: Tensor) -> None:
        """The loss of this step, now or later; on a CPU before anything is changed by it."""
        self.pending.add(loss.detach(), self.step, self.loader.state_dict())
        if self.pending.due:
            self.settle()

    def _batches(self, last: int) -> Iterator[Batch]:
        while self.step < last and not self.ended:
            for batch in self.loader.epoch():
                yield batch
                if self.step >= last or self.ended:
                    return

    @property
    def trained_steps(self) -> int:
        """Steps that were computed, those after the best check included."""
        return self.watch.checks[-1].step if self.watch is not None and self.watch.checks else self.step

    def rate(self) -> float:
        """Of the next step."""
        rate = self.schedule(self.step)
        if self.settings.schedule == "plateau" and self.watch is not None:
            rate *= self.watch.rate_factor()
        return rate

    @torch.no_grad()
    def _average(self, average: dict[str, Tensor]) -> None:
        """Early steps weigh less than `settings.average` says, or the mean would remember the start."""
        assert self.settings.average is not None
        share = max(1 - self.settings.average, 1 / (self.step + 1))
        torch._foreach_lerp_(list(average.values()), [t.detach() for t in self.trainee.storages.values()], share)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Within, the network has its averaged weights, if there are such. Whoever evaluates comes by here."""
        self.settle()
        if self.average is None:
            yield
            return
        self._swap(self.average)
        try:
            yield
        finally:
            self._swap(self.average)

    @torch.no_grad()
    def take_average(self) -> None:
        """End with the averaged weights."""
        if self.average is not None:
            for name, storage in self.trainee.storages.items():
                storage.copy_(self.average[name])

    @torch.no_grad()
    def _swap(self, others: dict[str, Tensor]) -> None:
        for name, storage in self.trainee.storages.items():
            held = storage.detach().clone()
            storage.copy_(others[name])
            others[name].copy_(held)

    def _train(self, batch: Batch) -> None:
        settings = self.settings
        rate = self.rate()
        network, slices = self.trainee.at_step(self.step)
        self._set_table_rate(rate)
        lookup = self.embeddings.begin(batch.ids)
        with self.autocast():
            logits = network(batch.dense, lookup.leaf)
        loss = click_loss(logits.float(), batch.label, batch.weight, batch.label_weights)
        loss.backward()
        self._look_at(loss)
        scale: Scale = 1.0
        if settings.clip is not None:
            scale = clip_factor([*gradients(slices), lookup.table_gradient()], settings.clip)
        self._step(slices, lookup, rate, scale)

    def _set_table_rate(self, rate: float) -> None:
        """Before the lookup: fused kernels take their rate along in the forward pass."""
        own = self.settings.embeddings.lr
        self.embeddings.set_lr(rate if own is None else rate / self.settings.lr * own)

    def _step(self, slices: list[Slice], lookup: Lookup, rate: float, scale: Scale) -> None:
        shares = self.trainee.lr_shares
        for name, share in shares.items():
            self.optimizer.step([one for one in slices if one[2] == name], rate * share, scale)
        self.optimizer.step([one for one in slices if one[2] not in shares], rate, scale)
        lookup.apply(scale)

    def take_mean_loss(self) -> float | None:
        """Mean training loss since the last call."""
        self.settle()
        mean = self.loss_sum / self.loss_steps if self.loss_steps else None
        self.loss_sum, self.loss_steps = 0.0, 0
        return mean

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor of the state by name, aliases of the live memory."""
        found = self._whole_tensors()
        for part, tables in self.embeddings.state_dict().items():
            found |= {f"embeddings/{part}/{name}": tensor for name, tensor in tables.items()}
        return found

    def _whole_tensors(self) -> dict[str, Tensor]:
        """Network and optimizer: what every process that trains along has all of."""
        found = {f"network/{name}": tensor.detach() for name, tensor in self._weights().items()}
        if self.average is not None:
            found |= {f"average/weights/{name}": tensor for name, tensor in self.average.items()}
        for part, value in self.optimizer.state_dict().items():
            if part != "steps":
                found |= {f"optimizer/{part}/{name}": tensor for name, tensor in value.items()}
        return found

    def _weights(self) -> dict[str, Tensor]:
        return {**self.trainee.storages, **self.trainee.buffers}

    def facts(self) -> dict[str, Any]:
        """The rest of the state, as JSON."""
        self.settle()
        return {
            "step": self.step,
            "total_steps": self.total_steps,
            "loss_sum": self.loss_sum,
            "loss_steps": self.loss_steps,
            "position": self.loader.state_dict(),
            "optimizer_steps": self.optimizer.state_dict().get("steps", {}),
            "table_steps": self.embeddings.steps,
            "ended": self.ended,
            "curve": self.curve,
            "watch": self.watch.state() if self.watch is not None else None,
        }

    @torch.no_grad()
    def load(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        parts: dict[str, dict[str, Any]] = {}
        for name, tensor in tensors.items():
            where, _, rest = name.partition("/")
            if where == "network":
                parts.setdefault("network", {})[rest] = tensor
            else:
                part, _, rest = rest.partition("/")
                parts.setdefault(f"{where}/{part}", {})[rest] = tensor
        mine = self._weights()
        if mine.keys() != parts.get("network", {}).keys():
            raise RunError("The checkpoint holds another network.", "Start a new run directory.")
        for name, storage in mine.items():
            storage.copy_(parts["network"][name])
        optimizer = {key.partition("/")[2]: value for key, value in parts.items() if key.startswith("optimizer/")}
        self.optimizer.load_state_dict({**optimizer, "steps": dict(facts["optimizer_steps"])})
        if self.average is not None:
            for name, tensor in self.average.items():
                tensor.copy_(parts["average/weights"][name])
        self.embeddings.load_state_dict(
            {key.partition("/")[2]: value for key, value in parts.items() if key.startswith("embeddings/")}
        )
        self._go_to(facts)

    def _go_to(self, facts: Mapping[str, Any]) -> None:
        self.pending.forget()
        self.loader.load_state_dict(facts["position"])
        self.step = int(facts["step"])
        self.embeddings.set_steps(int(facts["table_steps"]))
        self.ended = bool(facts["ended"])
        self.curve = [(int(step), float(loss)) for step, loss in facts["curve"]]
        if self.watch is not None and facts["watch"] is not None:
            self.watch.load(facts["watch"])
        self.loss_sum, self.loss_steps = float(facts["loss_sum"]), int(facts["loss_steps"])


def _optimizer(storages: Mapping[str, Tensor], settings: TrainSettings) -> SliceOptimizer:
    if settings.optimizer == "adagrad":
        return SliceAdagrad(storages, eps=settings.eps)
    return SliceAdamW(storages, weight_decay=settings.weight_decay)


def _autocast(settings: TrainSettings, device: torch.device) -> Callable[[], Any]:
    if settings.precision != "bfloat16":  # what is compared is computed alike everywhere, unless a user asks
        return nullcontext
    return lambda: torch.autocast(device.type, dtype=torch.bfloat16)


class Pace:
    """Says when a fixed number of seconds has passed since it last said so."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._last = time.monotonic()

    def due(self) -> bool:
        if time.monotonic() - self._last < self.seconds:
            return False
        self._last = time.monotonic()
        return True

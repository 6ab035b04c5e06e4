"""One watched forward pass over the first batch, and the backward passes several metrics share.

    taped = stats.get(RecordedPass)
    taped.layers, taped.before_relu        # what the network reported
    taped.loss_gradients.outputs[id(use.output)]

Three backward passes at most, each run when first asked for, on one kept graph: the mean loss (with respect
to layer outputs and parameters), the true-class logits (layer outputs only: weights cost nothing), and the
sum of all logits (inputs). The pass holds every activation; `stats.drop(RecordedPass)` frees it. The small
numbers most metrics need are in `FirstGradient`, which outlives it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self, TypeVar

import torch
from torch import Tensor

from recnas.model.observe import ConvUse, LinearUse, Observed, listen
from recnas.proxies.base import ProxyError, Stats, check_all_finite, check_finite, read
from recnas.proxies.network import mean_loss, true_logits

K = TypeVar("K")

CONSTANT_LOGITS = "the logits are the same for every example: no live path from the inputs"


def dead_reason(logits: Tensor) -> str | None:
    """Why nothing can be said about a network with these logits; None if they differ between examples.

    Equal up to rounding counts as equal: a matrix product may round equal rows differently.
    """
    logits = logits.detach()
    if not len(logits):
        raise ProxyError("the first batch is empty.", "Score with batches of at least one example.")
    if len(logits) == 1:
        return None
    spread = (logits.amax(0) - logits.amin(0)).max()
    rounding = 8 * torch.finfo(logits.dtype).eps * logits.abs().max()
    return CONSTANT_LOGITS if bool(spread.double() <= rounding.double()) else None


@dataclass(frozen=True)
class Gradients:
    """Of one scalar: by parameter name, and by `id` of a layer's output. What is not reached is missing."""

    params: Mapping[str, Tensor]
    outputs: Mapping[int, Tensor]


class RecordedPass:
    """The first batch's forward pass with everything the network reported; backward passes on demand."""

    def __init__(self, stats: Stats) -> None:
        batch = stats.batches[0]
        self.params = dict(stats.network.params)
        self.batch, self.labels = batch, batch.labels
        self.inputs = tuple(x.detach().requires_grad_(x.is_floating_point()) for x in batch.inputs)
        self.observed = Observed()
        with torch.enable_grad(), listen(self.observed):
            self.logits = stats.network.forward(self.params, self.inputs)
        check_finite("(logits)", self.logits.detach(), "the value")
        self.dead = dead_reason(self.logits)

    @classmethod
    def compute(cls, stats: Stats) -> Self:
        return cls(stats)

    @classmethod
    def passes(cls, batches: int, batch_size: int) -> float:
        return 1  # over the first batch

    def __len__(self) -> int:
        """Examples in the batch."""
        return len(self.logits)

    @property
    def layers(self) -> Sequence[LinearUse | ConvUse]:
        return self.observed.layers

    @property
    def before_relu(self) -> Sequence[tuple[Tensor, int]]:
        """Pre-activations and the axis that numbers the examples."""
        return self.observed.before_relu

    @cached_property
    def outputs(self) -> dict[int, Tensor]:
        """Distinct layer outputs by `id`; several uses may add up to one of them."""
        return {id(use.output): use.output for use in self.layers}

    @cached_property
    def loss_gradients(self) -> Gradients:
        """Of the mean loss."""
        names, ids = list(self.params), list(self.outputs)
        with torch.enable_grad():
            loss = mean_loss(self.logits, self.batch)
        found = _gradients(loss, [*self.params.values(), *self.outputs.values()])
        by_name = _present(names, found[: len(names)])
        outputs = _present(ids, found[len(names) :])
        check_all_finite(by_name)
        self._check_reports(by_name, outputs)
        return Gradients(by_name, outputs)

    @cached_property
    def logit_gradients(self) -> Gradients:
        """Of the sum over examples of their true-class logit; layer outputs only."""
        with torch.enable_grad():
            total = true_logits(self.logits, self.labels, self.batch.label_weights).sum()
        found = _gradients(total, list(self.outputs.values()))
        return Gradients({}, _present(list(self.outputs), found))

    @cached_property
    def input_gradients(self) -> Tensor:
        """Of the sum of all logits with respect to each example's inputs, flattened: `[B, n]`, float64."""
        inputs = [x for x in self.inputs if x.requires_grad]
        with torch.enable_grad():
            total = self.logits.sum()
        found = _gradients(total, inputs)
        rows = [torch.zeros_like(x) if g is None else g for x, g in zip(inputs, found)]
        jacobian = torch.cat([row.flatten(1).double() for row in rows], 1)
        check_finite("(the inputs)", jacobian)
        return jacobian

    def _check_reports(self, by_name: Mapping[str, Tensor], outputs: Mapping[int, Tensor]) -> None:
        """A weight with a gradient whose reported output has none means the network reported another tensor."""
        reached = {id(use.weight) for use in self.layers if id(use.output) in outputs}
        unreached = {id(use.weight) for use in self.layers} - reached
        doubtful = [name for name in by_name if id(self.params[name]) in unreached]
        for name, found in zip(doubtful, read([by_name[name].any() for name in doubtful])):
            if found:
                raise ProxyError(
                    f"the network reports an output of parameter {name!r} that its logits do not depend on.",
                    "Report to recnas.model.observe the very tensor the next layer reads, not a copy or a view of it.",
                )


def _gradients(scalar: Tensor, inputs: Sequence[Tensor]) -> Sequence[Tensor | None]:
    inside = [x.requires_grad for x in inputs]
    if not scalar.requires_grad or not any(inside):
        return [None] * len(inputs)
    wanted = [x for x, yes in zip(inputs, inside) if yes]
    found = iter(torch.autograd.grad(scalar, wanted, retain_graph=True, allow_unused=True))
    return [next(found) if yes else None for yes in inside]


def _present(keys: Sequence[K], found: Sequence[Tensor | None]) -> dict[K, Tensor]:
    return {key: gradient for key, gradient in zip(keys, found) if gradient is not None}


@dataclass
class ParameterSums:
    """What the first batch's gradient says about one parameter (all its leaves together)."""

    name: str
    is_weight: bool  # a matrix or filter, not a bias and not the gain of a normalisation
    on_layer: bool = False  # read by a linear layer or convolution that the network reported
    squared_gradient: float = 0.0  # |g|^2
    snip: float = 0.0  # sum |theta g|
    dot: float = 0.0  # theta . g


@dataclass
class FirstGradient:
    """Sums over the gradient of the first batch's mean loss, by parameter."""

    parameters: list[ParameterSums]
    dead: str | None

    @classmethod
    def passes(cls, batches: int, batch_size: int) -> float:
        return 0  # sums over what the recorded pass holds

    @classmethod
    def compute(cls, stats: Stats) -> Self:
        taped = stats.get(RecordedPass)
        grouped: dict[str, ParameterSums] = {}
        owners, scalars = list[ParameterSums](), list[Tensor]()
        on_layers = {id(tensor) for use in taped.layers for tensor in (use.weight, use.bias) if tensor is not None}
        for name, leaf in taped.params.items():
            group = stats.group_of(name)
            sums = grouped.setdefault(group, ParameterSums(group, leaf.dim() > 1))
            sums.on_layer |= id(leaf) in on_layers
            gradient = taped.loss_gradients.params.get(name)
            if gradient is None:
                continue
            product = leaf.detach() * gradient
            owners.append(sums)
            scalars += [one.sum(dtype=torch.float64) for one in (gradient.square(), product.abs(), product)]
        values = iter(read(scalars))
        for sums in owners:
            sums.squared_gradient += next(values)
            sums.snip += next(values)
            sums.dot += next(values)
        return cls(list(grouped.values()), taped.dead)

    def weights(self) -> list[ParameterSums]:
        """Matrices and filters only: what zero-cost metrics traditionally sum over."""
        return [sums for sums in self.parameters if sums.is_weight]

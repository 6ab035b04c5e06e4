"""Optimizers that touch only the slices of shared weights that a step used.

State (Adagrad's sum of squares, Adam's moments) is kept at full size under the name of the storage and cut
with the same regions as the weights. What a step did not use keeps its weights and its state, bit for bit.
A standalone network is the case where every slice is a whole parameter.

    optimizer = SliceAdagrad(supernet.storages)
    loss.backward()
    slices = candidate.slices()
    optimizer.step(slices, lr=0.12, scale=clip_scale(gradients(slices), max_norm=5.0))

`step` frees each gradient as soon as it is applied, and works in bounded pieces: next to weights, gradients
and state of the same size there is no room for a fourth copy. On another device than the CPU many leaves are updated
at once, and the factor that clips them stays there, so that the host never waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from recnas.errors import RunError
from recnas.model import memory
from recnas.model.embeddings.base import Scale

Slice = tuple[str, Tensor, str, tuple[slice, ...]]  # leaf name, leaf, storage name, region of the storage

_ELEMENTS_AT_A_TIME = 2**19  # 2 MB per temporary: it stays in cache
_ELEMENTS_TOGETHER = 2**26  # on a device: 256 MB of temporaries


class SliceOptimizer(Protocol):
    """What a training loop needs of an optimizer."""

    def step(self, slices: Iterable[Slice], lr: float, scale: Scale = 1.0) -> None: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


def gradients(slices: Iterable[Slice]) -> list[Tensor]:
    return [leaf.grad for _, leaf, _, _ in slices if leaf.grad is not None]


def global_norm(grads: Sequence[Tensor]) -> float:
    """Euclidean norm over all gradients together."""
    return float(torch.stack(torch._foreach_norm(list(grads))).norm()) if grads else 0.0


def clip_scale(grads: Sequence[Tensor], max_norm: float) -> float:
    """The factor that brings the global norm down to `max_norm`, 1.0 if it is not above.

    A factor rather than scaled gradients: the optimizer multiplies it in, so nothing is written twice.
    """
    return scale_to(global_norm(grads), max_norm)


@torch.no_grad()
def clip_factor(grads: Sequence[Tensor], max_norm: float) -> Scale:
    """`clip_scale`, as a scalar on the device if any of the gradients is on one; they need not all be in one place.

    Tables that are kept in host memory have their gradients there: only their norm is sent to the others.
    """
    device = next((grad.device for grad in grads if grad.device.type != "cpu"), None)
    if device is None:
        return clip_scale(grads, max_norm)
    norms = []
    for where in dict.fromkeys(grad.device for grad in grads):
        here = torch._foreach_norm([grad for grad in grads if grad.device == where])
        norms.append(torch.stack(here).norm().to(device, non_blocking=True))
    norm = torch.stack(norms).norm()
    return torch.where(norm > max_norm, max_norm / (norm + 1e-6), torch.ones_like(norm))


def scale_to(norm: float, max_norm: float) -> float:
    """`clip_scale` of a norm that is known."""
    return min(1.0, max_norm / (norm + 1e-6)) if norm > max_norm else 1.0


class SliceAdagrad:
    """Adagrad: `sum += g^2`, `w -= lr g / (sqrt(sum) + eps)`. The reference trains with eps = 1e-2."""

    def __init__(self, storages: Mapping[str, Tensor], eps: float = 1e-2) -> None:
        self.eps = eps
        self.sums = {name: torch.zeros_like(storage) for name, storage in storages.items()}

    @torch.no_grad()
    def step(self, slices: Iterable[Slice], lr: float, scale: Scale = 1.0) -> None:
        """Apply the gradients of the leaves, multiplied by `scale`, and free them."""
        slices = list(slices)
        if _on_device(slices):
            self._step_together(slices, lr, scale)
            return
        scale, updated = float(scale), 0
        for _, leaf, storage, region in slices:
            if leaf.grad is None:
                continue
            for weight, grad, total in _bounded(leaf, leaf.grad, self.sums[storage][region]):
                total.addcmul_(grad, grad, value=scale * scale)
                weight.addcdiv_(grad, total.sqrt().add_(self.eps), value=-lr * scale)
            leaf.grad = None
            updated += leaf.numel()
        _tidy(updated)

    def _step_together(self, slices: list[Slice], lr: float, scale: Scale) -> None:
        for group in _groups(slices):
            weights, grads = _weights_and_gradients(group, scale)
            totals = [self.sums[storage][region] for _, _, storage, region in group]
            torch._foreach_addcmul_(totals, grads, grads)
            roots = torch._foreach_sqrt(totals)
            torch._foreach_add_(roots, self.eps)
            torch._foreach_addcdiv_(weights, grads, roots, value=-lr)

    def state_dict(self) -> dict[str, Any]:
        return {"sums": dict(self.sums)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        _load(self.sums, state["sums"])


class SliceAdamW:
    """AdamW whose moments advance only where a step used them.

    Steps are counted per leaf, so the bias correction of a slot that is rarely read is its own. For whole
    parameters this is the usual AdamW.
    """

    def __init__(
        self,
        storages: Mapping[str, Tensor],
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        self.betas, self.eps, self.weight_decay = betas, eps, weight_decay
        self.means = {name: torch.zeros_like(storage) for name, storage in storages.items()}
        self.squares = {name: torch.zeros_like(storage) for name, storage in storages.items()}
        self.steps: dict[str, int] = {}

    @torch.no_grad()
    def step(self, slices: Iterable[Slice], lr: float, scale: Scale = 1.0) -> None:
        """Apply the gradients of the leaves, multiplied by `scale`, and free them."""
        slices = list(slices)
        if _on_device(slices):
            self._step_together(slices, lr, scale)
            return
        beta1, beta2 = self.betas
        scale, updated = float(scale), 0
        for name, leaf, storage, region in slices:
            if leaf.grad is None:
                continue
            count = self.steps[name] = self.steps.get(name, 0) + 1
            rate = lr / (1 - beta1**count)
            root = (1 - beta2**count) ** -0.5
            tensors = leaf, leaf.grad, self.means[storage][region], self.squares[storage][region]
            for weight, grad, mean, square in _bounded(*tensors):
                if self.weight_decay:
                    weight.mul_(1 - lr * self.weight_decay)
                mean.mul_(beta1).add_(grad, alpha=scale * (1 - beta1))
                square.mul_(beta2).addcmul_(grad, grad, value=scale * scale * (1 - beta2))
                weight.addcdiv_(mean, square.sqrt().mul_(root).add_(self.eps), value=-rate)
            leaf.grad = None
            updated += leaf.numel()
        _tidy(updated)

    def _step_together(self, slices: list[Slice], lr: float, scale: Scale) -> None:
        beta1, beta2 = self.betas
        for group in _groups(slices):
            weights, grads = _weights_and_gradients(group, scale)
            means = [self.means[storage][region] for _, _, storage, region in group]
            squares = [self.squares[storage][region] for _, _, storage, region in group]
            rates, roots = [], []
            for name, *_ in group:
                count = self.steps[name] = self.steps.get(name, 0) + 1
                rates.append(-lr / (1 - beta1**count))
                roots.append((1 - beta2**count) ** -0.5)
            if self.weight_decay:
                torch._foreach_mul_(weights, 1 - lr * self.weight_decay)
            torch._foreach_mul_(means, beta1)
            torch._foreach_add_(means, grads, alpha=1 - beta1)
            torch._foreach_mul_(squares, beta2)
            torch._foreach_addcmul_(squares, grads, grads, value=1 - beta2)
            below = torch._foreach_sqrt(squares)
            torch._foreach_mul_(below, roots)
            torch._foreach_add_(below, self.eps)
            torch._foreach_addcdiv_(weights, means, below, rates)

    def state_dict(self) -> dict[str, Any]:
        return {"means": dict(self.means), "squares": dict(self.squares), "steps": dict(self.steps)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        _load(self.means, state["means"])
        _load(self.squares, state["squares"])
        self.steps = dict(state["steps"])


def _on_device(slices: Sequence[Slice]) -> bool:
    return bool(slices) and slices[0][1].device.type != "cpu"


def _groups(slices: Sequence[Slice]) -> Iterator[list[Slice]]:
    """Leaves that have a gradient, so many at a time that temporaries stay bounded."""
    group: list[Slice] = []
    elements = 0
    for one in slices:
        if one[1].grad is None:
            continue
        if group and elements + one[1].numel() > _ELEMENTS_TOGETHER:
            yield group
            group, elements = [], 0
        group.append(one)
        elements += one[1].numel()
    if group:
        yield group


def _weights_and_gradients(group: Sequence[Slice], scale: Scale) -> tuple[list[Tensor], list[Tensor]]:
    """The leaves and their gradients, multiplied by `scale` in place and taken away from them."""
    weights, grads = [], []
    for _, leaf, _, _ in group:
        assert leaf.grad is not None
        weights.append(leaf.detach())
        grads.append(leaf.grad)
        leaf.grad = None
    if isinstance(scale, Tensor):
        torch._foreach_mul_(grads, scale.to(grads[0].device))
    elif scale != 1.0:
        torch._foreach_mul_(grads, scale)
    return weights, grads


def _bounded(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The same leading rows of every tensor, few enough at a time that temporaries stay small."""
    first = tensors[0]
    if first.numel() <= _ELEMENTS_AT_A_TIME:
        yield tensors
        return
    rows = max(1, _ELEMENTS_AT_A_TIME * first.shape[0] // first.numel())
    for start in range(0, first.shape[0], rows):
        yield tuple(tensor[start : start + rows] for tensor in tensors)


def _tidy(updated: int) -> None:
    """After a large step, hand the memory of its gradients back: the next step may need it elsewhere."""
    if updated >= memory.LARGE:
        memory.trim()


def _load(mine: dict[str, Tensor], saved: Mapping[str, Tensor]) -> None:
    if mine.keys() != saved.keys() or any(mine[name].shape != saved[name].shape for name in mine):
        raise RunError(
            "the saved optimizer state belongs to other weights: names or shapes differ",
            "resume with the space, data and options the state was saved with",
        )
    for name, tensor in mine.items():
        tensor.copy_(saved[name])

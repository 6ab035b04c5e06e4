"""SiGeo as its public code computes it, for reproduction; `recnas.proxies.sigeo` has the paper's definition.

The two differ in more than details. For click networks the public code

- takes an Adagrad step (learning rates 1e-8, 1e-8, 8e-4, 1.6e-3, ...: a cosine schedule's warm-up) after each
  batch, with gradients clipped to norm 5, and reads the clipped gradients and the weights after the last step;
- merges gradients whose layers look alike (same kind and width, same number of entries) as if they were more
  batches of one parameter;
- keeps ONE coordinate of each group, the first whose spread over the rows is not zero;
- has |sum of theta . g_b| + 1e-10 under the logarithm instead of the mean of squares;
- takes the loss of the last batch; and
- in the published commands freezes all but the last layer.

For vision the code has an SGD step of learning rate 1, all coordinates, convolution and linear weights only,
and 2 log( sum over layers of |sum over batches of theta . g_b| + 1e-5 ).

Nothing of the network changes: steps are taken on copies, and Adagrad starts anew for each network. Where the public code stops with an exception (a
group in which nothing varies) the score is the documented worst.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from recnas.proxies.base import Proxy, Score, Stats, check_finite
from recnas.proxies.network import mean_loss
from recnas.proxies.sigeo import Lambdas

CLIP = 5.0
_PEAK, _WARMUP_STEPS, _START = 0.04, 50, 1e-8
NO_SPREAD = "a group of gradients does not vary: the public code stops here with an IndexError"
NO_GROUP = "no group has a ratio above zero: the public code stops here with an AttributeError"

Rows = Sequence[Mapping[str, Tensor]]


@dataclass(frozen=True)
class ReleasedTerms:
    """The gradient terms, or why the public code would have stopped."""

    zico: float = 0.0
    fr: float = 0.0
    reason: str | None = None


def merged_terms(gradients: Rows, thetas: Mapping[str, Tensor], groups: Mapping[str, str]) -> ReleasedTerms:
    """The click code's ZiCo and Fisher-Rao terms.

    Args:
        gradients: one mapping from parameter to gradient per batch, in order.
        thetas: the parameters after the last batch, in the network's order.
        groups: the kind of layer each parameter belongs to. Parameters of equal kind and size are one group,
            and the group's gradients are paired with the LAST of its parameters.
    """
    rows: dict[tuple[str, int], list[Tensor]] = {}
    last: dict[tuple[str, int], Tensor] = {}
    for found in gradients:
        for name, gradient in found.items():
            key = groups[name], gradient.numel()
            rows.setdefault(key, []).append(gradient.flatten())
            last[key] = thetas[name].flatten()
    zico, product, counted = 0.0, 0.0, 0
    for key, group in rows.items():
        stacked = torch.stack(group)
        product += float((stacked.sum(0) * last[key]).sum(dtype=torch.float64))
        spread = stacked.std(0)  # unbiased
        varying = torch.nonzero(spread)
        if not len(varying):
            return ReleasedTerms(reason=NO_SPREAD)
        first = int(varying[0])
        ratio = float(stacked[:, first].abs().mean() / spread[first])
        if ratio > 0:
            zico += math.log(ratio)
            counted += 1
    if not counted:
        return ReleasedTerms(reason=NO_GROUP)
    return ReleasedTerms(zico, math.log(abs(product) + 1e-10))


def vision_terms(gradients: Rows, thetas: Mapping[str, Tensor]) -> ReleasedTerms:
    """The vision code's terms: all coordinates, population spread, absolute value per layer."""
    zico, total, counted = 0.0, 0.0, 0
    for name, theta in thetas.items():
        stacked = torch.stack([found[name].flatten() for found in gradients]).double()
        spread = stacked.std(0, correction=0)
        varies = spread > 0
        ratio = float((stacked.abs().mean(0)[varies] / spread[varies]).sum())
        if ratio > 0:
            zico += math.log(ratio)
            counted += 1
        total += abs(float((stacked.sum(0) * theta.flatten()).sum()))
    if not counted:
        return ReleasedTerms(reason=NO_GROUP)
    return ReleasedTerms(zico, 2 * math.log(total + 1e-5))


def layer_kinds(stats: Stats) -> dict[str, str]:
    """By parameter, what stands in for `repr(module)`: parameters under one path are a layer, named by its shape.

    So a normalisation's gain and bias look alike, as do layers of equal widths, while a Linear's bias differs
    from its weight by size. A network may say better with an attribute `layer_kinds`.
    """
    given: Mapping[str, str] | None = getattr(stats.network, "layer_kinds", None)
    if given is not None:
        return dict(given)
    shapes: dict[str, tuple[int, ...]] = {}
    sizes: dict[str, int] = {}
    for leaf_name, leaf in stats.network.params.items():
        name = stats.group_of(leaf_name)
        shapes.setdefault(name, tuple(leaf.shape))
        sizes[name] = sizes.get(name, 0) + leaf.numel()
    layers: dict[str, tuple[int, str]] = {}
    for name, shape in shapes.items():
        out = shape[0] if shape else 1
        kind = len(shape), f"{out} x {sizes[name] // max(1, out)} {shape[2:]}"
        path = name.rpartition(".")[0]
        layers[path] = max(layers.get(path, (-1, "")), kind)
    return {name: layers[name.rpartition(".")[0]][1] for name in shapes}


def whole(stats: Stats, leaves: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Flat tensors by parameter: the pieces of a parameter that is used in several, one after the other."""
    pieces: dict[str, list[Tensor]] = {}
    for name, leaf in leaves.items():
        pieces.setdefault(stats.group_of(name), []).append(leaf.flatten())
    return {name: parts[0] if len(parts) == 1 else torch.cat(parts) for name, parts in pieces.items()}


def head_of(network: object, params: Mapping[str, Tensor]) -> tuple[str, ...]:
    """The last layer: the network's attribute `head` if it has one, else its last two parameters."""
    given: tuple[str, ...] | None = getattr(network, "head", None)
    return tuple(params)[-2:] if given is None else given


def released_rates() -> Iterator[float]:
    """Learning rates of the click code, step by step."""
    yield _START
    step = 0
    while True:
        yield max(_START, _PEAK * min(step, _WARMUP_STEPS) / _WARMUP_STEPS)
        step += 1


@dataclass
class Streamed:
    """Gradients of every batch, the parameters after the last step, and the last batch's loss."""

    gradients: list[dict[str, Tensor]]
    thetas: dict[str, Tensor]
    loss: float


class _Stream:
    """Batch after batch on copies of some parameters; what is done with a gradient is the subclass's affair."""

    def __init__(self, stats: Stats, names: Sequence[str]) -> None:
        self.stats = stats
        self.params = {name: leaf.detach() for name, leaf in stats.network.params.items()}
        for name in names:
            self.params[name] = self.params[name].clone().requires_grad_()
        self.names = list(names)

    def run(self) -> Streamed:
        gradients, loss = [], 0.0
        for batch in self.stats.batches:
            leaves = [self.params[name] for name in self.names]
            with torch.enable_grad():
                mean = mean_loss(self.stats.network.forward(self.params, batch.inputs), batch)
            found: Sequence[Tensor | None] = [None] * len(leaves)
            if mean.requires_grad:
                found = torch.autograd.grad(mean, leaves, allow_unused=True)
            loss = float(mean.detach())
            rows = {name: g for name, g in zip(self.names, found) if g is not None}
            for name, gradient in rows.items():
                check_finite(name, gradient)
            gradients.append(rows)
            self.step(rows)
        return Streamed(gradients, {name: self.params[name].detach() for name in self.names}, loss)

    def step(self, gradients: dict[str, Tensor]) -> None:
        raise NotImplementedError


class _ClickStream(_Stream):
    """Clip in place, then Adagrad."""

    def __init__(self, stats: Stats, names: Sequence[str], move: bool) -> None:
        super().__init__(stats, names)
        self.move, self.rates = move, released_rates()
        self.squares: dict[str, Tensor] = {}

    @torch.no_grad()
    def step(self, gradients: dict[str, Tensor]) -> None:
        if not gradients:
            return
        norm = float(torch.stack([g.norm() for g in gradients.values()]).norm())
        scale = min(1.0, CLIP / (norm + 1e-6))
        rate = next(self.rates)
        for name, gradient in gradients.items():
            if scale < 1.0:
                gradient.mul_(scale)
            if self.move:
                squares = self.squares.setdefault(name, torch.zeros_like(gradient))
                squares.addcmul_(gradient, gradient)
                self.params[name].addcdiv_(gradient, squares.sqrt().add_(1e-10), value=-rate)


class _VisionStream(_Stream):
    """Plain SGD of learning rate 1."""

    @torch.no_grad()
    def step(self, gradients: dict[str, Tensor]) -> None:
        for name, gradient in gradients.items():
            self.params[name].sub_(gradient)


class SiGeoReleased(Proxy):
    """SiGeo as the released code for clicks computes it. High is good; the code itself reports the negated value as a loss.

    Args:
        lambdas: weights of the terms; the published scripts set them run by run.
        last_layer_only: freeze all but the last layer, as every published command does.
        steps: take the Adagrad steps; without them the weights stay where they are.
    """

    name = "sigeo_released"
    min_batches = 2

    def __init__(self, lambdas: Lambdas | None = None, last_layer_only: bool = False, steps: bool = True) -> None:
        self.lambdas, self.last_layer_only, self.steps = lambdas or Lambdas(), last_layer_only, steps

    def score(self, stats: Stats) -> Score:
        params = stats.network.params
        names = head_of(stats.network, params) if self.last_layer_only else tuple(params)
        streamed = _ClickStream(stats, names, self.steps).run()
        reached = {name: theta for name, theta in streamed.thetas.items() if name in streamed.gradients[0]}
        rows = [whole(stats, gradients) for gradients in streamed.gradients]
        terms = merged_terms(rows, whole(stats, reached), layer_kinds(stats))
        return _combine(self, terms, streamed.loss, self.lambdas)


class SiGeoReleasedVision(Proxy):
    """SiGeo as the released code for images computes it, weights of convolutions and linear layers only."""

    name = "sigeo_released_vision"
    min_batches = 2

    def __init__(self, lambdas: Lambdas | None = None) -> None:
        self.lambdas = lambdas or Lambdas.for_case("vision", warmed=False)

    def score(self, stats: Stats) -> Score:
        names = [name for name, leaf in stats.network.params.items() if leaf.dim() > 1]
        streamed = _VisionStream(stats, names).run()
        live = {
            name: theta for name, theta in streamed.thetas.items() if all(name in row for row in streamed.gradients)
        }
        return _combine(self, vision_terms(streamed.gradients, live), streamed.loss, self.lambdas)


def _combine(proxy: Proxy, terms: ReleasedTerms, loss: float, weights: Lambdas) -> Score:
    if terms.reason is not None:
        return proxy.degenerate(terms.reason, {"loss": loss})
    value = weights.zico * terms.zico + weights.fr * terms.fr - weights.loss * loss
    return Score(value, {"zico": terms.zico, "fr": terms.fr, "loss": loss})

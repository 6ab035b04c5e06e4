"""One-shot supernets of vision spaces: weights for every operation at every place, and a choice among them.

    supernet = build_supernet("nasbench201", classes=10, image=32, channels=4, cells=1, seed=0)
    picks = one_hot(supernet.plan, choices)                  # one vector per decision
    logits = supernet(supernet.params, supernet.plan.gates(picks), images)

A forward pass is a pure function of weights and gates, with the statistics of the batch at hand. Every
operation's result is multiplied by its gates: one-hot gates give the discrete network, softmax gives a mixture.
Names of spaces are those of `recnas.space.vision`; the plans are in `recnas.model.supernets.registry`.

What cannot matter is not computed. An operation behind two gates of 0 has no influence, not even on
derivatives. Behind one gate of 0 it matters only to that gate's derivative, and its own weights do not: their
gradient is 0, so they are treated as constants there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from recnas.errors import ConfigError
from recnas.model.blueprint import Running, Where, initial
from recnas.model.nasrec.init import attach
from recnas.model.supernets.base import Factor, SupernetSpec
from recnas.model.supernets.registry import SUPERNETS
from recnas.space.base import nearest_name
from recnas.space.blueprint import Counting, Shape

Gates = Mapping[str, Tensor]


class CellSupernet(nn.Module):
    """All networks of a space under shared weights.

    Args:
        plan: what it is.
        seed: the same seed gives the same initial weights, in every process and on every device.
        device: where the weights are.
    """

    def __init__(self, plan: SupernetSpec, seed: int = 0, device: Where = "cpu") -> None:
        super().__init__()
        self.plan = plan
        found = _Counting()
        plan.run(found, plan.input_shape())
        for parameter in found.parameters:
            attach(self, parameter.name, nn.Parameter(initial(parameter, seed).to(device)))

    @property
    def params(self) -> dict[str, Tensor]:
        """Leaves by name, in the order in which the network uses them."""
        return dict(self.named_parameters())

    def forward(self, params: Mapping[str, Tensor], gates: Gates, images: Tensor) -> Tensor:
        """Logits `[B, classes]`."""
        return self.plan.run(_Running(params, gates), images)


def build_supernet(
    space: str, classes: int = 10, image: int = 32, seed: int = 0, device: Where = "cpu", **sizes: Any
) -> CellSupernet:
    """The supernet of a space; `sizes` are `channels`, `cells` (and `layers`, `width` of the MLP space)."""
    builder = SUPERNETS.get(space)
    if builder is None:
        raise ConfigError(f"there is no supernet of {space!r}.", nearest_name(space, tuple(SUPERNETS)))
    unknown = [name for name in sizes if name not in builder.sizes]
    if unknown:
        raise ConfigError(
            f"the supernet of {space} has no setting {', '.join(unknown)}.",
            f"It has: {', '.join(builder.sizes)}.",
        )
    return CellSupernet(builder.make(classes, image, **sizes), seed, device)


def one_hot(plan: SupernetSpec, choices: Sequence[int], dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """The picks of a discrete network, by decision."""
    picks = {}
    for decision, choice in zip(plan.decisions, choices, strict=True):
        pick = torch.zeros(decision.size, dtype=dtype)
        pick[choice] = 1.0
        picks[decision.name] = pick
    return picks


@dataclass
class _Counting(Counting):
    """Lists the parameters of all operations, whatever the gates."""

    def mix(self, terms: Sequence[tuple[Sequence[Factor], Callable[[], Shape]]], like: Shape | None = None) -> Shape:
        shapes = [make() for _, make in terms]
        if like is not None:
            shapes.append(like)
        return self.add(shapes)


class _Running(Running):
    """One pass under given weights and gates."""

    def __init__(self, params: Mapping[str, Tensor], gates: Gates) -> None:
        super().__init__(params)
        where = next(iter(params.values())).device
        self.gates = {name: gate.to(where) for name, gate in gates.items()}
        self.numbers = {
            name: gate.detach().tolist() for name, gate in gates.items()
        }  # given on the CPU, they are read there
        self.follows = any(gate.requires_grad for gate in gates.values())
        self.constants = {name: leaf.detach() for name, leaf in params.items()}

    def mix(self, terms: Sequence[tuple[Sequence[Factor], Callable[[], Tensor]]], like: Tensor | None = None) -> Tensor:
        """The sum of terms times their gates; zeros in the shape of `like` if nothing is left."""
        parts = []
        for factors, make in terms:
            values = [self.numbers[name][place] for name, place in factors]
            zeros = values.count(0.0)
            if zeros > 1 or (zeros and not self.follows):
                continue
            given = self.params
            self.params = self.constants if zeros else given
            try:
                part = make()
            finally:
                self.params = given
            for (name, place), value in zip(factors, values):
                if self.follows or value != 1.0:
                    part = part * self.gates[name][place]
            parts.append(part)
        if parts:
            return self.add(parts)
        assert like is not None, "nothing is chosen"
        return torch.zeros_like(like)

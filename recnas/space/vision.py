"""The network of any vision architecture, found by the name of its space; no torch.

    plan("darts", arch, classes=10, image=32, channels=16)      # a blueprint
    cost("nasbench201", arch, classes=10, image=32)             # parameters and multiply-adds

Sizes default to what training-free work scores: 16 channels, and 5 cells (DARTS), 5 cells per stage
(NAS-Bench-201), 3 stacks of 3 cells (NAS-Bench-101, whose trained networks have 128 channels). A setting that a
space does not have is refused by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from recnas.errors import ConfigError
from recnas.space.base import nearest_name
from recnas.space.blueprint import Blueprint, Cost, count
from recnas.space.darts import NAME as DARTS
from recnas.space.darts_arch import DartsArch
from recnas.space.darts_body import DartsBody, DartsPlan
from recnas.space.mlp import NAME as MLP
from recnas.space.mlp import MlpArch
from recnas.space.mlp_body import MlpBody, MlpPlan, Parametrisation
from recnas.space.nasbench1shot1 import NAME as ONE_SHOT
from recnas.space.nasbench1shot1 import PARENTS, OneShotArch
from recnas.space.nasbench101 import NAME as NASBENCH101
from recnas.space.nasbench101_arch import Nb101Arch, canonical
from recnas.space.nasbench101_body import Nb101Body, Nb101Plan
from recnas.space.nasbench201 import NAME as NASBENCH201
from recnas.space.nasbench201_arch import Nb201Arch
from recnas.space.nasbench201_cost import Body
from recnas.space.nasbench201_cost import count as count_nb201
from recnas.space.resnet import NAME as RESNET
from recnas.space.resnet_arch import ResnetArch
from recnas.space.resnet_body import ResnetBody, ResnetPlan


def _darts(arch: DartsArch, classes: int, image: int, channels: int = 16, cells: int = 5) -> Blueprint:
    return DartsPlan(arch, DartsBody(channels, cells, classes, image))


def _nb101(
    arch: Nb101Arch, classes: int, image: int, channels: int = 16, cells: int = 3, stacks: int = 3
) -> Blueprint:
    return Nb101Plan(canonical(arch), Nb101Body(channels, stacks, cells, classes, image))


def _one_shot(
    arch: OneShotArch, classes: int, image: int, channels: int = 16, cells: int = 3, stacks: int = 3
) -> Blueprint:
    return _nb101(arch.cell(), classes, image, channels, cells, stacks)


def _resnet(arch: ResnetArch, classes: int, image: int, width: float = 1.0) -> Blueprint:
    return ResnetPlan(arch, ResnetBody(classes, image, width))


def _mlp(
    arch: MlpArch, classes: int, image: int, parametrisation: Parametrisation = "standard", colours: int = 3
) -> Blueprint:
    return MlpPlan(arch, MlpBody((colours, image, image), classes, parametrisation, first_gain=1.0))


def _nb201(classes: int, image: int, channels: int = 16, cells: int = 5) -> Body:
    return Body(channels=channels, cells=cells, classes=classes, image=image)


_PLANS: dict[str, Callable[..., Blueprint]] = {
    DARTS: _darts,
    NASBENCH101: _nb101,
    **{f"{ONE_SHOT}-{number}": _one_shot for number in PARENTS},
    RESNET: _resnet,
    MLP: _mlp,
}
VISION = (NASBENCH201, *_PLANS)


def plan(space: str, arch: Any, classes: int = 10, image: int = 32, **sizes: Any) -> Blueprint:
    """The blueprint of an architecture; NAS-Bench-201 has a network of its own (`nasbench201_body`)."""
    known_vision(space)
    if space == NASBENCH201:
        raise ConfigError(
            "NAS-Bench-201 networks are not made from a blueprint.", "Use recnas.model.vision.build_scored."
        )
    _check(space, _PLANS[space], sizes)
    return _PLANS[space](arch, classes, image, **sizes)


def nasbench201_body(classes: int = 10, image: int = 32, **sizes: Any) -> Body:
    _check(NASBENCH201, _nb201, sizes)
    return _nb201(classes, image, **sizes)


def cost(space: str, arch: Any, classes: int = 10, image: int = 32, **sizes: Any) -> Cost:
    """Parameters and multiply-adds of what `recnas.model.vision.build_scored` builds."""
    if space == NASBENCH201:
        assert isinstance(arch, Nb201Arch)
        found = count_nb201(arch, nasbench201_body(classes, image, **sizes))
        return Cost(found.params, found.macs)
    return count(plan(space, arch, classes, image, **sizes))


def known_vision(space: str) -> None:
    """Refuse names that are no vision space."""
    if space not in VISION:
        raise ConfigError(f"there is no vision space {space!r}.", nearest_name(space, VISION))


def _check(space: str, builder: Callable[..., Any], sizes: dict[str, Any]) -> None:
    given = {"arch", "classes", "image"}
    offered = [name for name in inspect.signature(builder).parameters if name not in given]
    unknown = [name for name in sizes if name not in offered]
    if unknown:
        raise ConfigError(
            f"networks of {space} have no setting {', '.join(unknown)}.", f"They have: {', '.join(offered)}."
        )

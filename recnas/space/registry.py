"""Search spaces by name. To add one: write its folder, add a line to `_BUILDERS` (or call `register` from outside)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from recnas.errors import SpaceError
from recnas.plugins import Parts
from recnas.space.base import Space, nearest_name
from recnas.space.darts import NAME as DARTS
from recnas.space.darts import DartsSpace
from recnas.space.mlp import NAME as MLP
from recnas.space.mlp import MlpSpace
from recnas.space.nasbench1shot1 import NAME as ONE_SHOT
from recnas.space.nasbench1shot1 import PARENTS, OneShotSpace
from recnas.space.nasbench101 import NAME as NASBENCH101
from recnas.space.nasbench101 import Nb101Space
from recnas.space.nasbench201 import NAME as NASBENCH201
from recnas.space.nasbench201 import Nb201Space
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec import rules as nasrec_rules
from recnas.space.nasrec.rules import ALIASES, FULL, SMALL, NasrecRules
from recnas.space.plus import PLUS, PlusSpace
from recnas.space.resnet import NAME as RESNET
from recnas.space.resnet import ResnetSpace

_BUILDERS: dict[str, Callable[..., Space[Any]]] = {
    SMALL: partial(NasrecSpace, SMALL),
    FULL: partial(NasrecSpace, FULL),
    PLUS: PlusSpace,
    NASBENCH201: Nb201Space,
    NASBENCH101: Nb101Space,
    **{f"{ONE_SHOT}-{number}": partial(OneShotSpace, number) for number in PARENTS},
    DARTS: DartsSpace,
    RESNET: ResnetSpace,
    MLP: MlpSpace,
}
_ALIASES = dict(ALIASES)
_PLUGGED: Parts[Callable[..., Space[Any]]] = Parts("search space", lambda: [*_BUILDERS, *_ALIASES])


def register(name: str, builder: Callable[..., Space[Any]]) -> None:
    """Offer another space under `name`; `builder` is called with what a config gives as options."""
    _PLUGGED.register(name, builder)


def register_nasrec(rules: NasrecRules) -> None:
    """Offer another space of the NASRec family: its operators, widths and numbers of inputs."""
    register(rules.name, partial(NasrecSpace, rules.name))
    nasrec_rules.register(rules)


def space_names() -> tuple[str, ...]:
    """Every name `get_space` offers; aliases are left out."""
    return (*_BUILDERS, *_PLUGGED.every())


def space_options(name: str) -> tuple[str, ...]:
    """What `get_space(name, ...)` takes beside the name."""
    return tuple(inspect.signature(_builder(name)).parameters)


def _builder(name: str) -> Callable[..., Space[Any]]:
    builder = _BUILDERS.get(_ALIASES.get(name, name)) or _PLUGGED.find(name)
    if builder is None:
        raise SpaceError(
            f"unknown search space {name!r}", nearest_name(name, [*_BUILDERS, *_ALIASES, *_PLUGGED.known()])
        )
    return builder


def get_space(name: str, **options: Any) -> Space[Any]:
    """The space called `name`; `options` go to its constructor, e.g. `blocks=5`."""
    builder = _builder(name)
    offered = space_options(name)
    unknown = [option for option in options if option not in offered]
    if unknown:
        hints = "; ".join(f"{option}: {nearest_name(option, offered)}" for option in unknown if offered)
        hints = hints or "it has no options"
        raise SpaceError(f"search space {name!r} has no option {', '.join(unknown)}", hints)
    return builder(**options)

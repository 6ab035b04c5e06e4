"""Search spaces by name. To add one: write its file, add a line to `_BUILDERS`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from recnas.errors import SpaceError
from recnas.space.base import Space, nearest_name
from recnas.space.nasbench201 import NAME as NASBENCH201
from recnas.space.nasbench201 import Nb201Space
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec_rules import ALIASES, FULL, SMALL

_BUILDERS: dict[str, Callable[..., Space[Any]]] = {
    SMALL: partial(NasrecSpace, SMALL),
    FULL: partial(NasrecSpace, FULL),
    NASBENCH201: Nb201Space,
}
_ALIASES = dict(ALIASES)


def space_names() -> tuple[str, ...]:
    """Every name `get_space` offers; aliases are left out."""
    return tuple(_BUILDERS)


def get_space(name: str, **options: Any) -> Space[Any]:
    """The space called `name`; `options` go to its constructor, e.g. `blocks=5`."""
    builder = _BUILDERS.get(_ALIASES.get(name, name))
    if builder is None:
        raise SpaceError(f"unknown search space {name!r}", nearest_name(name, [*_BUILDERS, *_ALIASES]))
    offered = inspect.signature(builder).parameters
    unknown = [option for option in options if option not in offered]
    if unknown:
        hints = "; ".join(f"{option}: {nearest_name(option, offered)}" for option in unknown)
        raise SpaceError(f"search space {name!r} has no option {', '.join(unknown)}", hints)
    return builder(**options)

"""The network of any vision architecture, found by the name of its space; no torch.

    blueprint("darts", arch, classes=10, image=32, channels=16)
    cost("nasbench201", arch, classes=10, image=32)             # parameters and multiply-adds

Sizes default to what training-free work scores: 16 channels, and 5 cells (DARTS), 5 cells per stage
(NAS-Bench-201), 3 stacks of 3 cells (NAS-Bench-101, whose trained networks have 128 channels). A setting that a
space does not have is refused by name.
"""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import Any

from recnas.errors import ConfigError
from recnas.space.base import nearest_name
from recnas.space.blueprint import Blueprint, Cost, count
from recnas.space.registry import get_space, space_names
from recnas.space.vision import VisionSpace

_GIVEN = ("arch", "classes", "image")


def vision_spaces() -> tuple[str, ...]:
    """Names of the spaces whose networks read images."""
    return tuple(name for name in space_names() if isinstance(_space(name), VisionSpace))


@lru_cache(maxsize=64)
def _space(name: str) -> Any:
    return get_space(name)


def vision_space(name: str) -> VisionSpace[Any]:
    """The space called `name`, with the default options; other kinds of spaces are refused."""
    if name not in space_names() or not isinstance(_space(name), VisionSpace):
        raise ConfigError(f"there is no vision space {name!r}.", nearest_name(name, vision_spaces()))
    return _space(name)


def blueprint(space: str, arch: Any, classes: int = 10, image: int = 32, **sizes: Any) -> Blueprint:
    """The blueprint of an architecture."""
    owner = vision_space(space)
    offered = [name for name in inspect.signature(owner.blueprint).parameters if name not in _GIVEN]
    unknown = [name for name in sizes if name not in offered]
    if unknown:
        raise ConfigError(
            f"networks of {space} have no setting {', '.join(unknown)}.", f"They have: {', '.join(offered)}."
        )
    return owner.blueprint(arch, classes, image, **sizes)


def cost(space: str, arch: Any, classes: int = 10, image: int = 32, **sizes: Any) -> Cost:
    """Parameters and multiply-adds of what `recnas.model.vision.build_scored` builds."""
    return count(blueprint(space, arch, classes, image, **sizes))

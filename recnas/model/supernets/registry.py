"""Supernets of vision spaces by name. To add one: write its file, add a line to `SUPERNETS`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from recnas.model.supernets.base import COLOURS, SupernetSpec
from recnas.model.supernets.darts import DartsSuper
from recnas.model.supernets.mlp import MlpSuper
from recnas.model.supernets.nasbench1shot1 import OneShotSuper
from recnas.model.supernets.nasbench201 import Nb201Super
from recnas.space.darts import NAME as DARTS
from recnas.space.darts.skeleton import DartsSkeleton
from recnas.space.mlp import NAME as MLP
from recnas.space.mlp import MlpSpace
from recnas.space.mlp.skeleton import MlpSkeleton
from recnas.space.nasbench1shot1 import NAME as ONE_SHOT
from recnas.space.nasbench1shot1 import PARENTS
from recnas.space.nasbench101.skeleton import Nb101Skeleton
from recnas.space.nasbench201 import NAME as NASBENCH201
from recnas.space.nasbench201.skeleton import Nb201Skeleton


class Builder(NamedTuple):
    make: Callable[..., SupernetSpec]
    sizes: tuple[str, ...]


def _nb201(classes: int, image: int, channels: int = 16, cells: int = 5) -> SupernetSpec:
    return Nb201Super(Nb201Skeleton(channels=channels, cells=cells, classes=classes, image=image))


def _darts(classes: int, image: int, channels: int = 16, cells: int = 8) -> SupernetSpec:
    return DartsSuper(DartsSkeleton(channels, cells, classes, image, affine=False, pool_norm=True))


def _one_shot(
    number: int, classes: int, image: int, channels: int = 18, cells: int = 3, stacks: int = 3
) -> SupernetSpec:
    return OneShotSuper(number, Nb101Skeleton(channels, stacks, cells, classes, image))


def _mlp(classes: int, image: int, layers: int = 10, width: int = 1024) -> SupernetSpec:
    return MlpSuper(MlpSpace(layers, width), MlpSkeleton((COLOURS, image, image), classes, first_gain=1.0))


SUPERNETS: dict[str, Builder] = {
    NASBENCH201: Builder(_nb201, ("channels", "cells")),
    DARTS: Builder(_darts, ("channels", "cells")),
    **{f"{ONE_SHOT}-{n}": Builder(partial(_one_shot, n), ("channels", "cells", "stacks")) for n in PARENTS},
    MLP: Builder(_mlp, ("layers", "width")),
}

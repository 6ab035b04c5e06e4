"""Scored and trainable networks of any vision space, by the name of the space.

    network = build_scored("darts", arch, classes=10, image=32, seed=0, channels=16, cells=5)
    logits = network.forward(network.params, (images,))

    model = build_trainable("darts", arch, channels=36, cells=20, drop_path=0.2, auxiliary=True)

Names and settings are those of `recnas.space.vision`; equal keys and seeds give equal networks.
"""

from __future__ import annotations

from typing import Any

from recnas.errors import ConfigError
from recnas.model.blueprint import Network, Trainable
from recnas.model.nasbench201 import Nb201Network
from recnas.space.nasbench201 import NAME as NASBENCH201
from recnas.space.vision import known_vision, nasbench201_body, plan


def build_scored(
    space: str, arch: Any, classes: int = 10, image: int = 32, seed: int = 0, **sizes: Any
) -> Network | Nb201Network:
    """A network to be scored: `params` and a pure `forward(params, (images,))`."""
    known_vision(space)
    if space == NASBENCH201:
        return Nb201Network(arch, nasbench201_body(classes, image, **sizes), seed)
    return Network(plan(space, arch, classes, image, **sizes), seed)


def build_trainable(
    space: str,
    arch: Any,
    classes: int = 10,
    image: int = 32,
    seed: int = 0,
    drop_path: float = 0.0,
    auxiliary: bool = False,
    **sizes: Any,
) -> Trainable:
    """The same network as a module that trains: running statistics, and for DARTS drop-path and a second head."""
    known_vision(space)
    if space == NASBENCH201:
        raise ConfigError(
            "NAS-Bench-201 networks are scored here, not trained: the benchmark has trained them all.",
            "Read their accuracy from its table (recnas bench).",
        )
    return Trainable(plan(space, arch, classes, image, **sizes), seed, drop_path, auxiliary)

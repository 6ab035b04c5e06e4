"""Scored and trainable networks of any vision space, by the name of the space.

    network = build_scored("darts", arch, classes=10, image=32, seed=0, channels=16, cells=5)
    logits = network.forward(network.params, (images,))

    model = build_trainable("darts", arch, channels=36, cells=20, drop_path=0.2, auxiliary=True)

Names and settings are those of `recnas.space.networks`; equal keys and seeds give equal networks.
"""

from __future__ import annotations

from typing import Any

from recnas.model.blueprint import Network, Trainable, Where
from recnas.space.networks import blueprint


def build_scored(
    space: str, arch: Any, classes: int = 10, image: int = 32, seed: int = 0, device: Where = "cpu", **sizes: Any
) -> Network:
    """A network to be scored: `params` and a pure `forward(params, (images,))`."""
    return Network(blueprint(space, arch, classes, image, **sizes), seed, device)


def build_trainable(
    space: str,
    arch: Any,
    classes: int = 10,
    image: int = 32,
    seed: int = 0,
    drop_path: float = 0.0,
    auxiliary: bool = False,
    device: Where = "cpu",
    **sizes: Any,
) -> Trainable:
    """The same network as a module that trains: running statistics, and for DARTS drop-path and a second head."""
    return Trainable(blueprint(space, arch, classes, image, **sizes), seed, drop_path, auxiliary, device=device)

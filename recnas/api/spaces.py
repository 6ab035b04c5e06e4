"""`recnas.get_space`: the rules of a search space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recnas.space.base import Space


def get_space(name: str, **options: Any) -> Space[Any]:
    """The search space called `name`: `space.sample(rng)`, `space.mutate(arch, rng)`, `space.to_dict(arch)`.

    Args:
        options: of the space, such as `blocks=5`.
    """
    from recnas.space import registry

    return registry.get_space(name, **options)

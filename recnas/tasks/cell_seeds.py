"""What a search of cells begins with: `search.seeds` in the space's own notation, or architecture files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from recnas.errors import ConfigError, RecnasError
from recnas.files import read_json
from recnas.searchers.settings import SearcherSettings
from recnas.space.vision import VisionSpace
from recnas.tasks.seeds import Seed, check_room


def cell_seeds(
    search: SearcherSettings, space: VisionSpace[Any], candidate: Callable[[Any], Any] = lambda arch: arch
) -> list[Seed]:
    """Every seed once, in the order named.

    Args:
        candidate: what the search proposes for a cell, where that is more than the cell.

    Raises:
        ConfigError: a seed is no architecture of the space, or there are more than the search can begin with.
    """
    found: dict[str, Seed] = {}
    for name in search.seeds:
        try:
            arch = _read(name, space)
            space.validate(arch)
        except RecnasError as error:
            raise ConfigError(
                f"search.seeds: {name} is no architecture of {space.name}: {error.what}",
                error.fix or "Write it as recnas draw takes it, or name a file such as RUN/winner.json.",
            ) from None
        found.setdefault(space.key(arch), Seed(name, candidate(arch)))
    check_room(search, len(found))
    return list(found.values())


def _read(name: str, space: VisionSpace[Any]) -> Any:
    if not name.endswith(".json"):
        return space.from_text(name)
    try:
        described = read_json(Path(name))
    except (OSError, ValueError) as error:
        raise ConfigError(f"the file cannot be read ({error})", "Check the path.") from None
    if not isinstance(described, dict):
        raise ConfigError("the file holds no architecture", "Name one such as RUN/winner.json.")
    return space.from_dict(described)

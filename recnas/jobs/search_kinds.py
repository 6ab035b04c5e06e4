"""Which search a config asks for, by its space: NASRec on prepared data, or cells on a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from recnas.config import apply_overrides, check_settings, read_yaml
from recnas.engines.base import EngineChoice
from recnas.jobs.search_settings import SearchConfig
from recnas.jobs.search_table import TableSearchConfig, search_table
from recnas.progress import Progress
from recnas.space.nasbench201 import NAME as NASBENCH201

AnySearch = SearchConfig | TableSearchConfig


def load_search(path: Path | str, overrides: Iterable[str] = ()) -> AnySearch:
    """A config file with overrides, as the settings of the search it is for."""
    data = read_yaml(path)
    faults = apply_overrides(data, overrides)
    return check_settings(_kind(data), data, str(path), faults)


def kept_search(config: Mapping[str, Any]) -> AnySearch:
    """The settings a run was started with, from its manifest."""
    return _kind(config).model_validate(dict(config))


def run_search(
    config: AnySearch, out: Path | str, workers: int | None = None, progress: Progress | None = None, engine: EngineChoice | None = None
) -> dict[str, Any]:
    """Run it, or the rest of it. A table answers at once: workers and engine are for NASRec."""
    if isinstance(config, TableSearchConfig):
        return search_table(config, out, progress)
    from recnas.jobs.search import search

    return search(config, out, workers, progress, engine)


def _kind(data: Mapping[str, Any]) -> type[AnySearch]:
    space = data.get("space")
    name = space.get("name") if isinstance(space, Mapping) else None
    return TableSearchConfig if name == NASBENCH201 else SearchConfig

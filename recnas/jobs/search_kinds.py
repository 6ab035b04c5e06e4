"""Which search a config asks for, by its method and space: on a supernet of cells, on a table, on images, or NASRec on prepared data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from recnas.config import apply_overrides, check_settings, read_yaml
from recnas.engines.base import EngineChoice
from recnas.jobs.search_images import TRAINED_HERE, VisionSearchConfig, search_images
from recnas.jobs.search_nasi import search_nasi
from recnas.jobs.search_oneshot import DartsConfig, NasiConfig
from recnas.jobs.search_settings import SearchConfig
from recnas.jobs.search_table import TableSearchConfig, search_table
from recnas.progress import Progress
from recnas.run import RunDir
from recnas.space.nasbench201 import NAME as NASBENCH201

AnySearch = SearchConfig | TableSearchConfig | VisionSearchConfig | NasiConfig | DartsConfig


def load_search(path: Path | str, overrides: Iterable[str] = ()) -> AnySearch:
    """A config file with overrides, as the settings of the search it is for."""
    data, overrides = read_yaml(path), list(overrides)
    faults = apply_overrides(data, overrides)
    return check_settings(_kind(data), data, str(path), faults, overrides)


def kept_search(run: RunDir, data: str | None = None) -> AnySearch:
    """The settings a run was started with, from its manifest.

    Args:
        data: where its prepared data are now; None looks where they were.
    """
    run.check("search")
    config = run.manifest()["config"]
    kind = _kind(config)
    if kind is SearchConfig:
        config = config | {"data": data or str(run.data_path())}
    return kind.model_validate(config)


def run_search(
    config: AnySearch, out: Path | str, workers: int | None = None, progress: Progress | None = None, engine: EngineChoice | None = None
) -> dict[str, Any]:
    """Run it, or the rest of it. Workers and engine are for searches that train or score one candidate beside another."""
    if isinstance(config, TableSearchConfig):
        return search_table(config, out, progress)
    if isinstance(config, NasiConfig):
        return search_nasi(config, out, progress)
    if isinstance(config, DartsConfig):
        from recnas.jobs.search_darts import search_darts

        return search_darts(config, out, progress)
    if isinstance(config, VisionSearchConfig):
        return search_images(config, out, workers, progress, engine)
    from recnas.jobs.search import search

    return search(config, out, workers, progress, engine)


_BY_METHOD: dict[str, type[AnySearch]] = {"nasi": NasiConfig, "darts": DartsConfig}


def _kind(data: Mapping[str, Any]) -> type[AnySearch]:
    space, search = data.get("space"), data.get("search")
    name = space.get("name") if isinstance(space, Mapping) else None
    method = search.get("method") if isinstance(search, Mapping) else None
    if isinstance(method, str) and method in _BY_METHOD:
        return _BY_METHOD[method]
    if name in TRAINED_HERE:
        return VisionSearchConfig
    return TableSearchConfig if name == NASBENCH201 else SearchConfig

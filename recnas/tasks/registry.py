"""Which task a config asks for: it says so, or its space and method do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from recnas.config import apply_overrides, check_settings, read_config
from recnas.plugins import require
from recnas.runs.folder import RunDir
from recnas.searchers.gradient.settings import GRADIENT_METHODS
from recnas.space.nasbench201 import NAME as NASBENCH201
from recnas.space.networks import vision_spaces
from recnas.tasks.base import Task
from recnas.tasks.settings import CtrSearchConfig, GradientSearchConfig, ImageSearchConfig, TableSearchConfig

AnySearch = CtrSearchConfig | ImageSearchConfig | TableSearchConfig | GradientSearchConfig
_CONFIGS: dict[str, type[AnySearch]] = {
    "ctr": CtrSearchConfig,
    "images": ImageSearchConfig,
    "table": TableSearchConfig,
}


def make_task(config: AnySearch) -> Task:
    """The task of a config, its data opened."""
    if isinstance(config, TableSearchConfig):
        from recnas.tasks.table import TableTask

        return TableTask(config)
    if isinstance(config, ImageSearchConfig):
        from recnas.tasks.images import ImagesTask

        return ImagesTask(config)
    assert isinstance(config, CtrSearchConfig)
    from recnas.tasks.ctr import CtrTask

    return CtrTask(config)


def load_search(path: Path | str, overrides: Iterable[str] = ()) -> AnySearch:
    """A config file with overrides, as the settings of the search it is for."""
    data, overrides = read_config(path), list(overrides)
    faults = apply_overrides(data, overrides)
    return check_settings(config_class(data), data, str(path), faults, overrides)


def kept_search(run: RunDir, data: str | None = None) -> AnySearch:
    """The settings a run was started with, from its manifest; `data` if the data set has moved."""
    manifest = run.manifest()
    require(manifest, run.path)
    config = dict(manifest["config"])
    if "data" in config:
        config["data"] = data or str(run.data_path())
    return config_class(config).model_validate(config)


def config_class(data: Mapping[str, Any]) -> type[AnySearch]:
    """The settings class of a config, by its task, its method and its space."""
    space, search = data.get("space"), data.get("search")
    name = space.get("name") if isinstance(space, Mapping) else None
    method = search.get("method") if isinstance(search, Mapping) else None
    if isinstance(method, str) and method in GRADIENT_METHODS:
        return GradientSearchConfig
    task = data.get("task")
    if isinstance(task, str) and task in _CONFIGS:
        return _CONFIGS[task]
    if name == NASBENCH201:
        return TableSearchConfig
    return ImageSearchConfig if name in vision_spaces() else CtrSearchConfig

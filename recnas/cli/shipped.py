"""Listing and copying of shipped files, shared by `datasets` and `configs`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from recnas.config import Settings, nearest
from recnas.errors import ConfigError
from recnas.files import make_folder, write_text
from recnas.resources import resource_dir


def missing_name(kind: str, name: str | None, known: Iterable[str], listing: str) -> ConfigError:
    if name is None:
        return ConfigError(f"Which {kind}?", f"List them: {listing}")
    return ConfigError(f"There is no {kind} {name!r}; {nearest(name, known)}", f"List them: {listing}")


def config_path(name: str) -> Path:
    """A config by the name of a shipped one, or by path."""
    shipped = resource_dir("configs") / f"{name}.yaml"
    if shipped.is_file() and not Path(name).is_file():
        return shipped
    if Path(name).suffix in (".yaml", ".yml"):
        return Path(name)
    raise missing_name("config", name, shipped_configs(), "recnas configs")


def copy_file(source: Path, target: str | None, usage: str) -> None:
    write_new(source.read_text(encoding="utf-8"), target, usage)


def write_new(text: str, target: str | None, usage: str) -> None:
    """Write a file of the user's own; one that is there is left alone."""
    if target is None:
        raise ConfigError("Where should the copy go?", usage)
    path = Path(target)
    if path.exists() or path.is_symlink():
        raise ConfigError(f"{path} exists already; it is not overwritten.", "Give another name, or remove it first.")
    make_folder(path.parent, "name")
    write_text(path, text)
    print(f"wrote {path}")


def shipped_configs() -> dict[str, Path]:
    """Configs by name; what others only start from (base/) is none."""
    folder = resource_dir("configs")
    names = {str(path.relative_to(folder).with_suffix("")): path for path in sorted(folder.rglob("*.yaml"))}
    return {name: path for name, path in names.items() if not name.startswith("base/")}


def settings_class(data: Mapping[str, Any]) -> type[Settings]:
    """What a config is for, by the sections it has."""
    from recnas.jobs.correlate_cells import CellCorrelation
    from recnas.tasks.comparison.settings import CompareConfig
    from recnas.tasks.contest import ContestConfig
    from recnas.tasks.registry import config_class
    from recnas.train.settings import WarmupConfig

    if set(data) <= set(WarmupConfig.model_fields):
        return WarmupConfig
    if "arms" in data:
        return ContestConfig
    if "models" in data:
        return CompareConfig
    return config_class(data) if "search" in data else CellCorrelation

"""Listing and copying of shipped files, shared by `datasets` and `configs`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from recnas.config import nearest
from recnas.errors import ConfigError
from recnas.files import make_folder
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
    folder = resource_dir("configs")
    raise missing_name(
        "config",
        name,
        [str(p.relative_to(folder).with_suffix("")) for p in folder.rglob("*.yaml")],
        "recnas configs",
    )


def copy_file(source: Path, target: str | None, usage: str) -> None:
    if target is None:
        raise ConfigError("Where should the copy go?", usage)
    path = Path(target)
    if path.exists():
        raise ConfigError(
            f"{path} exists already; it is not overwritten.", "Give another name, or remove it first."
        )
    make_folder(path.parent, "name")
    path.write_text(source.read_text())
    print(f"wrote {path}")

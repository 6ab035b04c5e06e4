"""What every function takes: settings as a file, a name or an object, changes to them, and data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from recnas.config import Settings, apply_overrides, check_settings
from recnas.errors import ConfigError

if TYPE_CHECKING:
    from recnas.data.prepared import PreparedData

S = TypeVar("S", bound=Settings)


def changes(overrides: Sequence[str], data: PreparedData | Path | str | None) -> list[str]:
    """ "key=value" texts, the data set among them."""
    if not isinstance(overrides, (list, tuple)) or not all(isinstance(item, str) for item in overrides):
        raise ConfigError(
            f"changes of settings are texts, not {overrides!r}.", 'Write them as "search.generations=50".'
        )
    # In quotes: a path is no number and no list, whatever it is called.
    return [*overrides, *([f"data={json.dumps(str(data_path(data)))}"] if data is not None else [])]


def changed(settings: S, overrides: Sequence[str]) -> S:
    """The same settings with changes, checked again."""
    if not overrides:
        return settings
    values = settings.model_dump(mode="json")
    faults = apply_overrides(values, overrides)
    return check_settings(type(settings), values, "the settings", faults, overrides)


def data_path(data: PreparedData | Path | str) -> Path:
    return Path(data) if isinstance(data, (str, Path)) else data.path


def opened(data: PreparedData | Path | str) -> PreparedData:
    from recnas.data.prepared import PreparedData

    return data if isinstance(data, PreparedData) else PreparedData.open(data)

"""Where the shipped recipes and configs are: inside an installed wheel, or beside the source tree."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent


def resource_dir(kind: str) -> Path:
    """The folder of shipped `datasets` or `configs`."""
    installed = _PACKAGE / "_resources" / kind
    return installed if installed.is_dir() else _PACKAGE.parent / kind

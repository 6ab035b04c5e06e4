"""Prepared data of several origins in time: each trains on the past, validates on the next window, tests on the one after.

data/                 manifest.json: how many origins, and which data they are
data/origin-1 ...     prepared data of their own, with vocabulary and statistics of their own training rows; the
                      last one tests on the last rows of the log
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from recnas.data.prepared import FORMAT, MANIFEST, PreparedData
from recnas.errors import DataError
from recnas.files import read_json, write_json
from recnas.runs.checks import has_check, with_check


@dataclass(frozen=True)
class RollingData:
    """The origins of one log, the earliest first."""

    path: Path
    origins: tuple[PreparedData, ...]

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.origins)

    @classmethod
    def find(cls, path: Path | str | None) -> RollingData | None:
        """The origins in a folder; None if it holds something else, or nothing."""
        path = Path(path or "")
        try:
            manifest = read_json(path / MANIFEST)
        except (OSError, ValueError):
            return None  # whoever opens it as something else says what is wrong
        if not isinstance(manifest, dict) or "origins" not in manifest:
            return None
        if not has_check(manifest):
            raise DataError(f"{path / MANIFEST} is not what was written.", "Restore it, or prepare the data again.")
        found = cls(path, tuple(PreparedData.open(path / name) for name in manifest["origins"]))
        if found.fingerprint != manifest["fingerprint"]:
            raise DataError(f"{path} holds other origins than those that were prepared.", "Prepare it again.")
        return found


def origin_name(number: int) -> str:
    """Of the folder; numbered from 1."""
    return f"origin-{number}"


def fingerprint_of(origins: tuple[PreparedData, ...]) -> str:
    return hashlib.sha256(json.dumps([data.fingerprint for data in origins]).encode()).hexdigest()


def write_origins(path: Path, origins: tuple[PreparedData, ...]) -> RollingData:
    """The last step of a preparation: a folder with this file is whole."""
    manifest = {
        "format": FORMAT,
        "fingerprint": fingerprint_of(origins),
        "origins": [data.path.name for data in origins],
    }
    write_json(path / MANIFEST, with_check(manifest))
    return RollingData(path, origins)

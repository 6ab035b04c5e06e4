"""Checksums of the files of a run that has ended: RUN/checksums.json.

While a run is written there are none. Checkpoints and manifests have checksums of their own (ledgers too, but this tells that
one is gone), and a run within a run (`winner/`, `warmup/`) has its own file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from recnas.errors import RunError
from recnas.files import read_json, sha256_file, write_json
from recnas.runs.checks import has_check, with_check
from recnas.runs.layout import MANIFEST

CHECKSUMS = "checksums.json"
_OTHERS = {MANIFEST, CHECKSUMS}


def seal(folder: Path) -> None:
    files = {str(path.relative_to(folder)): sha256_file(path) for path in sorted(_own_files(folder))}
    write_json(folder / CHECKSUMS, with_check({"files": files}))


def unseal(folder: Path) -> None:
    (folder / CHECKSUMS).unlink(missing_ok=True)


def sealed(folder: Path) -> dict[str, str]:
    """Checksums by file; empty for a run that has not ended.

    Raises:
        RunError: they were changed themselves.
    """
    try:
        value = read_json(folder / CHECKSUMS)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except ValueError:
        value = None
    files = value.get("files") if isinstance(value, dict) and has_check(value) else None
    if not isinstance(files, dict) or not all(_is_below(name) and isinstance(files[name], str) for name in files):
        raise RunError(f"{folder / CHECKSUMS} is damaged or was changed.", f"recnas repair {folder}")
    return files


def _is_below(name: str) -> bool:
    return "\0" not in name and not Path(name).is_absolute() and Path(name).parts != () and ".." not in Path(name).parts


def changed(folder: Path, suffix: str = "") -> list[str]:
    """Files whose names end so and that are not what they were when the run ended; those that are gone too."""
    return [name for name, digest in sealed(folder).items() if name.endswith(suffix) and not _is(folder / name, digest)]


def check_sealed(folder: Path, suffix: str = ".json") -> None:
    """Before they are read.

    Raises:
        RunError: one was changed.
    """
    for name in changed(folder, suffix):
        if (folder / name).exists():
            raise RunError(
                f"{folder / name} is not what was written: it was changed or damaged since.",
                f"Restore it from a copy, or have it computed again: recnas repair {folder}",
            )


def _is(path: Path, digest: str) -> bool:
    try:
        return sha256_file(path) == digest
    except FileNotFoundError:
        return False


def _own_files(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        here = Path(parent)
        folders[:] = [name for name in folders if not _is_other(here / name)]
        yield from (here / name for name in files if not name.startswith(".") and name not in _OTHERS)


def _is_other(folder: Path) -> bool:
    return folder.name.startswith((".", "step-")) or (folder / MANIFEST).exists()

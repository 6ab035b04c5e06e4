"""A folder that `recnas export` wrote, for reading: nothing in it is loaded before its checksums were compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recnas.errors import RunError
from recnas.files import read_json, sha256_file
from recnas.runs.checks import has_check

MODEL = "model.json"
FORMAT = "recnas-export/1"


def is_export(folder: Path) -> bool:
    return (folder / MODEL).is_file() and not (folder / "manifest.json").exists()


def read_export(folder: Path) -> dict[str, Any]:
    """model.json, when it and every file it lists are what was written."""
    try:
        model = read_json(folder / MODEL)
    except ValueError:
        model = None
    if not isinstance(model, dict) or not has_check(model) or not isinstance(model.get("files"), dict):
        raise _changed(folder, f"{MODEL} does not have its checksum")
    if model.get("format") != FORMAT:
        raise RunError(f"{folder / MODEL} has the format {model.get('format')!r}, not {FORMAT!r}.", "Export it again.")
    root = folder.resolve()
    used = [model["program"]["file"], *(column["vocabulary"] for column in model["sparse"] if column["vocabulary"])]
    for name in {*model["files"], *used}:
        path = folder / name
        if root not in path.resolve().parents:
            raise _changed(folder, f"{MODEL} names {name}, which is outside of the folder")
        if not path.is_file() or sha256_file(path) != model["files"].get(name):
            raise _changed(folder, f"{name} is missing, damaged or was changed")
    return model


def _changed(folder: Path, what: str) -> RunError:
    return RunError(f"{folder} is not what was exported: {what}.", f"Export it again, or look: recnas verify {folder}")

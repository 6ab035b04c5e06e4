"""What of a folder must be equal between two runs of one command: everything but what a clock says.

Results, ledgers, weights, predictions, manifests; leftovers too, since a finished run has none.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
from pathlib import Path
from typing import Any

Snapshot = dict[str, str]
_CLOCK = {"seconds", "at", "earlier", "check", "workers", "latency", "verdict"}
_AGAIN = re.compile(r"(step-\d+)\.\d+")  # a step that was saved once more
_PASSING = re.compile(
    r"__pycache__|/\.(step-[^/]*|best)\.old-"
)  # what could not be removed is on its way out: the next writer sweeps
_OF_THE_MOMENT = {".lock", ".verified.json", "checksums.json"}  # checksums cover files that hold times


def snapshot(folder: Path) -> Snapshot:
    """A digest by file."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = _AGAIN.sub(r"\1", str(path.relative_to(folder)))
        if path.is_file() and path.name not in _OF_THE_MOMENT and not _PASSING.search(name):
            found[name] = hashlib.sha256(_content(path)).hexdigest()
    return found


def tree(folder: Path) -> Snapshot:
    """A digest of every file as it is, and of what is no file: to see that nobody touched it."""
    found = {}
    for path in sorted(folder.rglob("*")):
        kind = "link" if path.is_symlink() else "file" if path.is_file() else "other"
        content = path.read_bytes() if kind == "file" else str(path.readlink()).encode() if kind == "link" else b""
        found[str(path.relative_to(folder))] = f"{kind} {hashlib.sha256(content).hexdigest()}"
    return found


def different(one: Snapshot, two: Snapshot) -> list[str]:
    """Files that differ, or that only one has."""
    return sorted(name for name in one.keys() | two.keys() if one.get(name) != two.get(name))


def _content(path: Path) -> bytes:
    try:
        return _readable(path)
    except ValueError:  # damaged, and still there
        return path.read_bytes()


def _readable(path: Path) -> bytes:
    if path.suffix == ".json":
        return _text(_without_clock(json.loads(path.read_text())))
    if path.suffix == ".jsonl":
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        lines = [line for line in lines if line.get("event") != "begin"]  # one more for every interruption
        return b"\n".join(_text(_without_clock(line)) for line in lines)
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return _text(
                [{name: cell for name, cell in row.items() if not _of_clock(name)} for row in csv.DictReader(file)]
            )
    if path.name == "table.parquet":
        import pyarrow.parquet as pq

        return _text(_without_clock(pq.read_table(path).to_pylist()))
    return path.read_bytes()


def _of_clock(name: str) -> bool:
    return name in _CLOCK or "_ms_" in name or name.endswith("rows_per_second")


def _without_clock(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_clock(part) for name, part in value.items() if not _of_clock(name)}
    return [_without_clock(part) for part in value] if isinstance(value, list) else value


def _text(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()

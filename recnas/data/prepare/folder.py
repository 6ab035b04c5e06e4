"""The folder of a preparation: whether it can be written, be continued, and has room."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from recnas.data.prepared import other_options
from recnas.errors import DataError
from recnas.files import read_json, write_json
from recnas.progress import human_bytes
from recnas.runs.checks import has_check, with_check


def check_folder(out: Path) -> None:
    """Whether `out` can be made, or written to, as far as that shows without doing it."""
    there = next(path for path in (out, *out.absolute().parents) if path.exists())
    if not there.is_dir():
        raise DataError(f"--out {out}: {there} is a file, not a folder.", "Choose another --out.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise DataError(f"--out {out}: {there} may not be written to.", "Choose another --out, or ask for the rights.")


@contextmanager
def leaving_no_empty_folder(out: Path) -> Iterator[None]:
    """A preparation that was refused before it had done anything does not stand in the way of the next."""
    existed = out.exists()
    try:
        yield
    finally:
        if not existed and out.is_dir() and {item.name for item in out.iterdir()} <= {".lock", ".stdin"}:
            shutil.rmtree(out)


def open_work(out: Path, plan: dict[str, Any], block_bytes: int) -> int:
    """Continue an earlier attempt only if it was the same job; its block size is kept and returned."""
    work = out / ".work"
    path = work / "plan.json"
    others = out.exists() and any(item.name not in (".lock", ".work", ".stdin") for item in out.iterdir())
    if path.exists():
        try:
            earlier = read_json(path)
        except ValueError:
            earlier = None
        if not isinstance(earlier, dict) or not has_check(earlier):
            raise DataError(
                f"{path} is damaged, so nobody can tell what this unfinished preparation was made from.",
                f"Start over: rm -r {out if others else work}",
            )
        del earlier["check"]
        block_bytes = earlier.pop("block_bytes")
        if different := other_options(earlier, plan):
            raise DataError(
                f"{out} holds an unfinished preparation with other options: {'; '.join(different)}.",
                f"Repeat the earlier command, choose another --out, or start over: rm -r {out}",
            )
    elif others:
        again = f", or start over: rm -r {out}" if work.exists() else "."
        raise DataError(f"{out} exists and is not a prepared data set.", f"Choose another --out{again}")
    else:
        write_json(path, with_check({**plan, "block_bytes": block_bytes}))
    (work / "chunks").mkdir(exist_ok=True)
    return block_bytes


def check_disk(out: Path, size: int) -> None:
    """Whether there is room for `size` bytes, those of an earlier attempt included."""
    work = out / ".work"
    pieces = (file for file in work.rglob("*") if file.is_file() and file.name != "plan.json")
    written = sum(file.stat().st_size for file in pieces)
    needed = max(0, size - written)
    free = shutil.disk_usage(out).free
    if free < needed:
        if not written:
            shutil.rmtree(work)
        raise DataError(
            f"Preparing needs about {human_bytes(needed)} on the disk that holds {out}; {human_bytes(free)} are free.",
            "Free some space, choose another --out, or prepare a part with --limit ROWS.",
        )

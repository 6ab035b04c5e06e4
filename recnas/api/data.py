"""`recnas.prepare`: from a raw log to training data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recnas.errors import ConfigError

if TYPE_CHECKING:
    from recnas.data.prepare.options import PrepareOptions
    from recnas.data.prepared import PreparedData
    from recnas.data.raw.sources import ReadySplit


def prepare(
    recipe: str | Path,
    raw: Path | str | Sequence[Path | str] | ReadySplit,
    out: str | Path,
    options: PrepareOptions | None = None,
    *,
    memory: int = 2 << 30,
    threads: int | None = None,
    quiet: bool = True,
    **changes: Any,
) -> PreparedData:
    """Prepare raw files, or continue, or return what is already done; see `recnas prepare --help`.

    Args:
        recipe: the name of a shipped recipe, or a YAML file.
        raw: files and folders, or a `ReadySplit` of them.
        options: what decides the result; `changes` are fields of it, such as `min_count=5`.
        memory: bytes that are used at most.
    """
    from dataclasses import fields, replace

    from recnas.config import nearest
    from recnas.data.prepare.options import PrepareOptions
    from recnas.data.prepare.prepare import prepare as run_prepare
    from recnas.progress import Progress

    known = [field.name for field in fields(PrepareOptions)]
    if unknown := [name for name in changes if name not in known]:
        raise ConfigError(f"prepare has no option {unknown[0]!r}; {nearest(unknown[0], known)}")
    files = [raw] if isinstance(raw, (str, Path)) else raw
    chosen = replace(options or PrepareOptions(), **changes)
    return run_prepare(str(recipe), files, out, chosen, memory=memory, threads=threads, progress=Progress(quiet=quiet))

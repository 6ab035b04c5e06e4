"""`recnas.prepare`: from a raw log to training data; `recnas.synth`: a raw log with a known truth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recnas.errors import ConfigError

if TYPE_CHECKING:
    from recnas.data.prepare.options import PrepareOptions
    from recnas.data.prepared import PreparedData
    from recnas.data.raw.sources import ReadySplit
    from recnas.data.synthetic import SynthSummary


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


def synth(layout: str, out: str | Path, rows: int, seed: int = 1, **options: Any) -> SynthSummary:
    """Generate a raw log with a planted click model; see `recnas synth --help`.

    Args:
        layout: the format: criteo, avazu or kdd12.
        options: of `recnas.data.synthetic.generate`, such as `strength=2.0`.
    """
    from recnas.data.synthetic import LAYOUTS, generate

    if layout not in LAYOUTS:
        raise ConfigError(f"there is no raw format {layout!r} to generate.", f"Choose of: {', '.join(LAYOUTS)}")
    return generate(layout, rows, seed, Path(out), **options)

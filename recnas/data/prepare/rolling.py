"""Rolling splits by time: the same log prepared once per origin, as one would have had to at that time.

Nothing is shared between origins but the raw files, so no origin's vocabulary, edges or statistics know of rows that were
still to come. A preparation that was interrupted goes on with the origin it was at.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare, recipe_of
from recnas.data.prepared import MANIFEST, PreparedData
from recnas.data.raw.sources import STDIN, Raw, raw_paths
from recnas.data.rolling import RollingData, origin_name, write_origins
from recnas.errors import ConfigError, DataError
from recnas.progress import Progress


def prepare_any(
    recipe_name: str | None, raw: Raw, out: Path | str, options: PrepareOptions | None = None, **how: Any
) -> PreparedData | RollingData:
    """`prepare`, or with the protocol `rolling` one `prepare` per origin."""
    options = options or PrepareOptions()
    recipe = None if options.protocol else recipe_of(recipe_name, options)
    if (options.protocol or (recipe.protocol if recipe else "")) != "rolling" or options.origin is not None:
        return prepare(recipe_name, raw, out, options, **how)
    recipe = recipe or recipe_of(recipe_name, options)
    if raw_paths(raw) == [STDIN]:
        raise ConfigError("--protocol rolling reads the rows once per origin, and --raw - gives them once.",
                          "Write them to a file first.")  # fmt: skip
    out, progress = Path(out), how.get("progress") or Progress(quiet=True)
    before = RollingData.find(out)
    if before is None and (out / MANIFEST).exists():
        raise DataError(f"{out} exists and holds something else.", "Choose another --out.")
    count = options.rolling(recipe).origins
    if before is not None and len(before.origins) != count:
        raise DataError(
            f"{out} was prepared with other options: origins was {len(before.origins)}, now {count}.",
            f"Choose another --out, or start over: rm -r {out}",
        )
    made = []
    for number in range(1, count + 1):
        progress.say(f"origin {number} of {count}")
        made.append(prepare(recipe_name, raw, out / origin_name(number), replace(options, origin=number), **how))
    return write_origins(out, tuple(made)) if before is None else before

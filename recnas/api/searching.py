"""`recnas.search`: find an architecture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from recnas.api.runs import Run, open_run

if TYPE_CHECKING:
    from recnas.data.prepared import PreparedData
    from recnas.tasks.registry import AnySearch


def search(
    config: str | Path | AnySearch,
    out: str | Path,
    *overrides: str,
    data: PreparedData | Path | str | None = None,
    workers: int | None = None,
    engine: str = "auto",
    ray_address: str | None = None,
    quiet: bool = True,
) -> Run:
    """Run a search, or continue one; see `recnas search --help`.

    Args:
        config: a YAML file, the name of a shipped config, or settings.
        overrides: "key=value" texts that change it.
        data: the prepared data, if they are not those that the config names.
    """
    from recnas.api.settings import changed, changes
    from recnas.cli.shipped import config_path
    from recnas.config import Settings
    from recnas.engines.execution import Execution
    from recnas.jobs.search import search as run_search
    from recnas.tasks.registry import load_search

    said = changes(overrides, data)
    settings = changed(config, said) if isinstance(config, Settings) else load_search(config_path(str(config)), said)
    run_search(settings, out, Execution.of(workers, quiet, engine, ray_address))
    return open_run(out)

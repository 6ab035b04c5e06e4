"""`recnas.warmup` and `recnas.score`: a weight-sharing supernet, and what proxies say about its architectures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recnas.errors import ConfigError

if TYPE_CHECKING:
    from recnas.data.prepared import PreparedData
    from recnas.evaluators.settings import ScoreSettings
    from recnas.runs.records import Scored
    from recnas.runs.results import WarmupResult
    from recnas.space.base import Space
    from recnas.train.settings import WarmupConfig


class WarmedSupernet:
    """A supernet on disk that was warmed up: a folder, and what its warm-up reached."""

    def __init__(self, path: Path | str) -> None:
        from recnas.runs.folder import RunDir

        run = RunDir.open(path)
        run.check("warmup")
        self.path = run.path
        self._config = run.manifest()["config"]

    @property
    def config(self) -> WarmupConfig:
        from recnas.train.settings import WarmupConfig

        return WarmupConfig.model_validate(self._config)

    @cached_property
    def result(self) -> WarmupResult:
        from recnas.errors import RunError
        from recnas.runs.layout import RESULT
        from recnas.runs.results import WarmupResult, read_record

        found = read_record(WarmupResult, self.path / RESULT)
        if found is None:
            raise RunError(f"The warm-up {self.path} is not finished.", "Call recnas.warmup again as you began it.")
        return found

    @cached_property
    def space(self) -> Space[Any]:
        """What its architectures are drawn from, on the columns of its data."""
        from recnas.data.prepared import PreparedData
        from recnas.runs.folder import RunDir
        from recnas.space.settings import make_ctr_space

        schema = PreparedData.open(RunDir.open(self.path).data_path()).schema
        return make_ctr_space(self.config.space, schema.n_sparse)


def warmup(
    config: str | Path | WarmupConfig,
    out: str | Path,
    *overrides: str,
    data: PreparedData | Path | str | None = None,
    quiet: bool = True,
) -> WarmedSupernet:
    """Warm up a supernet on a share of the training rows, or continue; see `recnas warmup --help`.

    Args:
        config: a YAML file, the name of a shipped config such as "synthetic/warmup", or settings.
        overrides: "key=value" texts that change it.
    """
    from recnas.api.settings import changed, changes
    from recnas.cli.shipped import config_path
    from recnas.config import load_settings
    from recnas.progress import Progress
    from recnas.train.distributed import join_ranks
    from recnas.train.settings import WarmupConfig
    from recnas.train.warmup import warmup as run_warmup

    said = changes(overrides, data)
    if isinstance(config, WarmupConfig):
        settings = changed(config, said)
    else:
        settings = load_settings(WarmupConfig, config_path(str(config)), said)
    with join_ranks() as ranks:
        run_warmup(settings, out, Progress(quiet=quiet or not ranks.first))
    return WarmedSupernet(out)


def score(
    archs: int | Sequence[Any] | Path | str,
    supernet: WarmedSupernet | Path | str,
    proxies: Sequence[str] | None = None,
    *overrides: str,
    settings: ScoreSettings | None = None,
    workers: int | None = None,
    engine: str = "auto",
    ray_address: str | None = None,
    quiet: bool = True,
) -> list[Scored]:
    """Score architectures on a warmed supernet, in their order; see `recnas score --help`.

        for line in recnas.score(100, supernet, ["sigeo", "naswot"]):
            line.key, line.scores["sigeo"].value        # or line.failed, and why

    Args:
        archs: architectures, or dictionaries of them, or a file of them, or how many to draw.
        proxies: names; None: those of `settings`.
        overrides: "key=value" texts that change the settings, such as "batches=2".
    """
    from recnas.api.settings import changed, changes
    from recnas.engines.execution import Execution
    from recnas.evaluators.settings import ScoreSettings
    from recnas.jobs.score import read_archs, score_archs

    if isinstance(proxies, str):
        raise ConfigError(f"proxies is a list of names, not {proxies!r}.", f"Write proxies=[{proxies!r}].")
    warmed = supernet if isinstance(supernet, WarmedSupernet) else WarmedSupernet(supernet)
    chosen = settings or ScoreSettings()
    if proxies is not None:
        chosen = chosen.with_proxies(tuple(proxies))
    chosen = changed(chosen, changes(overrides, None))
    if isinstance(archs, int):
        if archs < 1:
            raise ConfigError("there is nothing to score: archs must be at least 1.")
        wanted: int | list[dict[str, Any]] = archs
    elif isinstance(archs, (str, Path)):
        wanted = read_archs(archs)
    else:
        wanted = [arch if isinstance(arch, dict) else warmed.space.to_dict(arch) for arch in archs]
    return list(score_archs(warmed.path, wanted, chosen, Execution.of(workers, quiet, engine, ray_address)))

"""`recnas.train_model`: one architecture from scratch, over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from recnas.errors import ConfigError

if TYPE_CHECKING:
    from recnas.api.runs import Best
    from recnas.data.prepared import PreparedData
    from recnas.runs.results import TrainResult
    from recnas.serve.load import TrainedModel
    from recnas.space.nasrec.arch import NasrecArch
    from recnas.train.settings import TrainSettings


class Training:
    """A training on disk."""

    def __init__(self, path: Path, result: TrainResult) -> None:
        self.path, self.result = path, result

    def __str__(self) -> str:
        return str(self.path)

    def load(self, seed: int | None = None) -> TrainedModel:
        """The trained model of a seed; the first one if None."""
        from recnas.serve.load import load_trained

        return load_trained(str(self.path), seed=seed)


def train_model(
    arch: NasrecArch | Best | Path | str,
    data: PreparedData | Path | str,
    out: str | Path,
    *overrides: str,
    settings: TrainSettings | None = None,
    seeds: int = 1,
    seed: int = 0,
    track: Sequence[str] = (),
    quiet: bool = True,
) -> Training:
    """Train an architecture from scratch, or continue; see `recnas train --help`.

    Args:
        arch: an architecture, the best of a run, ARCH.json, RUN:best or RUN:NUMBER.
        overrides: "key=value" texts that change the settings, such as "lr=0.002".
        seeds: how many trainings; `seed` is the first one's.
        track: who is told of the run while it is written: tensorboard, mlflow, wandb.
    """
    from recnas.api.runs import Best
    from recnas.api.settings import changed, changes, opened
    from recnas.data.quality import warn_of_data
    from recnas.progress import Progress
    from recnas.tasks.archs import named_arch
    from recnas.track.follow import tracking
    from recnas.train.distributed import join_ranks
    from recnas.train.settings import TrainSettings
    from recnas.train.standalone import train

    if seeds < 1 or seed < 0:
        raise ConfigError(f"seeds must be at least 1 and seed not negative (got {seeds} and {seed}).")
    chosen = changed(settings or TrainSettings(), changes(overrides, None))
    meant = named_arch(str(arch)) if isinstance(arch, (str, Path, Best)) else arch
    prepared = opened(data)
    with join_ranks() as ranks:
        progress = Progress(quiet=quiet or not ranks.first)
        warn_of_data(prepared, progress)
        with tracking(track, out, progress.note):
            result = train(meant, prepared, out, chosen, seeds, seed, progress)
    return Training(Path(out), result)

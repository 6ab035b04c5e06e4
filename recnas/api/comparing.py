"""`recnas.compare`: models on the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recnas.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd

    from recnas.api.runs import Best
    from recnas.api.training import Training
    from recnas.data.prepared import PreparedData
    from recnas.runs.results import Leaderboard
    from recnas.serve.load import TrainedModel
    from recnas.tasks.comparison.settings import CompareConfig


class Comparison:
    """A comparison on disk."""

    def __init__(self, path: Path, board: Leaderboard) -> None:
        self.path, self.board = path, board

    def table(self) -> pd.DataFrame:
        """One row per model, best first: its metrics on test (means over seeds), and its difference to the reference."""
        import pandas as pd

        rows: list[dict[str, Any]] = []
        for model in self.board.models:
            row: dict[str, Any] = {"model": model.model}
            row |= {metric.name: model.value("test", metric.name).mean for metric in self.board.metrics}
            if (difference := model.difference) is not None:
                low, high = difference.logloss_interval
                row |= {"difference": difference.logloss, "low": low, "high": high, "real": difference.real}
            rows.append(row | {"verdict": model.verdict, "params": model.params, "flops": model.flops})
        return pd.DataFrame(rows)

    def load(self, model: str, seed: int | None = None) -> TrainedModel:
        """A trained model of the comparison, if it kept the weights (`keep=True`)."""
        from recnas.serve.load import load_trained

        return load_trained(f"{self.path}:{model}", seed=seed)


def compare(
    models: Sequence[str | Best | Training] | CompareConfig | Path | str,
    out: str | Path,
    *overrides: str,
    data: PreparedData | Path | str | None = None,
    keep: bool = False,
    workers: int | None = None,
    engine: str = "auto",
    ray_address: str | None = None,
    quiet: bool = True,
) -> Comparison:
    """Compare models on one data set, or continue; see `recnas compare --help`.

        recnas.compare(["dlrm", "dcn-v2", run.best], "runs/cmp", "seeds=3", "reference=dlrm", data=data)

    Args:
        models: hand-crafted ones by name, the best of runs, ARCH.json; or a whole config: its file, name or settings.
        overrides: "key=value" texts: seeds, tune, reference ..., and training settings such as "epochs=1".
        keep: keep the weights of every final training.
    """
    from recnas.api.settings import changes, opened
    from recnas.cli.shipped import config_path
    from recnas.config import Settings, read_config
    from recnas.engines.execution import Execution
    from recnas.jobs.compare.configured import compare_configured
    from recnas.tasks.comparison.settings import compare_config

    if isinstance(models, Settings):
        values, source = models.model_dump(mode="json"), "the settings"
    elif isinstance(models, (str, Path)):
        values, source = read_config(config_path(str(models))), str(models)
    else:
        values, source = {"models": [str(model) for model in models]}, "the call"
    config = compare_config(values, changes(overrides, data), source)
    if config.data is None:
        raise ConfigError(
            "a prepared data set is needed.", 'recnas.compare(["dlrm", "deepfm"], "runs/cmp", data="DIR")'
        )
    how = Execution.of(workers, quiet, engine, ray_address)
    board = compare_configured(config, opened(config.data), out, keep, how)
    return Comparison(Path(out), board)

"""The commands as Python functions: `import recnas; run = recnas.search("synthetic/laptop", "runs/first")`.

    run.result                  # what result.json holds
    run.table()                 # candidates and trainings as a pandas frame
    run.best.build()            # the winner as a torch module with fresh weights
    run.best.load()             # the same with its trained weights
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recnas.errors import RunError
from recnas.run import RunDir

if TYPE_CHECKING:
    import pandas as pd
    from torch import nn

    from recnas.jobs.search_settings import SearchConfig
    from recnas.jobs.search_table import TableSearchConfig
    from recnas.space.nasrec_arch import NasrecArch


def search(
    config: str | Path | SearchConfig | TableSearchConfig, out: str | Path, *overrides: str, workers: int | None = None, quiet: bool = True
) -> Run:
    """Run a search, or continue one; see `recnas search --help`.

    Args:
        config: a YAML file, the name of a shipped config, or settings.
        overrides: "key=value" strings, for a file or a shipped config.
    """
    from recnas.cli.shipped import config_path
    from recnas.config import Settings
    from recnas.jobs.search_kinds import load_search, run_search
    from recnas.progress import Progress

    settings = config if isinstance(config, Settings) else load_search(config_path(str(config)), overrides)
    run_search(settings, out, workers, Progress(quiet=quiet))
    return open_run(out)


def open_run(path: str | Path) -> Run:
    """A search that was run before, finished or not."""
    run = RunDir.open(path)
    run.check("search")
    return Run(run)


class Run:
    """A search on disk."""

    def __init__(self, folder: RunDir) -> None:
        self.folder = folder
        self.path = folder.path

    @property
    def result(self) -> dict[str, Any]:
        return json.loads(self._file("result.json").read_text())

    @property
    def best(self) -> Best:
        return Best(self, self._file("best.json"))

    def table(self) -> pd.DataFrame:
        """One row per candidate: proposal, objective values, scores, cost, and figures of those trained."""
        import pandas as pd

        events = self.folder.ledger.read()
        trained: dict[str, list[float]] = {}
        for event in events:
            if event.get("event") == "trained":
                trained.setdefault(event["key"], []).append(event["valid"]["logloss"])
        rows = []
        for event in events:
            if event.get("event") != "candidate":
                continue
            row = {name: event.get(name) for name in ("index", "key", "origin", "changes", "same_as", "failed", "seconds")}
            row["parent"] = event["parents"][0] if event["parents"] else None
            row |= event["values"] or {}
            row |= event.get("cost", {})
            for name, score in event.get("scores", {}).items():
                row[name] = score["value"]
                row |= {f"{name}.{term}": value for term, value in score["terms"].items()}
            losses = trained.get(event["key"])
            row["valid_logloss"] = sum(losses) / len(losses) if losses else None
            rows.append(row)
        return pd.DataFrame(rows)

    def _file(self, name: str) -> Path:
        path = self.path / name
        if not path.exists():
            raise RunError(f"{self.path} is not finished: it has no {name}.", f"Continue it: recnas search --resume {self.path}")
        return path


class Best:
    """The winner of a search."""

    def __init__(self, run: Run, path: Path) -> None:
        from recnas.space.nasrec_json import load_arch

        self.run = run
        self.arch: NasrecArch = load_arch(path)

    def build(self, seed: int = 0) -> nn.Module:
        """A network of this architecture with freshly drawn weights; it reads (dense, embedded)."""

        from recnas.data.prepared import PreparedData
        from recnas.jobs.search_settings import SearchConfig
        from recnas.jobs.training import net_shape
        from recnas.model.subnet import new_subnet

        folder = self.run.folder
        config = SearchConfig.model_validate(folder.manifest()["config"] | {"data": str(folder.data_path())})
        settings = config.final.retrain_train or config.final.train
        shape = net_shape(PreparedData.open(config.data).schema, settings)
        return new_subnet(self.arch, shape, seed)

    def load(self, seed: int = 0) -> nn.Module:
        """The same with the weights of its last training."""
        import torch

        from recnas.train.checkpoint import load_latest

        network = self.build(seed)
        saved = load_latest(self.run.path / "best" / f"seed-{seed}")
        if saved is None:
            raise RunError(f"{self.run.path} has no trained weights of seed {seed}.", f"Continue it: recnas search --resume {self.run.path}")
        with torch.no_grad():
            for name, parameter in network.named_parameters():
                parameter.copy_(saved.tensors[f"network/{name}"])
        return network

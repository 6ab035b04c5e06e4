"""A search on disk, as `recnas.search` and `recnas.open_run` give it.

run.result                  # what result.json holds, typed
run.to_optuna()             # the same as an Optuna study
run.table()                 # candidates and trainings as a pandas frame
run.best.arch               # the winner, in its own space
run.best.build()            # of a CTR search: a torch module with fresh weights
run.best.load()             # of a CTR search: the trained model, with its tables; model.predict(frame)
"""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recnas.errors import RunError
from recnas.runs.folder import RunDir
from recnas.runs.layout import RESULT, WINNER_FILE
from recnas.runs.records import Candidate, Trained, read_lines
from recnas.runs.search_result import SearchResult

if TYPE_CHECKING:
    import pandas as pd
    from torch import nn

    from recnas.serve.load import TrainedModel


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
    def result(self) -> SearchResult:
        return SearchResult.model_validate(json.loads(self._file(RESULT).read_text()))

    @property
    def best(self) -> Best:
        return Best(self, self._file(WINNER_FILE))

    def table(self) -> pd.DataFrame:
        """One row per candidate: proposal, objectives, scores, cost, and validation metrics of those trained.

        Objectives and scores stand under their own names, what finalists reached under `finalist_<metric>`.
        """
        import pandas as pd

        records = read_lines("search", self.folder.ledger.read(), str(self.folder.ledger.path))
        trained: dict[str, list[Trained]] = {}
        for record in records:
            if isinstance(record, Trained):
                trained.setdefault(record.key, []).append(record)
        return pd.DataFrame(
            [_row(record, trained.get(record.key, [])) for record in records if isinstance(record, Candidate)]
        )

    def to_optuna(self, storage: Any = None, name: str | None = None) -> Any:
        """The candidates as the trials of an Optuna study, in memory or in an Optuna storage; see docs/ecosystem.md."""
        from recnas.track.optuna import to_optuna

        return to_optuna(self.path, storage, name)

    def _file(self, name: str) -> Path:
        path = self.path / name
        if not path.exists():
            raise RunError(
                f"{self.path} is not finished: it has no {name}.", f"Continue it: recnas search --resume {self.path}"
            )
        return path


def _row(candidate: Candidate, trained: list[Trained]) -> dict[str, Any]:
    names = ("index", "key", "origin", "changes", "same_as", "failed", "seconds")
    row: dict[str, Any] = {name: getattr(candidate, name) for name in names}
    row["parent"] = candidate.parents[0] if candidate.parents else None
    row |= candidate.cost
    for name, score in candidate.scores.items():
        row[name] = score.value
        row |= {f"{name}.{term}": value for term, value in score.terms.items()}
    row |= candidate.values or {}
    for metric in trained[0].valid if trained else ():
        values = [line.valid[metric] for line in trained if line.valid.get(metric) is not None]
        row[f"finalist_{metric}"] = sum(values) / len(values) if values else None  # type: ignore[arg-type]
    return row


class Best:
    """The winner of a search."""

    def __init__(self, run: Run, path: Path) -> None:
        self.run = run
        self._described = json.loads(path.read_text())

    def __str__(self) -> str:
        """How commands name it."""
        return f"{self.run.path}:best"

    @cached_property
    def arch(self) -> Any:
        """The architecture, as its space has it."""
        from recnas.space.registry import get_space

        space = self.run.folder.manifest()["config"]["space"]
        options = {name: value for name, value in space.items() if name not in ("name", "network", "supernet")}
        sizes = space.get("supernet", {}) if space["name"] == "mlp" else {}
        return get_space(space["name"], **options, **sizes).from_dict(self._described)

    def build(self, seed: int = 0) -> nn.Module:
        """A network of this architecture with freshly drawn weights; it reads (dense, embedded)."""
        from recnas.data.prepared import PreparedData
        from recnas.model.nasrec.subnet import new_subnet
        from recnas.tasks.settings import CtrSearchConfig
        from recnas.train.setup import net_shape

        self._only_of_clicks("build")
        config = CtrSearchConfig.model_validate(self.run.folder.manifest()["config"])
        settings = config.final.retrain_settings or config.final.train
        schema = PreparedData.open(self.run.folder.data_path()).schema
        return new_subnet(self.arch, net_shape(schema, settings), seed)

    def load(self, seed: int | None = None) -> TrainedModel:
        """The trained model, network and tables: `model.predict(frame)`, or `model.predict(dense, ids)`."""
        from recnas.serve.load import load_trained

        self._only_of_clicks("load")
        return load_trained(str(self.run.path), seed=seed)

    def _only_of_clicks(self, what: str) -> None:
        task = self.run.folder.manifest()["task"]
        if task != "ctr":
            raise RunError(
                f"{self.run.path} searched {task}; only the winner of a search on clicks can be asked to {what}.",
                "Its architecture: run.best.arch",
            )

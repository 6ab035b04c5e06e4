"""The search whose candidates are trained, briefly, instead of scored: HNAS on NASRec, and rankers like it.

Everything is as in `recnas.jobs.search` but for two things. The objective of a candidate is its validation log
loss after a short training from scratch. And methods that rank a pool first (hnas, top) get figures of any
architecture from the supernet of the warm-up phase (a share of 0 leaves it as drawn):

    RUN/pool.jsonl      one line per architecture of the pool with its scores; read again on resume
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recnas.engines.base import Engine, Work
from recnas.jobs.scoring import ScoreSettings, ScoreWork
from recnas.jobs.search import _Search
from recnas.jobs.search_settings import SHARED_LOSS, SearchMethod
from recnas.jobs.train_work import TrainWork
from recnas.run import Ledger
from recnas.searchers.evidence import Evidence
from recnas.space.base import Space

_ROOT = "_root"  # after a proxy's name: the term `root` of its score


@dataclass(frozen=True)
class ShortTraining:
    """Trains one architecture and gives its validation log loss in the form of a score."""

    work: TrainWork
    seed: int

    def open(self) -> Callable[[dict[str, Any]], dict[str, Any]]:
        train = self.work.open()

        def call(described: dict[str, Any]) -> dict[str, Any]:
            found = train((0, self.seed, described))
            terms = {name: value for name, value in found["valid"].items() if name == "auc" and value is not None}
            return {"scores": {SHARED_LOSS: {"value": found["valid"]["logloss"], "terms": terms}}, "seconds": found["seconds"]}

        return call


class HybridSearch(_Search):
    """`recnas search` with `evaluator: train`."""

    _scoring: ScoreWork | None = None

    def _warm(self) -> Work:
        wanted = pool_proxies(self.config.search)
        if wanted:
            asked = self.config
            self.config = asked.model_copy(update={"score": with_proxies(asked.score, wanted)})
            try:
                work = super()._warm()
            finally:
                self.config = asked
            assert isinstance(work, ScoreWork)
            self._scoring = work
        short = self.config.short
        folder = str(self.folder.path / "queries")
        training = TrainWork(self.config.data, self.config.space, short.train, short.rows, short.valid_rows, ("valid",), folder)
        return ShortTraining(training, self.config.seed)

    def _evidence(self) -> Evidence | None:
        if self._scoring is None:
            return None
        return PoolScores(self.space, self._scoring, self._engine, self.folder.path / "pool.jsonl")


class PoolScores:
    """Evidence from a scoring job; every architecture is scored once and written down.

    Args:
        space: names and describes architectures.
        work: scores one of them.
        open_engine: makes an engine for the work, as a context manager.
        path: the file that keeps the scores.
    """

    def __init__(self, space: Space[Any], work: Work, open_engine: Callable[[Work], Any], path: Path) -> None:
        self._space, self._work, self._open_engine = space, work, open_engine
        self._ledger = Ledger(path)
        self._known: dict[str, dict[str, Any]] = {event["key"]: event for event in self._ledger.read()}

    def figures(self, archs: Sequence[Any], names: Sequence[str]) -> np.ndarray:
        keys = [self._space.key(arch) for arch in archs]
        rest = {key: self._space.to_dict(arch) for key, arch in zip(keys, archs) if key not in self._known}
        if rest:
            engine: Engine
            with self._open_engine(self._work) as engine:
                for key, found in zip(rest, engine.map(rest.values())):
                    self._known[key] = {"key": key, "arch": rest[key], **found}
                    self._ledger.append(self._known[key])
            self._ledger.close()
        return np.array([[figure(self._known[key], name) for key in keys] for name in names])


def figure(event: dict[str, Any], name: str) -> float:
    """A score by the proxy's name, or its root by `<proxy>_root`; NaN if the network is degenerate or failed."""
    proxy = name.removesuffix(_ROOT)
    found = (event.get("scores") or {}).get(proxy)
    if found is None or "reason" in found:
        return float("nan")
    return float(found["terms"]["root"] if name.endswith(_ROOT) else found["value"])


def pool_proxies(search: SearchMethod) -> list[str]:
    """What the pool must be scored with, by the names of proxies."""
    if search.method == "hnas":
        names = [search.hnas.metric, *([search.hnas.kappa] if search.hnas.kappa else [])]
    elif search.method == "top":
        names = list(search.top.by)
    else:
        return []
    return list(dict.fromkeys(name.removesuffix(_ROOT) for name in names))


def with_proxies(settings: ScoreSettings, names: list[str]) -> ScoreSettings:
    """The same scoring with other proxies; names are checked."""
    return ScoreSettings.model_validate(settings.model_dump() | {"proxies": names})

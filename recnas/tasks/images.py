"""Images: a vision space whose candidates are scored at initialisation or trained briefly.

    RUN/pool.jsonl        training-free scores of the pool, for methods that rank one
    RUN/winner/           weights of the winner's last training

A query is the validation accuracy after `query_training`. The best `final.candidates` are trained by
`final.train`, validation chooses among them, and the winner alone reads the test split, once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from recnas.engines.base import Work
from recnas.engines.execution import Execution
from recnas.errors import RunError
from recnas.evaluators.images import ImageTrainingEvaluator, ImageTrainWork, VisionProxyEvaluator
from recnas.evaluators.pool_scores import ROOT, ScoredPool
from recnas.evaluators.training import TrainRequest
from recnas.runs.folder import RunDir
from recnas.runs.records import FinalTest
from recnas.space.networks import cost
from recnas.space.vision import VisionSpace
from recnas.tasks.base import FINALISTS, SEARCH, WINNER, Final, Metric, Task
from recnas.tasks.cell_seeds import cell_seeds
from recnas.tasks.settings import ImageSearchConfig
from recnas.train.checkpoint import save
from recnas.train.images import ImageTraining, Split


def image_fingerprint(images: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(images.images).tobytes() + images.labels.tobytes()).hexdigest()


class ImagesTask(Task):
    """`recnas search` with a vision space that is trained here."""

    name = "images"
    metric = Metric("accuracy", "max")
    phases = (SEARCH, FINALISTS, WINNER)

    def __init__(self, config: ImageSearchConfig) -> None:
        self.config = config
        self.images = config.images.load()
        self.space = config.space.space.make()
        self.objectives = config.goals()
        self.seed, self.searcher, self.limits = config.seed, config.search, config.limits
        self.seeds = cell_seeds(self.searcher, cast(VisionSpace[Any], self.space))
        self.finalists, self.finalist_seeds = config.final.candidates, config.final.seeds
        self._fingerprint = image_fingerprint(self.images)

    def sources(self, out: Path | str) -> dict[str, Any]:
        seen = {"path": self.images.name, "fingerprint": self._fingerprint}
        return {"data": seen, "images": {"name": self.images.name, "fingerprint": self._fingerprint}}

    @property
    def proxies(self) -> tuple[str, ...]:
        return self.config.score.proxies if self.config.evaluator == "proxy" else ()

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    def cost(self, arch: Any) -> Mapping[str, float]:
        found = cost(self.config.space.name, arch, self.images.classes, self.images.side, **self.config.space.network)
        return {"params": found.params, "macs": found.macs, "flops": 2 * found.macs}

    def devices(self) -> Mapping[str, str]:
        config = self.config
        found = {"final.train.device": config.final.train.device}
        if config.evaluator == "proxy":
            return found | {"score.device": config.score.device}
        return found | {"query_training.device": config.query_training.device}

    def evaluator(self, run: RunDir) -> Work:
        if self.config.evaluator == "proxy":
            return self._by_proxies(self.config.score.proxies)
        return ImageTrainingEvaluator(self._training(self.config.query_training, ("valid",)), self.seed)

    def _by_proxies(self, names: tuple[str, ...]) -> VisionProxyEvaluator:
        config = self.config
        settings = config.score.model_copy(update={"proxies": names})
        return VisionProxyEvaluator(config.space.space, config.space.network, config.images, config.split, settings)

    def _training(self, training: ImageTraining, splits: tuple[Split, ...]) -> ImageTrainWork:
        config = self.config
        return ImageTrainWork(config.space.space, config.space.network, config.images, config.split, training, splits)

    def pool_scores(self, run: RunDir, how: Execution) -> ScoredPool | None:
        names = tuple(dict.fromkeys(name.removesuffix(ROOT) for name in self.searcher.pool_scores))
        if not names:
            return None
        return ScoredPool(self.space, self._by_proxies(names), how, run.path / "pool.jsonl")

    def finalist_work(self, run: RunDir) -> ImageTrainWork:
        return self._training(self.config.final.train, ("valid",))

    def finish(self, arch: Any, run: RunDir, how: Execution) -> Final:
        """The winner's training once more, this time with a look at the test split."""
        from recnas.threads import one_thread

        for line in run.ledger.read():
            if line.get("event") == "test":
                return self._final(FinalTest.model_validate(line))
        work = self._training(self.config.final.train, ("valid", "test"))
        with one_thread():
            training, model = work.train(self.images, TrainRequest(self.seed, self.space.to_dict(arch)))
        if training.failed is not None:
            raise RunError(f"the winner's training failed: {training.failed}.", "Lower final.train.lr.")
        save(run.path / WINNER, training.steps, dict(model.state_dict()), {}, {"arch": self.space.key(arch)}, keep=1)
        test = FinalTest(key=self.space.key(arch), valid=training.metrics["valid"], test=training.metrics["test"])
        run.ledger.append(test.to_json())
        return self._final(test)

    def _final(self, line: FinalTest) -> Final:
        return Final(dict(line.test), valid=dict(line.valid))

    def budget(self, scored: int, trained: int, candidates: list[Any]) -> dict[str, float]:
        config = self.config
        queries = config.query_training.epochs * scored if config.evaluator == "training" else 0
        return {"epochs": queries + config.final.train.epochs * (trained + 1)}

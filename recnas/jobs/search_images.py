"""Search a vision space by training candidates briefly on images: HNAS on DARTS, and any other method.

    RUN/manifest.json   config, fingerprint of the images, versions
    RUN/ledger.jsonl    one line per query in the order proposed, per phase and per final training
    RUN/pool.jsonl      training-free scores of the pool, for methods that rank one (hnas, top)
    RUN/best.json       the winner; RUN/weights.npz what its last training left
    RUN/result.json     its accuracies and what the search cost

A query is the validation accuracy after `short`. The best `final.top` queries are trained again by `final.train`,
validation chooses among them, and the winner alone reads the test part, once. NAS-Bench-201, whose cells are all
trained, has its table instead (`recnas.jobs.search_table`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, field_validator, model_validator

from recnas.config import Settings
from recnas.engines.base import EngineChoice, Work, open_engine
from recnas.errors import ConfigError, RunError
from recnas.jobs.cells import as_batches
from recnas.jobs.search_hnas import PoolScores, pool_proxies
from recnas.jobs.search_oneshot import SearchImages, image_run
from recnas.jobs.search_settings import SearchMethod
from recnas.jobs.train_images import ImageParts, ImageTraining, ImageTrainWork
from recnas.machine import default_workers
from recnas.progress import Progress
from recnas.run import RunDir, write_atomic, write_json
from recnas.searchers.base import Searcher
from recnas.searchers.limits import Gate
from recnas.searchers.objective import Objectives
from recnas.searchers.registry import get_searcher
from recnas.searchers.settings import LimitSettings
from recnas.space.nasbench201 import NAME as NASBENCH201
from recnas.space.registry import get_space
from recnas.space.vision import VISION, cost

OBJECTIVE = "valid_accuracy"
TRAINED_HERE = tuple(name for name in VISION if name != NASBENCH201)


class VisionSpace(Settings):
    """The space, and the sizes of the networks that are scored and trained."""

    name: str
    network: dict[str, Any] = Field(default_factory=dict)  # such as channels and cells; see recnas.space.vision

    @field_validator("name")
    @classmethod
    def _can_be_trained(cls, value: str) -> str:
        if value not in TRAINED_HERE:
            raise ValueError(f"networks of this space cannot be trained on images; choose one of {', '.join(TRAINED_HERE)}")
        return value


class PoolScoring(Settings):
    """On what the pool's scores are computed."""

    batches: int = Field(1, ge=1)
    batch_size: int = Field(64, ge=2)
    channels: int | None = Field(None, ge=1)  # of the scored networks; null: as trained
    seed: int = Field(0, ge=0)


class VisionFinal(Settings):
    """What happens to the best queries."""

    top: int = Field(3, ge=1)
    train: ImageTraining = ImageTraining(epochs=10)


class VisionSearchConfig(Settings):
    """`recnas search CONFIG` with a vision space that is trained here."""

    space: VisionSpace
    seed: int = Field(0, ge=0)
    images: SearchImages = SearchImages()
    parts: ImageParts = ImageParts()
    score: PoolScoring = PoolScoring()
    short: ImageTraining = ImageTraining()
    limits: LimitSettings = LimitSettings()
    search: SearchMethod = SearchMethod()
    final: VisionFinal = VisionFinal()

    @model_validator(mode="after")
    def _networks_have_these_sizes(self) -> VisionSearchConfig:
        some = get_space(self.space.name).sample(np.random.default_rng(0))
        try:
            cost(self.space.name, some, **self.space.network)
        except ConfigError as error:
            raise ValueError(f"space.network: {error.what}") from None
        return self

    def facts(self) -> dict[str, Any]:
        """What must be the same for a run to be continued; where the files lie may change."""
        return self.model_dump(mode="json", exclude={"images": {"path"}, "search": self.search.unused})


@dataclass(frozen=True)
class VisionScoreWork:
    """Scores one architecture, as a dictionary, at initialisation; opened once per worker."""

    space: str
    network: dict[str, Any]
    images: SearchImages
    parts: ImageParts
    scoring: PoolScoring
    proxies: tuple[str, ...]

    def open(self) -> Callable[[dict[str, Any]], dict[str, Any]]:
        from recnas.jobs.scoring import as_json
        from recnas.model.vision import build_scored
        from recnas.proxies.base import ProxyError
        from recnas.proxies.engine import score
        from recnas.proxies.registry import get_proxies
        from recnas.proxies.sigeo import Lambdas

        images = self.images.load()
        training = images.only(self.parts.rows(len(images), "train"))
        batches = as_batches(training, self.scoring.batch_size, self.scoring.batches, self.scoring.seed)
        proxies = get_proxies(self.proxies, lambdas=Lambdas.for_case("vision", warmed=False))
        space = get_space(self.space)

        def call(described: dict[str, Any]) -> dict[str, Any]:
            started = time.monotonic()
            network = build_scored(
                self.space, space.from_dict(described), images.classes, images.side, self.scoring.seed, **self.network
            )
            try:
                found = score(network, batches, proxies, self.scoring.seed)
            except ProxyError as error:  # one bad candidate must not end a night's search
                return {"failed": error.what, "seconds": time.monotonic() - started}
            return {"scores": as_json(found), "seconds": time.monotonic() - started}

        return call


def search_images(
    config: VisionSearchConfig,
    out: Path | str,
    workers: int | None = None,
    progress: Progress | None = None,
    engine: EngineChoice | None = None,
) -> dict[str, Any]:
    """Run the search, or the rest of one that was interrupted; workers and engine may differ."""
    engine = engine or EngineChoice()
    engine.check()
    images = config.images.load()
    run = image_run(config.facts(), config.images, out, images)
    with run.locked():
        job = _VisionSearch(config, images, run, workers or default_workers(), progress or Progress(quiet=True), engine)
        result = job.run()
    return result


class _VisionSearch:
    def __init__(
        self, config: VisionSearchConfig, images: Any, run: RunDir, workers: int, progress: Progress, engine: EngineChoice
    ) -> None:
        self.config, self.images, self.folder, self.workers, self.progress, self.engine = config, images, run, workers, progress, engine
        self.space = get_space(config.space.name)
        self.events = run.ledger.read()

    def run(self) -> dict[str, Any]:
        with self._phase("search"):
            searcher = self._search()
        with self._phase("top"):
            trained = self._train_top(searcher)
        best = max(trained, key=lambda found: (found["valid"], -found["rank"]))
        write_json(self.folder.path / "best.json", best["arch"])
        with self._phase("best"):
            test = self._read_test(best)
        result = self._result(searcher, trained, best, test)
        write_json(self.folder.path / "result.json", result)
        return result

    def _search(self) -> Searcher[Any]:
        config = self.config
        gate = Gate(self.space, config.limits, cost=self._cost)
        searcher = get_searcher(
            config.search.method, self.space, Objectives.of({OBJECTIVE: "max"}), config.seed, config.search.chosen, gate, self._evidence()
        )
        searcher.replay(self.events)
        self.progress.phase("search", searcher.total, "queries")
        self.progress.advance(len(searcher.history))
        with self._open(self._training(config.short, ("valid",))) as engine:
            while batch := searcher.ask_batch():
                found = engine.map([(config.seed, self.space.to_dict(p.arch)) for p in batch if not p.known])
                for proposal in batch:
                    line = searcher.tell(proposal) if proposal.known else self._told(searcher, proposal, next(found))
                    self._append(line)
                    self.progress.advance(1)
        self.progress.end()
        return searcher

    def _told(self, searcher: Searcher[Any], proposal: Any, found: dict[str, Any]) -> dict[str, Any]:
        if "failed" in found:
            line = searcher.tell(proposal, failed=found["failed"])
        else:
            line = searcher.tell(proposal, {OBJECTIVE: found["valid"]}) | {"epochs": self.config.short.epochs}
        return line | {"cost": self._cost(proposal.arch), "seconds": found["seconds"]}

    def _train_top(self, searcher: Searcher[Any]) -> list[dict[str, Any]]:
        """The best queries after the longer training, by validation accuracy."""
        best = searcher.best(self.config.final.top)
        if not best:
            raise RunError("every candidate failed in training.", "Lower short.lr, or look into the ledger for the reasons.")
        done = {event["key"]: event for event in self.events if event.get("event") == "longer"}
        missing = [(rank, told) for rank, told in enumerate(best) if told.proposal.key not in done]
        self.progress.phase("train the best", len(best), "trainings")
        self.progress.advance(len(best) - len(missing))
        with self._open(self._training(self.config.final.train, ("valid",))) as engine:
            items = [(self.config.seed, self.space.to_dict(told.proposal.arch)) for _, told in missing]
            for (rank, told), found in zip(missing, engine.map(items)):
                event = {
                    "event": "longer", "rank": rank, "index": told.proposal.index, "key": told.proposal.key, "seed": self.config.seed,
                    "arch": self.space.to_dict(told.proposal.arch), "values": dict(told.values or {}), **self._cost(told.proposal.arch), **found,
                }  # fmt: skip
                self._append(event)
                done[told.proposal.key] = event
                self.progress.advance(1)
        self.progress.end()
        found = [done[told.proposal.key] for told in best]
        whole = [event for event in found if "valid" in event]
        if not whole:
            raise RunError("every final training failed.", "Lower final.train.lr.")
        return whole

    def _read_test(self, best: dict[str, Any]) -> float:
        """The winner's training once more, this time with a look at the test part."""
        for event in self.events:
            if event.get("event") == "test":
                return float(event["accuracy"])
        work = self._training(self.config.final.train, ("valid", "test"), weights=True)
        with self._open(work) as engine:
            (found,) = list(engine.map([(self.config.seed, best["arch"])]))
        write_atomic(self.folder.path / "weights.npz", lambda file: np.savez(file, **found["weights"]))
        self._append({"event": "test", "key": best["key"], "accuracy": found["test"], "valid": found["valid"]})
        return float(found["test"])

    def _result(self, searcher: Searcher[Any], trained: list[dict[str, Any]], best: dict[str, Any], test: float) -> dict[str, Any]:
        scored = [told for told in searcher.history if not told.proposal.known]
        epochs = self.config.short.epochs * len(scored) + self.config.final.train.epochs * (len(trained) + 1)
        return {
            "best": {name: best[name] for name in ("key", "index", "rank", "values", "params", "macs")} | {"arch": self._text(best["arch"])},
            "valid_accuracy": best["valid"],
            "test_accuracy": {self.images.name: test},
            "best_possible": {},
            "seeds": {"search": self.config.seed},
            "budgets": {
                "proposed": len(searcher.history), "scored": len(scored), "failed": sum(told.values is None for told in scored),
                "trained": len(scored) + len(trained), "epochs": epochs, "test_read_by": 1,
            },
            "objectives": {OBJECTIVE: "max"},
            "front": None,
            "limits": searcher.gate.counts.to_dict(),
            "seconds": {event["name"]: event["seconds"] for event in self.events if event.get("event") == "phase"},
            "data": self.folder.manifest()["data"]["fingerprint"],
            "top": [{name: value for name, value in found.items() if name not in ("arch", "event")} for found in trained],
        }  # fmt: skip

    # Help

    def _text(self, described: dict[str, Any]) -> str:
        """In the notation of the space's authors where there is one."""
        arch = self.space.from_dict(described)
        return str(getattr(arch, "text", None) or described)

    def _evidence(self) -> PoolScores | None:
        proxies = pool_proxies(self.config.search)
        if not proxies:
            return None
        config = self.config
        network = config.space.network | ({"channels": config.score.channels} if config.score.channels else {})
        work = VisionScoreWork(config.space.name, network, config.images, config.parts, config.score, tuple(proxies))
        return PoolScores(self.space, work, self._open, self.folder.path / "pool.jsonl")

    def _training(self, training: ImageTraining, judged: Any, weights: bool = False) -> ImageTrainWork:
        config = self.config
        return ImageTrainWork(config.space.name, config.space.network, config.images, config.parts, training, judged, weights)

    def _cost(self, arch: Any) -> dict[str, float]:
        found = cost(self.config.space.name, arch, self.images.classes, self.images.side, **self.config.space.network)
        return {"params": found.params, "macs": found.macs, "flops": 2 * found.macs}

    @contextmanager
    def _open(self, work: Work) -> Iterator[Any]:
        with open_engine(work, self.workers, self.engine.kind, self.engine.address) as engine:
            yield engine

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        if not any(event.get("event") == "phase" and event["name"] == name for event in self.events):
            self._append({"event": "phase", "name": name, "seconds": time.monotonic() - started, "workers": self.workers})

    def _append(self, event: dict[str, Any]) -> None:
        self.folder.ledger.append(event)
        self.events.append(event)

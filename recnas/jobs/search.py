"""Find an architecture: warm up, score candidates, train the best from scratch, read test once.

    RUN/manifest.json   config, data fingerprint, versions
    RUN/ledger.jsonl    one line per phase, per candidate in the order proposed, and per training
    RUN/warmup/         the warmed supernet, as `recnas warmup` leaves it
    RUN/best/           the winner's training: weights, curve, metrics
    RUN/best.json       the winner in recnas's own format
    RUN/result.json     validation and test figures, seeds, what every phase cost

Validation chooses among the trained candidates; test is read by the winner only, after its last training.
A run that is repeated after a crash goes on where it was: phases that ended are not repeated, the searcher
replays the ledger, trainings continue from their checkpoints, and the result is the same.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from recnas.data.prepared import PreparedData
from recnas.engines.base import Engine, EngineChoice, Work, open_engine
from recnas.jobs.forecast import check_fits, forecast
from recnas.jobs.latency import measure_latency
from recnas.jobs.notice import warn_of_data
from recnas.jobs.one_shot import OneShotWork
from recnas.jobs.scoring import ScoreWork, freeze
from recnas.jobs.search_settings import COSTS, LATENCIES, SearchConfig
from recnas.jobs.settings import CheckSettings, WarmupConfig, make_space
from recnas.jobs.train import train
from recnas.jobs.train_work import TrainWork
from recnas.jobs.training import net_shape
from recnas.jobs.warmup import load_warmed, warmup
from recnas.machine import default_workers
from recnas.progress import Progress
from recnas.run import RunDir, write_json
from recnas.run_facts import data_facts
from recnas.searchers.base import Searcher
from recnas.searchers.evidence import Evidence
from recnas.searchers.limits import Gate
from recnas.searchers.registry import get_searcher
from recnas.space.cost import count
from recnas.space.nasrec_arch import NasrecArch
from recnas.space.nasrec_json import dump_arch
from recnas.threads import computing_with, settle_threads

WINDOW = 16  # candidates whose order among the workers is free; a crash loses at most so many scores


def search(
    config: SearchConfig,
    out: Path | str,
    workers: int | None = None,
    progress: Progress | None = None,
    engine: EngineChoice | None = None,
) -> dict[str, Any]:
    """Run the whole search, or the rest of one that was interrupted; workers and engine may differ."""
    progress = progress or Progress(quiet=True)
    engine = engine or EngineChoice()
    engine.check()
    data = PreparedData.open(config.data)
    workers = workers or default_workers()
    if not (Path(out) / "manifest.json").exists():
        check_fits(forecast(config, engine.workers_here(workers), data))
    threads = settle_threads(out, config.train.threads)
    run = RunDir.create(
        out, "search", config=config.facts(), data=data_facts(data.path, data.fingerprint, out), threads=threads
    )
    warn_of_data(data, progress)
    with run.locked(), computing_with(threads):
        kind = _Search
        if config.evaluator == "train":
            from recnas.jobs.search_hnas import HybridSearch as kind
        job = kind(config, data, run, workers, threads, progress, engine)
        result = job.run()
    return result


class _Search:
    def __init__(
        self,
        config: SearchConfig,
        data: PreparedData,
        run: RunDir,
        workers: int,
        threads: int,
        progress: Progress,
        engine: EngineChoice,
    ) -> None:
        self.engine, self.threads = engine, threads
        self.config, self.data, self.folder, self.workers, self.progress = (
            config,
            data,
            run,
            workers,
            progress,
        )
        self.space = make_space(config.space)
        self.objectives = config.goals()
        self.events = run.ledger.read()

    def run(self) -> dict[str, Any]:
        with self._phase("warmup"):
            work = self._warm()
        with self._phase("search"):
            searcher = self._search(work)
        with self._phase("top"):
            trained = self._train_top(searcher)
        best = min(trained, key=lambda found: (found["valid_logloss"], found["rank"]))
        arch = self.space.from_dict(best["arch"])
        (self.folder.path / "best.json").write_text(dump_arch(arch))
        with self._phase("best"):
            final = self._retrain(arch)
        result = self._result(searcher, trained, best, final)
        write_json(self.folder.path / "result.json", result)
        return result

    # Phases

    def _warm(self) -> Work:
        config, folder = self.config, self.folder.path / "warmup"
        warm = WarmupConfig(
            data=config.data,
            seed=config.seed,
            space=config.space,
            warmup=config.warmup,
            train=config.train.model_copy(update={"threads": self.threads}),
            check=CheckSettings(archs=0),
        )
        if not (folder / "result.json").exists():
            warmup(warm, folder, self.progress)
        supernet, embeddings, _, _ = load_warmed(folder)
        warmed = config.warmup.share > 0
        if config.evaluator == "one-shot":
            frozen = OneShotWork.freeze(
                folder / "frozen", supernet, embeddings, {"data": self.data.fingerprint}
            )
            return OneShotWork(
                str(frozen), config.data, config.space, config.train, config.one_shot, config.seed
            )
        made_from = {
            "data": self.data.fingerprint,
            "supernet": supernet.describe(),
            "warmup": warm.model_dump(mode="json", exclude={"data": True, "train": {"checkpoint_seconds"}}),
        }
        frozen = freeze(folder / "frozen", supernet, embeddings, self.data, config.score, made_from)
        return ScoreWork(str(frozen), config.space, supernet.shape, config.score, warmed)

    def _search(self, work: Work) -> Searcher[NasrecArch]:
        config = self.config
        gate = Gate(self.space, config.limits, cost=self._cost, measure=self._latency)
        searcher = get_searcher(
            config.search.method, self.space, self.objectives, config.seed, config.search.chosen, gate, self._evidence()
        )
        searcher.replay(self.events)
        self.progress.phase("search", searcher.total, "candidates")
        self.progress.advance(len(searcher.history))
        with self._engine(work) as engine:
            while batch := searcher.ask_batch():
                results = self._in_order(engine, [proposal.arch for proposal in batch if not proposal.known])
                for proposal in batch:
                    if proposal.known:
                        self._append(searcher.tell(proposal))
                    else:
                        self._append(self._told(searcher, proposal, next(results)))
                    self.progress.advance(1, note=self._best_note(searcher))
        self.progress.end()
        return searcher

    def _in_order(self, engine: Engine, archs: Sequence[NasrecArch]) -> Iterator[dict[str, Any]]:
        """Results in the order of `archs`. Of those near each other the largest is begun first: a generation ends
        when its last candidate does, and nobody should wait for one that was large and came late."""
        order: list[int] = []
        for start in range(0, len(archs), WINDOW):
            near = range(start, min(start + WINDOW, len(archs)))
            order += sorted(near, key=lambda i: -self._cost(archs[i])["macs"])
        found: dict[int, dict[str, Any]] = {}
        next_out = 0
        for i, result in zip(order, engine.map([self.space.to_dict(archs[i]) for i in order])):
            found[i] = result
            while next_out in found:
                yield found.pop(next_out)
                next_out += 1

    def _told(
        self, searcher: Searcher[NasrecArch], proposal: Any, found: Mapping[str, Any]
    ) -> dict[str, Any]:
        if "failed" in found:
            return {**searcher.tell(proposal, failed=found["failed"]), "seconds": found["seconds"]}
        cost = self._cost(proposal.arch)
        values: dict[str, float] = {}
        for name in self.objectives.names:
            if name in COSTS:
                values[name] = cost[name]
            elif name in LATENCIES:
                values[name] = self._latency(proposal.arch)[name]
            else:
                values[name] = found["scores"][name]["value"]
        line = searcher.tell(proposal, values)
        return {**line, "scores": found["scores"], "cost": cost, "seconds": found["seconds"]}

    def _train_top(self, searcher: Searcher[NasrecArch]) -> list[dict[str, Any]]:
        """The best candidates, trained from scratch and evaluated on validation rows."""
        final = self.config.final
        seeds = range(self.config.seed, self.config.seed + final.seeds)
        best = searcher.best(final.top)
        done = {
            (event["key"], event["seed"]): event for event in self.events if event.get("event") == "trained"
        }
        items = [
            (rank, seed, self.space.to_dict(told.proposal.arch))
            for rank, told in enumerate(best)
            for seed in seeds
            if (told.proposal.key, seed) not in done
        ]
        folder = str(self.folder.path / "top")
        work = TrainWork(
            self.config.data, self.config.space, final.train, final.rows, None, ("valid",), folder
        )
        self.progress.phase("train the best", len(best) * final.seeds, "trainings")
        self.progress.advance(len(best) * final.seeds - len(items))
        with self._engine(work) as engine:
            for event in engine.map(items):
                self._append(event)
                done[event["key"], event["seed"]] = event
                self.progress.advance(1, note=f"validation log loss {event['valid']['logloss']:.5f}")
        self.progress.end()
        found = []
        for rank, told in enumerate(best):
            events = [done[told.proposal.key, seed] for seed in seeds]
            losses = [event["valid"]["logloss"] for event in events]
            aucs = [event["valid"]["auc"] for event in events]
            found.append(
                {
                    "rank": rank,
                    "index": told.proposal.index,
                    "key": told.proposal.key,
                    "arch": events[0]["arch"],
                    "values": dict(told.values or {}),
                    "params": events[0]["params"],
                    "macs": events[0]["macs"],
                    "valid_logloss": statistics.fmean(losses),
                    "valid_logloss_std": statistics.stdev(losses) if len(losses) > 1 else None,
                    "valid_auc": statistics.fmean(aucs) if None not in aucs else None,
                }
            )
        return found

    def _retrain(self, arch: NasrecArch) -> dict[str, Any]:
        final = self.config.final
        settings = final.retrain_train or final.train
        settings = settings.model_copy(update={"threads": settings.threads or self.threads})
        return train(
            arch,
            self.data,
            self.folder.path / "best",
            settings,
            final.retrain_seeds,
            self.config.seed,
            self.progress,
            on=final.retrain,
        )

    # Help

    def _evidence(self) -> Evidence | None:
        """Figures for methods that rank a pool; only a search that trains its candidates has them."""
        return None

    def _cost(self, arch: NasrecArch) -> dict[str, float]:
        train = self.config.final.train
        cost = count(arch, self.data.schema, width=train.embeddings.width, layernorm=train.layernorm)
        return {
            "params": cost.params,
            "macs": cost.macs,
            "flops": 2 * cost.macs,
            "embedding_mb": cost.embedding_bytes / 1e6,
        }

    def _latency(self, arch: NasrecArch) -> dict[str, float]:
        return measure_latency(arch, net_shape(self.data.schema, self.config.final.train))

    @contextmanager
    def _engine(self, work: Work) -> Iterator[Any]:
        with open_engine(work, self.workers, self.engine.kind, self.engine.address) as engine:
            yield engine

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        if not any(event.get("event") == "phase" and event["name"] == name for event in self.events):
            spent = sum(
                event["seconds"]
                for event in self.events
                if event.get("event") == "part" and event["name"] == name
            )
            self._append(
                {
                    "event": "phase",
                    "name": name,
                    "seconds": spent + time.monotonic() - started,
                    "workers": self.workers,
                }
            )

    def _append(self, event: dict[str, Any]) -> None:
        self.folder.ledger.append(event)
        self.events.append(event)

    def _best_note(self, searcher: Searcher[NasrecArch]) -> str:
        """Who leads, or the best value so far: never one voice of a vote, which can fall when the leader changes."""
        scored = [told for told in searcher.history if told.values and not told.proposal.known]
        if not scored:
            return ""
        if self.objectives.is_vote:
            leader = searcher.best(1)[0].proposal.index + 1
            return f"candidate {leader} leads the vote of {', '.join(self.objectives.names)} over {len(scored)}"
        best = min(scored, key=lambda told: told.costs[0])
        name = self.objectives.names[0]
        return f"best {name} {(best.values or {})[name]:.5g}"

    def _result(
        self,
        searcher: Searcher[NasrecArch],
        trained: list[dict[str, Any]],
        best: dict[str, Any],
        final: dict[str, Any],
    ) -> dict[str, Any]:
        config = self.config
        scored = [told for told in searcher.history if not told.proposal.known]
        phases = {event["name"]: event["seconds"] for event in self.events if event.get("event") == "phase"}
        front = [told.proposal.key for told in searcher.front()] if self.objectives.has_front else None
        return {
            "best": {name: best[name] for name in ("key", "index", "rank", "values", "params", "macs")},
            "valid": {
                "logloss": best["valid_logloss"],
                "auc": best["valid_auc"],
                "std": best["valid_logloss_std"],
            },
            "test": {name: found["mean"] for name, found in final["test"].items()}
            | {"std": final["test"]["logloss"]["std"]},
            "worse_than_constant": final["worse_than_constant"],
            "seeds": {"search": config.seed, "top": config.final.seeds, "best": config.final.retrain_seeds},
            "budgets": {
                "warmup_share": config.warmup.share,
                "proposed": len(searcher.history),
                "scored": len(scored),
                "failed": sum(told.values is None for told in scored),
                "trained": len(trained) * config.final.seeds,
                "test_read_by": 1,
            },
            "objectives": self.objectives.to_dict(),
            "combine": self.objectives.combine,
            "front": front,
            "limits": searcher.gate.counts.to_dict(),
            "seconds": phases,
            "data": self.data.fingerprint,
            "top": [{name: value for name, value in found.items() if name != "arch"} for found in trained],
        }

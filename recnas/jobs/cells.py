"""Score NAS-Bench-201 cells with any proxies, and lay the scores beside the published accuracies.

    RUN/manifest.json   images, body, proxies, seeds
    RUN/ledger.jsonl    one line per network (cells with the same key are one), in order

Resumable, and the same whatever the number of workers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from recnas.bench.correlation import rank_correlation
from recnas.bench.nasbench201 import Nb201Table, Split
from recnas.config import Settings
from recnas.engines.base import EngineChoice, open_engine
from recnas.jobs.warm_cells import WarmCells, warm
from recnas.progress import Progress
from recnas.run import RunDir
from recnas.space.nasbench201_arch import Nb201Arch
from recnas.space.nasbench201_key import key

if TYPE_CHECKING:
    from recnas.data.images import ImageSet
    from recnas.proxies.network import ScoringBatch

CELL_STREAM = 6  # keeps the cells that are drawn apart from every other draw of a seed

GENERATED_ROWS = 640  # what a warm-up on generated images is a share of


class CellSettings(Settings):
    """How a cell is turned into numbers."""

    proxies: tuple[str, ...] = ("sigeo", "naswot", "params")
    channels: int = Field(16, ge=1)
    cells: int = Field(5, ge=1)  # per stage
    images: str = "generated"  # or a known data set: cifar10, cifar100, imagenet16-120, ...
    images_path: str | None = None
    batches: int = Field(2, ge=1)
    batch_size: int = Field(64, ge=1)
    seed: int = Field(0, ge=0)
    warmup: WarmCells = WarmCells()

    def facts(self) -> dict[str, Any]:
        """What must be the same for a run to be continued; a warm-up says nothing where there is none."""
        return self.model_dump(mode="json", exclude={"images_path"} | (set() if self.warmup.share else {"warmup"}))


@dataclass(frozen=True)
class CellWork:
    """Scores one cell, given by its operations; opened once per worker."""

    settings: CellSettings

    def open(self) -> Callable[[Sequence[str]], dict[str, Any]]:
        import torch

        from recnas.data.images import generated_images, load_images
        from recnas.jobs.scoring import as_json
        from recnas.model.nasbench201 import Body, Nb201Network
        from recnas.proxies.engine import score
        from recnas.proxies.registry import get_proxies
        from recnas.proxies.sigeo import Lambdas

        settings = self.settings
        torch.set_num_threads(1)  # the same rounding whatever the number of workers
        if settings.images == "generated":
            images = generated_images(rows=settings.batches * settings.batch_size, seed=settings.seed)
            training = generated_images(rows=GENERATED_ROWS, seed=settings.seed)  # the same patterns
        else:
            images = training = load_images(settings.images, settings.images_path)
        batches = as_batches(images, settings.batch_size, settings.batches, settings.seed)
        body = Body(channels=settings.channels, cells=settings.cells, classes=images.classes, image=images.side)
        proxies = get_proxies(settings.proxies, lambdas=Lambdas.for_case("vision", warmed=settings.warmup.share > 0))

        def call(ops: Sequence[str]) -> dict[str, Any]:
            started = time.monotonic()
            network = Nb201Network(Nb201Arch(tuple(ops)), body, settings.seed)
            losses = warm(network, training, settings.warmup, settings.seed)
            warmed = {"warmup": {"steps": len(losses), "first": losses[0], "last": losses[-1]}} if losses else {}
            scores = score(network, batches, proxies, settings.seed)
            return {"scores": as_json(scores), **warmed, "seconds": time.monotonic() - started}

        return call


def as_batches(images: ImageSet, size: int, count: int, seed: int) -> list[ScoringBatch]:
    """Batches of different images, as the proxy engine wants them."""
    from recnas.data.images import image_batches
    from recnas.proxies.network import ScoringBatch

    return [ScoringBatch((pixels,), labels) for pixels, labels in image_batches(images, size, count, seed)]


def score_cells(
    archs: Sequence[Nb201Arch],
    out: Path | str,
    settings: CellSettings,
    workers: int = 1,
    progress: Progress | None = None,
    engine: EngineChoice | None = None,
) -> list[dict[str, Any]]:
    """One result per cell, in order; networks that several cells share are scored once."""
    progress, choice = progress or Progress(quiet=True), engine or EngineChoice()
    choice.check()
    run = RunDir.create(out, "cells", settings=settings.facts())
    keys = [key(arch) for arch in archs]
    with run.locked():
        found = {event["key"]: event for event in run.ledger.read()}
        rest = {k: arch for k, arch in zip(keys, archs) if k not in found}
        progress.phase("score cells", len(rest), "networks")
        with open_engine(CellWork(settings), workers, choice.kind, choice.address) as scorers:
            for (k, arch), result in zip(rest.items(), scorers.map([arch.ops for arch in rest.values()])):
                found[k] = {"event": "cell", "key": k, "arch": arch.text, **result}
                run.ledger.append(found[k])
                progress.advance(1)
        progress.end()
    return [found[k] for k in keys]


def sample_cells(table: Nb201Table, n: int, seed: int = 0) -> list[int]:
    """Rows of the table, drawn without replacement; a larger `n` begins with the rows of a smaller one."""
    return np.random.default_rng([seed, CELL_STREAM]).permutation(len(table))[:n].tolist()


def correlate_cells(
    table: Nb201Table, rows: Sequence[int], results: Sequence[dict[str, Any]], dataset: str, split: Split = "test", epochs: int = 200
) -> list[dict[str, Any]]:
    """Signed rank correlation of every proxy with accuracy; +1 is perfect, so scores better when low are negated."""
    from recnas.proxies.registry import get_proxies

    accuracy = table.accuracy(dataset, split, epochs)[list(rows)]
    names = list(results[0]["scores"])
    better = {proxy.name: 1.0 if proxy.higher_is_better else -1.0 for proxy in get_proxies(names)}
    known = ~np.isnan(accuracy)
    found = []
    for name in names:
        values = np.array([better[name] * result["scores"][name]["value"] for result in results])
        figures = rank_correlation(values[known], accuracy[known]).to_dict()
        dead = sum("reason" in result["scores"][name] for result in results)
        found.append({"proxy": name, "dataset": dataset, "degenerate": dead, **figures})
    return found

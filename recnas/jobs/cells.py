"""Score cells of NAS-Bench-201 and other vision spaces with any proxies, and lay them beside published accuracies.

    RUN/manifest.json   images, body, proxies, seeds
    RUN/ledger.jsonl    one line per network (cells with the same key are one), in order

Resumable, and the same whatever the number of workers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence, Sized
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
from recnas.space.nasbench201 import NAME as NASBENCH201
from recnas.space.registry import get_space

if TYPE_CHECKING:
    from recnas.data.images import ImageSet
    from recnas.proxies.network import ScoringBatch

CELL_STREAM = 6  # keeps the cells that are drawn apart from every other draw of a seed

GENERATED_ROWS = 640  # what a warm-up on generated images is a share of


class CellSettings(Settings):
    """How a cell is turned into numbers."""

    space: str = NASBENCH201  # of the cells, a name of `recnas.space.vision`
    proxies: tuple[str, ...] = ("sigeo", "naswot", "params")
    channels: int = Field(16, ge=1)
    cells: int = Field(5, ge=1)  # per stage; of DARTS: in all
    images: str = "generated"  # or a known data set: cifar10, cifar100, imagenet16-120, ...
    images_path: str | None = None
    batches: int = Field(2, ge=1)
    batch_size: int = Field(64, ge=1)
    seed: int = Field(0, ge=0)
    warmup: WarmCells = WarmCells()

    def facts(self) -> dict[str, Any]:
        """What must be the same for a run to be continued; a warm-up says nothing where there is none."""
        silent = {"images_path"} | (set() if self.warmup.share else {"warmup"})
        return self.model_dump(mode="json", exclude=silent | ({"space"} if self.space == NASBENCH201 else set()))


@dataclass(frozen=True)
class CellWork:
    """Scores one cell, given as its space describes it; opened once per worker."""

    settings: CellSettings

    def open(self) -> Callable[[dict[str, Any]], dict[str, Any]]:

        from recnas.data.images import generated_images, load_images
        from recnas.jobs.scoring import as_json
        from recnas.model.vision import build_scored
        from recnas.proxies.engine import score
        from recnas.proxies.registry import get_proxies
        from recnas.proxies.sigeo import Lambdas

        settings = self.settings
        if settings.images == "generated":
            images = generated_images(rows=settings.batches * settings.batch_size, seed=settings.seed)
            training = generated_images(rows=GENERATED_ROWS, seed=settings.seed)  # the same patterns
        else:
            images = training = load_images(settings.images, settings.images_path)
        batches = as_batches(images, settings.batch_size, settings.batches, settings.seed)
        space, sizes = get_space(settings.space), {"channels": settings.channels, "cells": settings.cells}
        proxies = get_proxies(settings.proxies, lambdas=Lambdas.for_case("vision", warmed=settings.warmup.share > 0))

        def call(described: dict[str, Any]) -> dict[str, Any]:
            started = time.monotonic()
            arch = space.from_dict(described)
            network = build_scored(settings.space, arch, images.classes, images.side, settings.seed, **sizes)
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
    archs: Sequence[Any],
    out: Path | str,
    settings: CellSettings,
    workers: int = 1,
    progress: Progress | None = None,
    engine: EngineChoice | None = None,
) -> list[dict[str, Any]]:
    """One result per cell, in order; networks that several cells share are scored once."""
    progress, choice = progress or Progress(quiet=True), engine or EngineChoice()
    choice.check()
    run = RunDir.create(out, "cells", settings=settings.facts(), threads=1)
    space = get_space(settings.space)
    keys = [space.key(arch) for arch in archs]
    with run.locked():
        found = {event["key"]: event for event in run.ledger.read()}
        rest = {k: arch for k, arch in zip(keys, archs) if k not in found}
        progress.phase("score cells", len(rest), "networks")
        with open_engine(CellWork(settings), workers, choice.kind, choice.address) as scorers:
            for (k, arch), result in zip(rest.items(), scorers.map([space.to_dict(arch) for arch in rest.values()])):
                found[k] = {"event": "cell", "key": k, "arch": arch.text, **result}
                run.ledger.append(found[k])
                progress.advance(1)
        progress.end()
    return [found[k] for k in keys]


def sample_cells(table: Sized, n: int, seed: int = 0) -> list[int]:
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

"""What the searches on a supernet of vision cells share: settings, images, the run directory, the result.

    RUN/manifest.json   config, fingerprint of the images, versions
    RUN/ledger.jsonl    one line per step, then the architecture that was chosen
    RUN/best.json       that architecture
    RUN/result.json     the same with its cost, and on NAS-Bench-201 its test accuracies if there is a table

The table is read once, after the architecture is chosen. Without one the search is the same and the result has
no accuracies.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field, field_validator

from recnas.bench.nasbench201 import DATASETS, FOLDER, Nb201Table
from recnas.config import Settings
from recnas.errors import DataError
from recnas.jobs.search_table import TRAINED, fingerprint
from recnas.run import RunDir, write_json
from recnas.searchers.oneshot_settings import DartsSettings, NasiSettings
from recnas.space.nasbench201 import NAME as NASBENCH201
from recnas.space.nasbench201_cost import count
from recnas.space.vision import cost

if TYPE_CHECKING:
    from torch import Tensor

    from recnas.data.images import ImageSet
    from recnas.model.cell_supernet import CellSupernet

THREADS = 1  # these searches compute in their own process; one thread, so that no machine differs
WITH_SUPERNETS = ("nasbench201", "darts", "nasbench1shot1-1", "nasbench1shot1-2", "nasbench1shot1-3", "mlp")


class SupernetSpace(Settings):
    """The space, and the sizes of its supernet: `channels`, `cells`, `stacks`, or `layers` and `width`."""

    name: str
    supernet: dict[str, int] = Field(default_factory=dict)

    @field_validator("name")
    @classmethod
    def _has_a_supernet(cls, value: str) -> str:
        if value not in WITH_SUPERNETS:
            raise ValueError(f"there is no supernet of this space; choose one of {', '.join(WITH_SUPERNETS)}")
        return value


class SearchImages(Settings):
    """Which images a search looks at."""

    name: str = "generated"  # or a known data set: cifar10, cifar100, ...
    path: str | None = None
    rows: int = Field(1280, ge=2)  # of generated images
    side: int = Field(32, ge=4)  # of generated images

    def load(self) -> ImageSet:
        from recnas.data.images import generated_images, load_images

        if self.name == "generated":
            return generated_images(rows=self.rows, side=self.side)
        return load_images(self.name, self.path)


class OneShotConfig(Settings):
    """The part of a config that both searches have."""

    space: SupernetSpace
    seed: int = Field(0, ge=0)
    images: SearchImages = SearchImages()
    table: str | None = None  # of nasbench201: nb201.parquet; null: in the folder RECNAS_TABLES names, if it is set

    def facts(self) -> dict[str, Any]:
        """What must be the same for a run to be continued; where the files lie may change."""
        return self.model_dump(mode="json", exclude={"table": True, "images": {"path"}})


class NasiMethod(Settings):
    method: Literal["nasi"]
    nasi: NasiSettings = NasiSettings()


class NasiConfig(OneShotConfig):
    """`recnas search CONFIG` with `search.method: nasi`."""

    search: NasiMethod


class DartsMethod(Settings):
    method: Literal["darts"]
    darts: DartsSettings = DartsSettings()


class DartsConfig(OneShotConfig):
    """`recnas search CONFIG` with `search.method: darts`."""

    search: DartsMethod


def load_supernet(config: OneShotConfig, images: ImageSet) -> CellSupernet:
    from recnas.model.cell_supernet import build_supernet

    return build_supernet(config.space.name, images.classes, images.side, config.seed, **config.space.supernet)


def batch_of(images: ImageSet, size: int, stream: tuple[int, ...], labels: Any = "true", inputs: Any = "data") -> tuple[Tensor, Tensor]:
    """A batch that depends on `stream` alone: drawn again when a search is resumed."""
    from recnas.data.images import image_batches

    seed = int(np.random.SeedSequence(stream).generate_state(1, np.uint64)[0])
    return image_batches(images, size, 1, seed, labels, inputs)[0]


def open_run(config: OneShotConfig, out: Path | str, images: ImageSet) -> RunDir:
    """A new run, or the one to go on with; files may have moved, what they hold may not have changed."""
    return image_run(config.facts(), config.images, out, images, {"table": config.table}, lambda: table_of(config))


def image_run(
    facts: dict[str, Any],
    source: SearchImages,
    out: Path | str,
    images: ImageSet,
    places: dict[str, Any] | None = None,
    find_table: Callable[[], Nb201Table | None] = lambda: None,
) -> RunDir:
    """The run of a search on images.

    Args:
        facts: the config without what may differ in a run that goes on.
        source: where `images` came from.
        places: further parts of the config that may differ.
        find_table: the table the result is read from, if there is one.
    """
    seen = hashlib.sha256(np.ascontiguousarray(images.images).tobytes() + images.labels.tobytes()).hexdigest()
    run = RunDir(Path(out))
    if run.manifest_path.exists():
        run.check("search", config=facts, threads=THREADS)
        if run.manifest()["images"]["fingerprint"] != seen:
            raise DataError(f"{out} was searched on other images.", "Choose another --out, or give those images.")
        return run
    table = find_table()
    data = {"path": table.name, "fingerprint": fingerprint(table)} if table else {"path": images.name, "fingerprint": seen}
    config = facts | {"images": facts["images"] | {"path": source.path}} | (places or {})
    return RunDir.create(out, "search", config=config, data=data, threads=THREADS, images={"name": images.name, "fingerprint": seen})


def table_of(config: OneShotConfig) -> Nb201Table | None:
    if config.space.name != NASBENCH201 or (config.table is None and FOLDER not in os.environ):
        return None
    return Nb201Table.read(config.table)


def cost_of(config: OneShotConfig, arch: Any, images: ImageSet, supernet: CellSupernet) -> dict[str, int]:
    """Of the network as its benchmark trains it (NAS-Bench-201), else in the sizes of the supernet."""
    from recnas.model.cell_supernet_plans import PLANS

    name = config.space.name
    if name == NASBENCH201:
        trained = count(arch, TRAINED)
        return {"params": trained.params, "macs": trained.macs}
    body: Any = getattr(supernet.plan, "body", None)
    sizes = {} if name == "mlp" else {size: getattr(body, size) for size in PLANS[name].sizes}
    found = cost(name, arch, images.classes, images.side, **sizes)
    return {"params": found.params, "macs": found.macs}


def write_result(
    run: RunDir, config: OneShotConfig, arch: Any, images: ImageSet, supernet: CellSupernet, line: dict[str, Any], facts: dict[str, Any]
) -> dict[str, Any]:
    """`best.json` and `result.json`; `line` is the candidate line of what was chosen, `facts` the search's own figures."""
    accuracies: dict[str, Any] = {"valid_accuracy": None, "test_accuracy": {}, "best_possible": {}}
    table = table_of(config)
    if table is not None:
        test = {name: table.of(arch, name, "test", 200) for name in DATASETS}
        accuracies["test_accuracy"] = {name: None if np.isnan(value) else value for name, value in test.items()}
        accuracies["best_possible"] = {name: float(np.nanmax(table.accuracy(name, "test", 200))) for name in DATASETS}
    text = getattr(arch, "text", None) or str(line["arch"])
    events = run.ledger.read()
    result = {
        "best": {"key": line["key"], "index": line["index"], "rank": 0, "values": line["values"], "arch": text, **cost_of(config, arch, images, supernet)},
        **accuracies,
        "seeds": {"search": config.seed},
        "front": None,
        "limits": {},
        "seconds": {event["name"]: event["seconds"] for event in events if event.get("event") == "phase"},
        "data": run.manifest()["data"]["fingerprint"],
        **facts,
    }
    write_json(run.path / "best.json", line["arch"])
    write_json(run.path / "result.json", result)
    return result

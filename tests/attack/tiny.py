"""Jobs so small that a thousand of them can be killed: some hundred generated rows, networks of two blocks."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROWS = 400
RECIPE = """
name: tiny
separator: ","
header: true
quote: true
label: {column: click}
dense: [{columns: [price, age]}]
sparse: [{columns: [user, item, city], kind: string}]
min_count: 2
"""
TRAIN = ["batch_size=128", "embeddings.width=8", "threads=1", "epochs=1"]
SEARCH = {
    "space": {"name": "nasrec-small", "blocks": 1},
    "warmup": {"data_share": 0.3, "least_steps": 5},
    "supernet": {"batch_size": 32, "embeddings": {"width": 8}, "checkpoint_seconds": 0.1, "threads": 1},
    "score": {"proxies": ["sigeo"], "batches": 2, "batch_size": 32},
    "search": {"method": "evolution", "population": 3, "generations": 1, "children": 2, "tournament": 2},
    "final": {"candidates": 2, "train": {"epochs": 1, "batch_size": 128, "embeddings": {"width": 8}, "checkpoint_seconds": 0.1, "threads": 1}},
}  # fmt: skip
RACE = {
    **SEARCH,
    "space": {"name": "nasrec-plus", "blocks": 1},
    "evaluator": "none",
    "search": {"method": "random", "candidates": 4, "seeds": ["lr", "fm"]},
    "final": {
        "train": {**SEARCH["final"]["train"], "epochs": 2, "stop": {"patience": 1}},  # type: ignore[dict-item]
        "race": {"budget": 8, "rungs": [0.5, 1], "eta": 2, "brackets": 1},
    },
}

ARCH = """{
 "format": "recnas/1",
 "space": "nasrec-small",
 "blocks": [
  {"dense_ops": ["fc"], "sparse_ops": ["efc"], "dense_dim": 256, "sparse_dim": 64, "merge": true, "fm": false, "dense_in": [0], "sparse_in": [0], "left": [0], "right": [0]}
 ]
}
"""


def write_log(path: Path, rows: int = ROWS, seed: int = 0) -> None:
    """A raw log in which clicks depend on the user and the price, with quotes, gaps and rare values."""
    rng = random.Random(seed)
    lines = ["click,price,age,user,item,city"]
    for _ in range(rows):
        user, price = rng.randrange(9), round(rng.expovariate(0.2), 2)
        city = rng.choice(["Paris", '"London, UK"', "", f"rare{rng.randrange(60)}"])
        age = rng.choice(["", str(rng.randrange(80))])
        click = int(rng.random() < 0.15 + 0.07 * user)
        lines.append(f"{click},{price},{age},u{user},i{rng.randrange(12)},{city}")
    path.write_text("\n".join(lines) + "\n")


@dataclass(frozen=True)
class Base:
    """What every job reads: never written to."""

    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / "log.csv"

    @property
    def recipe(self) -> Path:
        return self.folder / "tiny.yaml"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def trained(self) -> Path:
        return self.folder / "trained"

    @property
    def arch(self) -> Path:
        return self.folder / "arch.json"

    def config(self, name: str) -> Path:
        return self.folder / f"{name}.yaml"

    def write(self) -> None:
        """The files that no command of recnas makes."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_log(self.log)
        self.recipe.write_text(RECIPE)
        data = {"data": str(self.data)}
        for name, config in (("search", SEARCH), ("race", RACE)):
            self.config(name).write_text(json.dumps(data | config))
        warm = {name: SEARCH[name] for name in ("space", "warmup", "supernet")} | {"check": {"archs": 2, "rows": 40}}
        self.config("warmup").write_text(json.dumps(data | warm))
        self.arch.write_text(ARCH)


@dataclass(frozen=True)
class Job:
    """A command that writes one folder, and continues when it is given again."""

    name: str
    command: Callable[[Base, Path], list[str]]
    workers: bool = False  # whether it starts processes
    like: Job | None = None  # the job whose result it has, whoever does the work
    package: str = "recnas"  # that has to be installed

    def argv(self, base: Base, out: Path) -> list[str]:
        return [*self.command(base, out), "--quiet"]


def _prepare(base: Base, out: Path) -> list[str]:
    return [
        "prepare",
        str(base.recipe),
        "--raw",
        str(base.log),
        "--out",
        str(out),
        "--threads",
        "1",
        "--memory",
        "256MB",
    ]


def _train(base: Base, out: Path) -> list[str]:
    return [
        "train",
        str(base.arch),
        "--data",
        str(base.data),
        "--out",
        str(out),
        "--seeds",
        "2",
        *TRAIN,
        "checkpoint_seconds=0",
    ]


def _config(command: str, config: str, *more: str) -> Callable[[Base, Path], list[str]]:
    return lambda base, out: [command, str(base.config(config)), "--out", str(out), *more]


def _compare(base: Base, out: Path) -> list[str]:
    return ["compare", "--data", str(base.data), "--models", "lr", "fm", "--seeds", "2", "--workers", "1", "--keep",
            "--out", str(out), *TRAIN, "checkpoint_seconds=0.1"]  # fmt: skip


def _bench(base: Base, out: Path) -> list[str]:
    train = ["train.batch_size=64", "train.embeddings.width=8", "train.checkpoint_seconds=0.05"]
    return ["bench", "build", "--data", str(base.data), "--space", "nasrec-small", "--archs", "3", "--workers", "1", "--out", str(out),
            "space.blocks=1", "rows=200", "eval_rows=40", *train]  # fmt: skip


def _export(base: Base, out: Path) -> list[str]:
    return ["export", str(base.trained), "--to", "pt2", "--out", str(out)]


PREPARE = Job("prepare", _prepare)
WARMUP = Job("warmup", _config("warmup", "warmup"))
TRAIN_JOB = Job("train", _train)
SEARCH_JOB = Job("search", _config("search", "search", "--workers", "1"))
SEARCH_POOL = Job("search, 2 workers", _config("search", "search", "--workers", "2"), workers=True, like=SEARCH_JOB)
RACE_JOB = Job("race", _config("search", "race", "--workers", "1"))
COMPARE = Job("compare", _compare)
BENCH = Job("bench build", _bench)
EXPORT = Job("export", _export)
JOBS = (PREPARE, WARMUP, TRAIN_JOB, SEARCH_JOB, SEARCH_POOL, RACE_JOB, COMPARE, BENCH, EXPORT)
# Engines of others, where they are installed: their processes are not ours to know, and die with the command or not at all.
ENGINES = (
    Job(
        "search with Ray",
        _config("search", "search", "--workers", "2", "--engine", "ray"),
        like=SEARCH_JOB,
        package="ray",
    ),
    Job(
        "prepare with Spark",
        lambda base, out: [*_prepare(base, out), "--engine", "spark"],
        like=PREPARE,
        package="pyspark",
    ),
)
POWER = (PREPARE, WARMUP, TRAIN_JOB, SEARCH_JOB, COMPARE)
FAULTY = (PREPARE, WARMUP, TRAIN_JOB, SEARCH_JOB, COMPARE, EXPORT)  # whose every file is made to fail

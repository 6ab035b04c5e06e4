"""Run directories written by hand: small enough to check every figure of a report with pencil and paper."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from recnas.data.prepared import FORMAT, kept_recipe
from recnas.data.raw.recipe import load_recipe
from recnas.files import sha256_file
from recnas.runs.checks import with_check
from recnas.runs.ledger import Ledger, line_of
from recnas.runs.records import Candidate, PhaseDone, Record, SeedTraining, Trained
from recnas.runs.results import (
    ComparedModel,
    Headline,
    Leaderboard,
    PairedDifference,
    Spread,
    TrainResult,
    WarmupResult,
)
from recnas.runs.search_result import Budget, SearchResult, Winner

FINGERPRINT = "f" * 64
INIT = [10.0, 30.0, 20.0, 40.0]  # scores of the random first candidates
TRAINING = {"lr": 0.1, "epochs": 1}  # settings of every training here
VERSIONS = {"python": "3.11.7", "recnas": "0.1.0", "torch": "2.13.0", "numpy": "2.0.0"}


def arch(dense_dim: int = 64, sparse_dim: int = 16, fm: bool = False, blocks: int = 2) -> dict[str, Any]:
    block = {
        "dense_ops": ["fc"], "sparse_ops": ["efc"], "dense_dim": dense_dim, "sparse_dim": sparse_dim, "merge": False,
        "fm": fm, "dense_in": [0], "sparse_in": [0], "left": [0], "right": [0],
    }  # fmt: skip
    last = block | {"dense_ops": ["dot"], "dense_in": [1], "sparse_in": [0, 1]}
    return {"format": "recnas/1", "space": "nasrec-small", "blocks": [block] * (blocks - 1) + [last]}


def candidate(index: int, value: float | None, **more: Any) -> Candidate:
    line: dict[str, Any] = {
        "index": index, "key": f"nasrec-{index:04d}", "arch": arch(), "origin": "init", "seconds": 0.5,
        "values": None if value is None else {"sigeo": value},
    }  # fmt: skip
    if value is not None:
        terms = {"zico": value + 1.0, "fr": -2.0 + index / 10, "loss": 0.5}
        line["scores"] = {"sigeo": {"value": value, "terms": terms}}
        macs = 1000 * (index + 1)
        line["cost"] = {"params": 10 * macs, "macs": macs, "flops": 2 * macs, "embedding_mb": 1.0}
    return Candidate.model_validate(line | more)


def small_ledger() -> list[Record]:
    """Nine candidates: four at random, children of 3 and of 5, a duplicate, one without a live path, a failed one."""
    lines: list[Record] = [candidate(index, value) for index, value in enumerate(INIT)]
    child = {"origin": "mutation", "parents": [5], "changes": 1}
    lines.append(candidate(4, 35.0, origin="mutation", parents=[3], changes=1, arch=arch(fm=True)))
    lines.append(candidate(5, 50.0, origin="mutation", parents=[3], changes=2, arch=arch(dense_dim=128)))
    lines.append(candidate(6, None, **child, same_as=5, key="nasrec-0005"))
    lines.append(candidate(7, -1e30, **child, scores={"sigeo": {"value": -1e30, "reason": "no live path"}}))
    lines.append(candidate(8, None, **child, failed="the weights have diverged"))
    return lines


def trained(index: int, losses: list[float], rank: int = 0) -> list[Trained]:
    """Trainings of a candidate with seeds 0, 1, ...; `rank` is its place before."""
    macs = 1000 * (index + 1)
    return [
        Trained(index=index, rank=rank, seed=seed, key=f"nasrec-{index:04d}", arch=arch(), cost={"params": 10 * macs, "macs": macs},
                steps=10, train_loss=0.5, valid={"logloss": loss, "auc": 0.7}, seconds=2.0)
        for seed, loss in enumerate(losses)
    ]  # fmt: skip


def phase(name: str, seconds: float) -> PhaseDone:
    return PhaseDone(name=name, seconds=seconds, workers=2)


def config(data: str, seed: int = 0, method: str = "evolution", share: float = 0.01, **final: Any) -> dict[str, Any]:
    sizes = {"evolution": {"population": 4, "generations": 5, "children": 1}, "random": {"candidates": 9}}
    return {
        "task": "ctr", "data": data, "seed": seed, "space": {"name": "nasrec-small", "blocks": 2}, "warmup": {"data_share": share},
        "evaluator": "proxy", "score": {"proxies": ["sigeo"], "sigeo": {"zico": None, "fr": None, "loss": None}}, "objectives": {},
        "limits": {"params": None, "flops": 1e6, "latency_ms_1": None, "tries": 10}, "search": {"method": method, **sizes[method]},
        "final": {"candidates": 2, "seeds": 2, "rows": None, "retrain_on": "train", "retrain_seeds": 3, "train": {"embeddings": {"width": 8}}, **final},
    }  # fmt: skip


def search_manifest(
    data: Path | str, settings: dict[str, Any], objectives: dict[str, str] | None = None, combine: str = "pareto"
) -> dict[str, Any]:
    """What `recnas search` writes first, of a search on clicks."""
    goals = objectives or {"sigeo": "max"}
    return {
        "kind": "search", "task": "ctr", "phases": ["warmup", "search", "finalists", "winner"], "config": settings,
        "objectives": goals, "directions": {"sigeo": "max", **goals}, "combine": combine, "proposals": 9,
        "metric": {"name": "logloss", "direction": "min"}, "data": {"path": str(data), "fingerprint": FINGERPRINT},
    }  # fmt: skip


def write_run(path: Path, manifest: dict[str, Any], lines: Sequence[Record], **files: Any) -> Path:
    """A run directory; `files` are contents by name, written as NAME.json."""
    path.mkdir(parents=True)
    (path / "manifest.json").write_text(json.dumps(with_check({"format": 1, "versions": VERSIONS, **manifest})))
    (path / "ledger.jsonl").write_text(as_lines(lines))
    for name, value in files.items():
        described = value.model_dump(mode="json") if isinstance(value, Record) else value
        (path / f"{name}.json").write_text(json.dumps(described))
    return path


def as_lines(records: Sequence[Record]) -> str:
    """A whole ledger of these lines."""
    check, text = "", b""
    for record in records:
        line, check = line_of(check, record.to_json())
        text += line
    return text.decode()


def add_lines(ledger: Path, records: Sequence[Record]) -> None:
    """More lines behind those that are there."""
    book = Ledger(ledger)
    for record in records:
        book.append(record.to_json())
    book.close()


def write_search(
    path: Path, data: Path | str = "/nowhere/data", lines: Sequence[Record] | None = None, seed: int = 0,
    method: str = "evolution", finished: bool = True, shift: float = 0.0, share: float = 0.01, winner: int = 5,
    objectives: dict[str, str] | None = None, combine: str = "pareto",
) -> Path:  # fmt: skip
    """A whole search; test losses of the winner's three seeds are 0.50, 0.51 and 0.52 plus `shift`."""
    manifest = search_manifest(data, config(str(data), seed, method, share), objectives, combine)
    if not finished:
        return write_run(path, manifest, lines if lines is not None else small_ledger()[:5])
    ledger = [phase("warmup", 10.0), *(lines or small_ledger()), phase("search", 20.0), *trained(3, [0.60, 0.62], 1),
              *trained(winner, [0.55, 0.59], 0), *trained(1, [0.70, 0.70], 2), phase("finalists", 30.0), phase("winner", 40.0)]  # fmt: skip
    losses = [0.50 + shift, 0.51 + shift, 0.52 + shift]
    described = next(
        (line.arch for line in ledger if isinstance(line, Candidate) and line.index == winner), arch(dense_dim=128)
    )
    result = SearchResult(
        task="ctr", method=method, metric="logloss",
        winner=Winner(key=f"nasrec-{winner:04d}", index=winner, rank=0, arch=described, values={"sigeo": 50.0}, cost={"params": 60_000, "macs": 6000}),
        valid={"logloss": 0.57, "auc": 0.7}, valid_std=0.0283, test={"logloss": 0.51 + shift, "auc": 0.75, "normalized_entropy": 0.9}, test_std=0.01,
        objectives=manifest["objectives"], combine=combine, seeds={"search": seed, "finalists": 2}, budget=Budget(proposed=9, scored=8, failed=1, trained=6),
        limits={"draws": 20, "admitted": 9, "limits": {"flops": {"checked": 20, "rejected": 11}}}, seconds={"warmup": 10.0}, data=FINGERPRINT,
    )  # fmt: skip
    write_run(path, manifest, ledger, result=result, winner=described)
    trainings = [
        SeedTraining(seed=seed, train_curve=[(10, 0.7), (20, 0.6 - seed / 100)],
                     test={"rows": 1000, "clicks": 200, "logloss": loss, "auc": 0.75})
        for seed, loss in enumerate(losses)
    ]  # fmt: skip
    write_run(path / "winner", {"kind": "train", "settings": TRAINING, "on": "train"}, trainings)
    warmed = WarmupResult(share=share, rows=80, steps=5, batch_size=16, seconds=1.0)
    write_run(path / "warmup", {"kind": "warmup"}, [], result=warmed)
    return path


def train_result(losses: list[float]) -> TrainResult:
    """What a training with one seed per loss leaves."""
    mean = sum(losses) / len(losses)
    test = {"logloss": Spread(mean=mean, std=0.01 if len(losses) > 1 else None, values=tuple(losses))}
    seeds = tuple(range(len(losses)))
    return TrainResult(key="nasrec-k", data=FINGERPRINT, seeds=seeds, params=5, macs=7, embedding_params=9, test=test)


def _difference(logloss: float, half: float) -> PairedDifference:
    interval = (logloss - half, logloss + half)
    real = interval[0] > 0 or interval[1] < 0
    return PairedDifference(
        logloss=logloss, logloss_interval=interval, auc=0.001, auc_interval=(0.0, 0.002), real=real, resamples=1000, level=0.95
    )  # fmt: skip


def compared(
    rank: int,
    name: str,
    id: str,
    losses: list[float],
    flops: int,
    difference: PairedDifference | None,
    entropy: float = 0.9,
) -> ComparedModel:
    verdict = None if difference is None else "better" if difference.logloss_interval[1] < 0 else "no real difference"
    spread = Spread(mean=fmean(losses), std=stdev(losses), values=tuple(losses))
    test = {
        "logloss": spread,
        "auc": Spread(mean=0.75, std=0.001, values=(0.75,) * 3),
        "normalized_entropy": Spread(mean=entropy, std=0.0, values=(entropy,) * 3),
    }
    return ComparedModel(
        rank=rank, model=name, id=id, searched=id.startswith("nasrec-"), seeds=(0, 1, 2), trials=0, choice={"lr": 0.1}, valid={"logloss": spread},
        test=test, params=flops // 2, embedding_params=10, macs=flops // 2, flops=flops, train_rows=800,
        latency={"p50_ms_1": 0.4, "p99_ms_1": 0.5, "p50_ms_512": flops / 5557, "p99_ms_512": flops / 5000},
        to_guess=_difference(entropy - 1, 0.01), rows_per_second=5000.0, difference=difference,
        verdict="no better than guessing" if entropy >= 1 else verdict,
    )  # fmt: skip


def write_compare(
    path: Path,
    data: Path | str = "/nowhere/data",
    delta: float = -0.0006,
    entropies: tuple[float, float, float] = (0.9, 0.9, 0.9),
) -> Path:
    """A searched model, the reference and a third; `entropies` are theirs in this order, 1 or more is guessing."""
    gap = _difference(delta, 0.0002)
    models = (
        compared(1, "runs/first:best", "nasrec-0005", [0.4994, 0.4984, 0.5004], 40_000, gap, entropies[0]),
        compared(2, "dcnv2", "dcnv2", [0.500, 0.499, 0.501], 100_000, None, entropies[1]),
        compared(3, "deepfm", "deepfm", [0.5001, 0.4991, 0.5011], 80_000, _difference(0.0001, 0.0004), entropies[2]),
    )
    board = Leaderboard(
        data=FINGERPRINT, rows={"train": 800, "valid": 100, "test": 100}, reference="dcnv2", seeds=(0, 1, 2), tune=0,
        guess={"click_rate": 0.2, "logloss": 0.555}, headline=Headline(model="runs/first:best", other="dcnv2", difference=gap),
        models=models, failed={}, skipped={"lightgbm": "it is not installed"},
    )  # fmt: skip
    manifest = {
        "kind": "compare",
        "data": {"path": str(data), "fingerprint": FINGERPRINT},
        "settings": TRAINING,
        "tune": 0,
        "first_seed": 0,
    }
    return write_run(path, manifest, [], leaderboard=board)


def write_data(path: Path) -> Path:
    """What a report reads of a prepared folder."""
    path.mkdir(parents=True)
    manifest = {
        "format": FORMAT, "fingerprint": FINGERPRINT, "rows_in": 1010, "rejects": 10, "rows": {"train": 800, "valid": 100, "test": 100},
        "click_rate": {"train": 0.25, "valid": 0.5, "test": 0.2}, "cardinality": {"C1": 1000, "C2": 10},
        "unknown": {"train": {"C1": 80, "C2": 0}, "valid": {"C1": 20, "C2": 1}, "test": {"C1": 25, "C2": 0}},
        "missing": {"train": {"C1": 8, "C2": 0}, "valid": {"C1": 0, "C2": 0}, "test": {"C1": 0, "C2": 0}},
        "dense": {"I1": {"rows": 800, "missing": 0, "negative": 0, "min": 0.0, "mean": 1.0, "max": 3.0, "std": 1.0}}, "warnings": [],
        "options": {"recipe": kept_recipe(load_recipe("criteo")), "protocol": "random-8-1-1", "seed": 2018, "min_count": 5, "cap": None,
                    "raw": [{"name": "train.txt"}]},
    }  # fmt: skip
    schema = {"dense": [{"name": "I1"}], "sparse": [{"name": "C1", "rows": 1000}, {"name": "C2", "rows": 10}]}
    (path / "schema.json").write_text(json.dumps(schema))
    manifest["checksums"] = {"schema.json": sha256_file(path / "schema.json")}
    (path / "manifest.json").write_text(json.dumps(with_check(manifest)))
    return path


def many_candidates(count: int, seed: int = 0) -> list[Candidate]:
    """A long ledger that looks like a search: children of recent good ones, scores that rise, seven blocks each."""
    rng = random.Random(seed)
    lines: list[Candidate] = []
    scores: list[float] = []
    for index in range(count):
        parent = max(rng.sample(range(index), min(16, index)), key=lambda i: scores[i]) if index >= 128 else None
        value = rng.gauss(400, 80) if parent is None else scores[parent] + rng.gauss(-4, 12)
        described = arch(rng.choice([16, 64, 256, 1024]), rng.choice([16, 32, 48, 64]), rng.random() < 0.5, 7)
        family = {} if parent is None else {"origin": "mutation", "parents": [parent], "changes": 1}
        macs = rng.randrange(100_000, 4_000_000)
        cost = {"params": macs, "macs": macs, "flops": 2 * macs, "embedding_mb": 1.0}
        lines.append(candidate(index, value, arch=described, cost=cost, **family))
        scores.append(value)
    return lines

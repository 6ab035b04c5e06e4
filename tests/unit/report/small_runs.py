"""Run directories written by hand: small enough to check every figure of a report with pencil and paper."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from recnas.data.prepared import kept_recipe
from recnas.data.recipes import load_recipe

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


def candidate(index: int, value: float | None, **more: Any) -> dict[str, Any]:
    line: dict[str, Any] = {
        "event": "candidate", "index": index, "key": f"nasrec-{index:04d}", "arch": arch(), "origin": "init", "parents": [], "changes": 0,
        "values": None if value is None else {"sigeo": value}, "seconds": 0.5,
    }  # fmt: skip
    if value is not None:
        line["scores"] = {
            "sigeo": {"value": value, "terms": {"zico": value + 1.0, "fr": -2.0 + index / 10, "loss": 0.5}}
        }
        macs = 1000 * (index + 1)
        line["cost"] = {"params": 10 * macs, "macs": macs, "flops": 2 * macs, "embedding_mb": 1.0}
    return {**line, **more}


def small_ledger() -> list[dict[str, Any]]:
    """Nine candidates: four at random, children of 3 and of 5, a duplicate, a degenerate and a failed one."""
    lines = [candidate(index, value) for index, value in enumerate(INIT)]
    lines.append(candidate(4, 35.0, origin="mutation", parents=[3], changes=1, arch=arch(fm=True)))
    lines.append(candidate(5, 50.0, origin="mutation", parents=[3], changes=2, arch=arch(dense_dim=128)))
    lines.append(candidate(6, None, origin="mutation", parents=[5], changes=1, same_as=5, key="nasrec-0005"))
    dead = candidate(7, -1e30, origin="mutation", parents=[5], changes=1)
    dead["scores"]["sigeo"] |= {"reason": "no live path", "terms": {}}
    lines.append(dead)
    lines.append(
        candidate(8, None, origin="mutation", parents=[5], changes=1, failed="the weights have diverged")
    )
    return lines


def trained(index: int, losses: list[float]) -> list[dict[str, Any]]:
    return [
        {"event": "trained", "index": rank, "seed": rank, "key": f"nasrec-{index:04d}", "arch": arch(), "params": 10_000 * (index + 1),
         "macs": 1000 * (index + 1), "steps": 10, "train_loss": 0.5, "valid": {"logloss": loss, "auc": 0.7}, "seconds": 2.0}
        for rank, loss in enumerate(losses)
    ]  # fmt: skip


def phase(name: str, seconds: float) -> dict[str, Any]:
    return {"event": "phase", "name": name, "seconds": seconds, "workers": 2}


def config(
    data: str, seed: int = 0, method: str = "evolution", share: float = 0.01, **final: Any
) -> dict[str, Any]:
    return {
        "data": data, "seed": seed, "space": {"name": "nasrec-small", "blocks": 2}, "warmup": {"share": share},
        "score": {"proxies": ["sigeo"], "sigeo": {"zico": None, "fr": None, "loss": None}}, "objectives": {},
        "limits": {"params": None, "flops": 1e6, "latency_ms_1": None, "tries": 10},
        "search": {"method": method, "evolution": {"population": 4, "generations": 5, "children": 1}, "random": {"candidates": 9}},
        "final": {"top": 2, "seeds": 2, "rows": None, "retrain": "train", "retrain_seeds": 3, "train": {"embeddings": {"width": 8}}, **final},
    }  # fmt: skip


def write_run(path: Path, manifest: dict[str, Any], lines: list[dict[str, Any]], **files: Any) -> Path:
    path.mkdir(parents=True)
    (path / "manifest.json").write_text(json.dumps({"format": 1, "versions": VERSIONS, **manifest}))
    (path / "ledger.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for name, value in files.items():
        (path / f"{name}.json").write_text(json.dumps(value))
    return path


def write_search(
    path: Path, data: Path | str = "/nowhere/data", lines: list[dict[str, Any]] | None = None, seed: int = 0,
    method: str = "evolution", finished: bool = True, shift: float = 0.0, share: float = 0.01, winner: int = 5,
) -> Path:  # fmt: skip
    """A whole search; test losses of the winner's three seeds are 0.50, 0.51 and 0.52 plus `shift`."""
    manifest = {
        "kind": "search",
        "config": config(str(data), seed, method, share),
        "data": {"path": str(data), "fingerprint": FINGERPRINT},
    }
    if not finished:
        return write_run(path, manifest, lines if lines is not None else small_ledger()[:5])
    ledger = [phase("warmup", 10.0), *(lines or small_ledger()), phase("search", 20.0), *trained(3, [0.60, 0.62]), *trained(winner, [0.55, 0.59]),
              *trained(1, [0.70, 0.70]), phase("top", 30.0), phase("best", 40.0)]  # fmt: skip
    losses = [0.50 + shift, 0.51 + shift, 0.52 + shift]
    result = {
        "best": {"key": f"nasrec-{winner:04d}", "index": winner, "rank": 0, "values": {"sigeo": 50.0}, "params": 60_000, "macs": 6000},
        "valid": {"logloss": 0.57, "auc": 0.7, "std": 0.0283}, "test": {"logloss": 0.51 + shift, "auc": 0.75, "normalized_entropy": 0.9, "std": 0.01},
        "seeds": {"search": seed, "top": 2, "best": 3}, "budgets": {"proposed": 9, "scored": 8}, "objectives": {"sigeo": "max"},
        "limits": {"draws": 20, "admitted": 9, "limits": {"flops": {"checked": 20, "rejected": 11}}}, "front": None,
        "top": [{"key": f"nasrec-{winner:04d}", "rank": 0}, {"key": "nasrec-0003", "rank": 1}, {"key": "nasrec-0001", "rank": 2}],
    }  # fmt: skip
    described = next(
        (line["arch"] for line in ledger if line.get("event") == "candidate" and line["index"] == winner),
        arch(dense_dim=128),
    )
    write_run(path, manifest, ledger, result=result, best=described)
    events = [
        {"event": "seed", "seed": seed, "train_curve": [[10, 0.7], [20, 0.6 - seed / 100]],
         "test": {"logloss": loss, "auc": 0.75, "rows": 1000, "clicks": 200}}
        for seed, loss in enumerate(losses)
    ]  # fmt: skip
    write_run(path / "best", {"kind": "train", "settings": TRAINING, "on": "train"}, events)
    write_run(path / "warmup", {"kind": "warmup"}, [], result={"share": share, "rows": 80, "steps": 5})
    return path


def write_compare(
    path: Path, data: Path | str = "/nowhere/data", delta: float = -0.0006, entropies: tuple[float, float, float] = (0.9, 0.9, 0.9)
) -> Path:
    """A searched model, the reference and a third; `entropies` are theirs in this order, 1 or more is guessing."""

    def model(
        rank: int, name: str, id: str, losses: list[float], flops: int, difference: dict[str, Any] | None
    ) -> dict[str, Any]:
        entropy = entropies[rank - 1]
        mean = sum(losses) / len(losses)
        std = (sum((x - mean) ** 2 for x in losses) / (len(losses) - 1)) ** 0.5
        figure = {"mean": mean, "std": std, "values": losses}
        verdict = (
            "no better than guessing"
            if entropy >= 1
            else None
            if difference is None
            else "better"
            if difference["logloss_interval"][1] < 0
            else "no real difference"
        )
        return {
            "rank": rank, "model": name, "id": id, "seeds": [0, 1, 2], "trials": 0, "choice": {"lr": 0.1}, "valid": {"logloss": figure},
            "test": {"logloss": figure, "auc": {"mean": 0.75, "std": 0.001, "values": [0.75] * 3},
                                                  "normalized_entropy": {"mean": entropy, "std": 0.0, "values": [entropy] * 3}}, "params": flops // 2, "macs": flops // 2,
            "flops": flops, "latency": {"p50_ms_1": 0.4, "p50_ms_512": flops / 5557},
            "to_guess": {"logloss": entropy - 1, "logloss_interval": [entropy - 1.01, entropy - 0.99]}, "rows_per_second": 5000.0, "difference": difference, "verdict": verdict,
        }  # fmt: skip

    found = {
        "logloss": delta,
        "logloss_interval": [delta - 0.0002, delta + 0.0002],
        "auc": 0.001,
        "auc_interval": [0.0, 0.002],
        "real": True,
    }
    near = {
        "logloss": 0.0001,
        "logloss_interval": [-0.0003, 0.0005],
        "auc": 0.0,
        "auc_interval": [-0.001, 0.001],
        "real": False,
    }
    models = [
        model(1, "runs/first:best", "nasrec-0005", [0.4994, 0.4984, 0.5004], 40_000, found),
        model(2, "dcnv2", "dcnv2", [0.500, 0.499, 0.501], 100_000, None),
        model(3, "deepfm", "deepfm", [0.5001, 0.4991, 0.5011], 80_000, near),
    ]
    board = {"data": FINGERPRINT, "rows": {"train": 800, "valid": 100, "test": 100}, "reference": "dcnv2", "seeds": [0, 1, 2], "tune": 0,
             "guess": {"click_rate": 0.2, "logloss": 0.555}, "headline": {"model": "runs/first:best", "other": "dcnv2", "difference": found},
             "models": models, "failed": {}, "skipped": {"lightgbm": "it is not installed"}}  # fmt: skip
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
        "format": 2, "fingerprint": FINGERPRINT, "rows_in": 1010, "rejects": 10, "rows": {"train": 800, "valid": 100, "test": 100},
        "click_rate": {"train": 0.25, "valid": 0.5, "test": 0.2}, "cardinality": {"C1": 1000, "C2": 10},
        "unknown": {"train": {"C1": 80, "C2": 0}, "valid": {"C1": 20, "C2": 1}, "test": {"C1": 25, "C2": 0}},
        "missing": {"train": {"C1": 8, "C2": 0}, "valid": {"C1": 0, "C2": 0}, "test": {"C1": 0, "C2": 0}}, "checksums": {},
        "dense": {"I1": {"rows": 800, "missing": 0, "negative": 0, "min": 0.0, "mean": 1.0, "max": 3.0, "std": 1.0}}, "warnings": [],
        "options": {"recipe": kept_recipe(load_recipe("criteo")), "protocol": "random-8-1-1", "seed": 2018, "min_count": 5, "cap": None,
                    "raw": [{"name": "train.txt"}]},
    }  # fmt: skip
    schema = {"dense": [{"name": "I1"}], "sparse": [{"name": "C1", "rows": 1000}, {"name": "C2", "rows": 10}]}
    (path / "manifest.json").write_text(json.dumps(manifest))
    (path / "schema.json").write_text(json.dumps(schema))
    return path


def many_candidates(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """A long ledger that looks like a search: children of recent good ones, scores that rise, seven blocks each."""
    rng = random.Random(seed)
    lines: list[dict[str, Any]] = []
    for index in range(count):
        parent = (
            max(rng.sample(lines, min(16, len(lines))), key=lambda line: line["values"]["sigeo"])
            if index >= 128
            else None
        )
        value = rng.gauss(400, 80) if parent is None else parent["values"]["sigeo"] + rng.gauss(-4, 12)
        more: dict[str, Any] = {
            "arch": arch(rng.choice([16, 64, 256, 1024]), rng.choice([16, 32, 48, 64]), rng.random() < 0.5, 7)
        }
        if parent is not None:
            more |= {"origin": "mutation", "parents": [parent["index"]], "changes": 1}
        line = candidate(index, value, **more)
        macs = rng.randrange(100_000, 4_000_000)
        line["cost"] = {"params": macs, "macs": macs, "flops": 2 * macs, "embedding_mb": 1.0}
        lines.append(line)
    return lines

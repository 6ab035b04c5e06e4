"""A search small enough for a test, and what must be equal between two runs of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from recnas.config import check_settings
from recnas.runs.ledger import Ledger
from recnas.tasks.settings import CtrSearchConfig


def small_search(data: Path | str, **changes: Any) -> CtrSearchConfig:
    settings: dict[str, Any] = {
        "data": str(data),
        "space": {"name": "nasrec-small", "blocks": 3},
        "warmup": {"data_share": 0.05, "least_steps": 10},
        "score": {"batches": 2, "batch_size": 64},
        "search": {"method": "evolution", "population": 6, "generations": 3, "children": 2, "tournament": 4},
    }
    final = {"train": {"epochs": 1}} | changes.pop("final", {"candidates": 2, "rows": 2000})
    return check_settings(CtrSearchConfig, {**settings, "final": final, **changes}, "the test")


def as_yaml(config: CtrSearchConfig, path: Path) -> Path:
    path.write_text(json.dumps(config.model_dump(mode="json")))  # JSON is YAML
    return path


def what_counts(run: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Ledger and result without what a clock says or how many workers there were."""
    lines = Ledger(run / "ledger.jsonl").read()
    lines = [line for line in lines if line["event"] != "begin"]  # one more for every interruption
    for line in lines:
        line.pop("seconds", None)
        line.pop("workers", None)
    result = json.loads((run / "result.json").read_text())
    result.pop("seconds")
    for raced in (result.get("race"), (result.get("race") or {}).get("hand_crafted")):
        if raced:
            raced.pop("latency"), raced.pop("verdict", None)  # which a clock has a part in
    return lines, result

"""Where a run stands, read from its directory while another process writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from recnas.progress import duration
from recnas.report.runs import low_is_good
from recnas.run import RunDir

_ORDER = ("warmup", "search", "top", "best")
_NAMES = {
    "warmup": "warm up",
    "search": "score candidates",
    "top": "train the best",
    "best": "retrain the winner",
}


def state_of(path: Path | str) -> dict[str, Any]:
    """Phases, counts and the best candidate so far."""
    run = RunDir.open(path)
    manifest, events = run.manifest(), run.ledger.read()
    config = manifest.get("config", {})
    candidates = [event for event in events if event.get("event") == "candidate"]
    trained = [event for event in events if event.get("event") == "trained"]
    done = {event["name"]: event["seconds"] for event in events if event.get("event") == "phase"}
    result = run.path / "result.json"
    return {
        "run": str(path),
        "kind": manifest["kind"],
        "order": _order(config),
        "finished": result.exists(),
        "phases": done,
        "now": next((name for name in _order(config) if name not in done), None)
        if manifest["kind"] == "search"
        else None,
        "candidates": {
            "told": len(candidates),
            "total": total_candidates(config),
            "best": _best(candidates, config.get("objectives") or {}),
        },
        "trained": {
            "done": len(trained),
            "total": config.get("final", {}).get("top", 0) * config.get("final", {}).get("seeds", 1),
            "best_valid_logloss": min((event["valid"]["logloss"] for event in trained), default=None),
        },
        "result": json.loads(result.read_text()) if result.exists() else None,
    }


def _order(config: dict[str, Any]) -> tuple[str, ...]:
    """The phases of a search; one on a table has nothing to train."""
    one_shot = (config.get("search") or {}).get("method") in ("nasi", "darts")
    return ("search",) if "query" in config or one_shot else _ORDER


def describe(state: dict[str, Any]) -> str:
    lines = [
        f"{state['run']}: {state['kind']}, {'finished' if state['finished'] else 'running or interrupted'}"
    ]
    for name in state["order"] if state["kind"] == "search" else ():
        if name in state["phases"]:
            lines.append(f"  {_NAMES[name]:<19} done in {duration(state['phases'][name])}")
        elif name == state["now"]:
            lines.append(f"  {_NAMES[name]:<19} {_progress(name, state)}")
        else:
            lines.append(f"  {_NAMES[name]:<19} to come")
    best = state["candidates"]["best"]
    if best is not None:
        values = ", ".join(f"{name} {value:.6g}" for name, value in best["values"].items())
        lines.append(f"  best candidate: number {best['index'] + 1}, {best['key']}, {values}")
    if state["trained"]["best_valid_logloss"] is not None:
        lines.append(
            f"  best validation log loss of a trained candidate: {state['trained']['best_valid_logloss']:.5f}"
        )
    if state["result"] is not None and "test_accuracy" in state["result"]:
        figures = ", ".join(f"{name} {value:.2f}" for name, value in state["result"]["test_accuracy"].items() if value is not None)
        lines.append(f"  test accuracy of the winner in percent: {figures}")
    if state["result"] is not None and "test" in state["result"]:
        lines.append(f"  test log loss of the winner: {state['result']['test']['logloss']:.5f}")
    return "\n".join(lines)


def _progress(name: str, state: dict[str, Any]) -> str:
    counts = {"search": ("told", "candidates"), "top": ("done", "trained")}
    if name not in counts:
        return "under way"
    done, where = counts[name]
    total = state[where]["total"]
    return f"{state[where][done]:,} of {total:,}" if total else f"{state[where][done]:,}"


def total_candidates(config: dict[str, Any]) -> int | None:
    """How many candidates a search of this config proposes."""
    search = config.get("search", {})
    chosen = search.get(search.get("method", ""), {})
    if "population" in chosen:
        return int(chosen["population"] + chosen["generations"] * chosen["children"])
    return chosen.get("candidates")


def _best(candidates: list[dict[str, Any]], directions: dict[str, str]) -> dict[str, Any] | None:
    """The best by the first objective; without a direction in the config it is a proxy, in its own."""
    scored = [event for event in candidates if event.get("values")]
    if not scored:
        return None
    name = next(iter(directions or scored[0]["values"]))
    lower = directions[name] == "min" if directions else low_is_good(name)
    pick = min if lower else max
    best = pick(scored, key=lambda event: event["values"][name])
    return {"index": best["index"], "key": best["key"], "values": best["values"]}

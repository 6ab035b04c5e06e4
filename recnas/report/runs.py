"""Run directories as a report reads them: everything that is there, and nothing that must be.

A run that was stopped half-way has fewer parts; no reader here fails for want of one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from recnas.errors import RunError
from recnas.report.kinds import PLACE, method_of, predicts_clicks, vote_places
from recnas.run import RunDir

SIGEOS = ("sigeo", "sigeo_released", "sigeo_released_vision")


@dataclass(frozen=True)
class Run:
    """One run directory, read once."""

    path: Path
    label: str  # how figures call it
    kind: str
    manifest: dict[str, Any]
    candidates: list[dict[str, Any]]
    trained: list[dict[str, Any]]  # one per (architecture, seed), chosen on validation
    phases: dict[str, dict[str, Any]]
    others: list[dict[str, Any]]  # ledger lines of every other kind
    result: dict[str, Any] | None = None
    best_arch: dict[str, Any] | None = None
    best_events: list[dict[str, Any]] = field(default_factory=list)  # the winner's trainings, one per seed
    best_facts: dict[str, Any] = field(default_factory=dict)  # how the winner was trained: settings, rows
    warmup: dict[str, Any] | None = None
    board: dict[str, Any] | None = None  # leaderboard.json of a comparison

    @property
    def config(self) -> dict[str, Any]:
        return self.manifest.get("config") or {}

    @property
    def data(self) -> dict[str, Any]:
        return self.manifest.get("data") or {}

    @property
    def finished(self) -> bool:
        return (
            self.result is not None or self.board is not None or (self.kind == "bench" and bool(self.trained))
        )

    @property
    def on_table(self) -> bool:
        """Whether a table answered for trainings: there is no warm-up, and accuracy takes the place of log loss."""
        return self.kind == "search" and "query" in self.config

    @property
    def on_clicks(self) -> bool:
        """A search for a model that predicts clicks; others look for networks that classify images."""
        return self.kind == "search" and predicts_clicks(self.config)

    @property
    def method(self) -> str:
        return method_of(self.config)

    @property
    def share(self) -> float | None:
        """Share of the training rows that warmed the supernet."""
        return (self.config.get("warmup") or {}).get("share")

    @cached_property
    def objectives(self) -> dict[str, str]:
        """Names and directions of what the search ranks by: the first of them, or all in a vote."""
        known = (self.result or {}).get("objectives") or self.config.get("objectives")
        if known:
            return dict(known)
        first = next((c["values"] for c in self.candidates if c.get("values")), None)
        return {name: "min" if low_is_good(name) else "max" for name in list(first)[:1]} if first else {}

    @property
    def is_vote(self) -> bool:
        """Whether several proxies vote, so that none of them alone says which candidate is better."""
        combine = (self.result or {}).get("combine") or self.config.get("combine")
        return combine == "vote" and len(self.objectives) > 1

    @cached_property
    def places(self) -> dict[int, int]:
        """The place of every scored candidate in the vote over all of them, by its index."""
        found = vote_places(self.candidates, self.objectives)
        return {c["index"]: place for c, place in zip(self.candidates, found) if place is not None}

    @cached_property
    def goal(self) -> tuple[str, str] | None:
        """What candidates are shown by, and `min` or `max`: the place in a vote, else the first objective."""
        if self.is_vote:
            return PLACE, "min"
        return next(iter(self.objectives.items()), None)

    def value(self, candidate: Mapping[str, Any]) -> float | None:
        """The goal of a candidate; a duplicate has that of the one it repeats."""
        if self.goal is None:
            return None
        same = candidate.get("same_as")
        if candidate.get("values") is None and same is not None:
            candidate = self.by_index.get(same, candidate)
        if self.is_vote:
            return self.places.get(candidate["index"])
        values = candidate.get("values")
        if not values or is_degenerate(candidate, self.goal[0]):
            return None
        return values.get(self.goal[0])

    @cached_property
    def by_index(self) -> dict[int, dict[str, Any]]:
        return {candidate["index"]: candidate for candidate in self.candidates}

    def trained_mean(self) -> dict[str, dict[str, Any]]:
        """Validation log loss by architecture key: mean, standard deviation and number of seeds."""
        by_key: dict[str, list[dict[str, Any]]] = {}
        for event in self.trained:
            by_key.setdefault(event["key"], []).append(event)
        found = {}
        for key, events in by_key.items():
            losses = [event["valid"]["logloss"] for event in events]
            aucs = [event["valid"].get("auc") for event in events]
            found[key] = {
                "valid_logloss": fmean(losses),
                "valid_logloss_std": stdev(losses) if len(losses) > 1 else None,
                "valid_auc": fmean(aucs) if None not in aucs else None,
                "seeds": len(losses),
                "params": events[0].get("params"),
                "macs": events[0].get("macs"),
                "seconds": sum(event.get("seconds", 0.0) for event in events),
            }
        return found

    @cached_property
    def winner(self) -> dict[str, Any] | None:
        """The candidate that won; of a run that did not get there, the best by score."""
        if self.result and "best" in self.result:
            index = self.result["best"].get("index")
            return self.by_index.get(index)
        return self.best_by_score

    @cached_property
    def best_by_score(self) -> dict[str, Any] | None:
        judged = [(value, c) for c in self.candidates if (value := self.value(c)) is not None]
        if not judged or self.goal is None:
            return None
        sign = 1 if self.goal[1] == "min" else -1
        return min(judged, key=lambda pair: sign * pair[0])[1]


@dataclass(frozen=True)
class Correlations:
    """What `recnas correlate --json` printed, kept in a file."""

    path: Path
    rows: list[dict[str, Any]]


def low_is_good(proxy: str) -> bool:
    """Whether a proxy ranks by its lowest value; a test holds this against the proxies themselves."""
    return proxy in ("train_loss", "valid_logloss", PLACE) or proxy.startswith("hnas_") or proxy.endswith("ntk_cond")


def is_degenerate(candidate: Mapping[str, Any], proxy: str) -> bool:
    """A stand-in value for a network without a live path: ranks last, belongs in no picture."""
    return bool((candidate.get("scores") or {}).get(proxy, {}).get("reason"))


def read_inputs(paths: Sequence[Path | str]) -> tuple[list[Run], list[Correlations]]:
    """Run directories and files of `recnas correlate --json`, in the order given."""
    runs: list[Run] = []
    tables: list[Correlations] = []
    for path in map(Path, paths):
        if path.is_file():
            tables.append(_correlations(path))
        else:
            runs.append(read_run(path, _label(path, [run.label for run in runs])))
    if not runs and not tables:
        raise RunError(
            "there is nothing to report.", "Name a run directory: recnas report runs/first -o report.html"
        )
    prints = {run.data["fingerprint"]: run for run in runs if run.data.get("fingerprint")}
    if len(prints) > 1:
        named = "; ".join(f"{run.path} on {key[:12]}" for key, run in prints.items())
        raise RunError(
            f"these runs used different data, and figures from different data say nothing about models: {named}.",
            "Make one report per data set.",
        )
    return runs, tables


def read_run(path: Path | str, label: str | None = None) -> Run:
    folder = RunDir.open(path)
    manifest = folder.manifest()
    if manifest.get("data"):  # where the data are as seen from here
        manifest["data"]["path"] = str(folder.data_path())
    events = folder.ledger.read()
    groups: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        groups.setdefault(str(event.get("event")), []).append(event)
    kind = str(manifest.get("kind"))
    best = folder.path / "best" if kind == "search" else folder.path
    best_events: list[dict[str, Any]] = []
    if (best / "ledger.jsonl").exists() and kind in ("search", "train"):
        best_events = [e for e in RunDir(best).ledger.read() if e.get("event") == "seed"]
    return Run(
        path=folder.path,
        label=label or _label(folder.path, []),
        kind=kind,
        manifest=manifest,
        candidates=groups.pop("candidate", []),
        trained=groups.pop("trained", []),
        phases={event["name"]: event for event in groups.pop("phase", [])},
        others=[event for group in groups.values() for event in group],
        result=_json(folder.path / "result.json"),
        best_arch=_json(folder.path / "best.json") or (manifest.get("arch") if kind == "train" else None),
        best_events=best_events,
        best_facts=_json(best / "manifest.json") or {} if best_events else {},
        warmup=_json(folder.path / "warmup" / "result.json"),
        board=_json(folder.path / "leaderboard.json"),
    )


def _label(path: Path, taken: list[str]) -> str:
    name = path.resolve().name or str(path)
    if name in taken:
        name = f"{path.resolve().parent.name}/{name}"
    number, unique = 2, name
    while unique in taken:
        unique, number = f"{name} ({number})", number + 1
    return unique


def _json(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError:
        raise RunError(
            f"{path} is damaged: it is not JSON.", "Restore it, or delete it and resume the run."
        ) from None
    return found if isinstance(found, dict) else None


def _correlations(path: Path) -> Correlations:
    try:
        found = json.loads(path.read_text())
        rows = found["rows"] if isinstance(found, dict) else found
        if not rows or not all({"proxy", "spearman"} <= set(row) for row in rows):
            raise ValueError
    except (ValueError, KeyError, TypeError, UnicodeDecodeError):
        raise RunError(
            f"{path} is neither a run directory nor what `recnas correlate --json` prints.",
            "Make one: recnas correlate RUN --table TABLE --json > correlations.json",
        ) from None
    return Correlations(path, rows)

"""Run directories as everyone reads them: reports, `recnas watch`, drawings. Read once, typed, torch-free.

    run = read_run("runs/first")
    run.kind, run.task                    # "search", "ctr"
    run.phases                            # what is done, under way and to come
    run.candidates[0].values
    run.result                            # what result.json of a search holds, None before its end

A run that was stopped half-way has fewer parts; no reader here fails for want of one. What a run is, it says
itself (`kind`, `task`, `phases` of its manifest): nothing is told from which keys there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recnas.errors import RunError
from recnas.files import read_json as read_json_file
from recnas.runs.folder import RunDir
from recnas.runs.layout import (
    LEADERBOARD,
    MANIFEST,
    RESULT,
    TRAINED_TABLE,
    WARMUP_FOLDER,
    WINNER_FILE,
    WINNER_FOLDER,
)
from recnas.runs.records import KINDS, SeedTraining, read_lines
from recnas.runs.results import (
    ContestBoard,
    DataFacts,
    Leaderboard,
    Manifest,
    TrainResult,
    WarmupResult,
    as_record,
    read_json,
    read_record,
)
from recnas.runs.run import CTR, Run
from recnas.runs.seal import check_sealed
from recnas.runs.search_result import SearchResult


@dataclass(frozen=True)
class Correlations:
    """What `recnas correlate --json` printed, kept in a file."""

    path: Path
    rows: list[dict[str, Any]]


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
        raise RunError("there is nothing to report.", "Name a run directory: recnas report runs/first -o report.html")
    prints = {run.data.fingerprint: run for run in runs if run.data is not None}
    if len(prints) > 1:
        named = "; ".join(f"{run.path} on {key[:12]}" for key, run in prints.items())
        raise RunError(
            f"these runs used different data, and figures from different data say nothing about models: {named}.",
            "Make one report per data set.",
        )
    return runs, tables


def read_run(path: Path | str, label: str | None = None) -> Run:
    """Everything of a run directory that readers use; parts that do not exist yet are None or empty."""
    folder = RunDir.open(path)
    manifest = _manifest(folder)
    kind, where = manifest.kind, folder.path
    check_sealed(where)
    lines = folder.ledger.read()
    records = read_lines(kind, lines, str(folder.ledger.path)) if kind in KINDS else []
    winner = where if kind == "train" else where / WINNER_FOLDER
    trained = kind == "train" or (kind == "search" and manifest.task == CTR)
    trained = trained and (winner / MANIFEST).exists()
    result_file = {"compare": LEADERBOARD, "bench": TRAINED_TABLE}.get(kind, RESULT)
    contest = read_record(ContestBoard, where / RESULT) if kind == "contest" else None
    return Run(
        path=where,
        label=label or _label(where, []),
        manifest=manifest,
        records=tuple(records),
        lines=len(lines),
        result=read_record(SearchResult, where / RESULT) if kind == "search" else None,
        training=read_record(TrainResult, where / RESULT) if kind == "train" else None,
        warmup=_warmup(kind, where),
        board=read_record(Leaderboard, where / LEADERBOARD) if kind == "compare" else None,
        contest=contest,
        winner_arch=manifest.arch if kind == "train" else read_json(where / WINNER_FILE),
        winner_trainings=_trainings(winner) if trained else (),
        winner_manifest=_manifest(RunDir.open(winner)) if trained else None,
        has_result=(where / result_file).exists() and (contest is None or not contest.missing),
    )


def _manifest(folder: RunDir) -> Manifest:
    manifest = as_record(Manifest, folder.manifest(), folder.manifest_path)
    if manifest.data is None or manifest.data.path is None:
        return manifest
    here = DataFacts(fingerprint=manifest.data.fingerprint, path=str(folder.data_path()))
    return manifest.model_copy(update={"data": here})  # where the data are as seen from here


def _trainings(folder: Path) -> tuple[SeedTraining, ...]:
    ledger = RunDir(folder).ledger
    return tuple(read_lines("train", ledger.read(), str(ledger.path)))


def _warmup(kind: str, path: Path) -> WarmupResult | None:
    where = {"warmup": path, "search": path / WARMUP_FOLDER}.get(kind)
    return None if where is None else read_record(WarmupResult, where / RESULT)


def _label(path: Path, taken: list[str]) -> str:
    name = path.resolve().name or str(path)
    if name in taken:
        name = f"{path.resolve().parent.name}/{name}"
    number, unique = 2, name
    while unique in taken:
        unique, number = f"{name} ({number})", number + 1
    return unique


def _correlations(path: Path) -> Correlations:
    try:
        value = read_json_file(path)
        rows = value["rows"] if isinstance(value, dict) else value
        if not rows or not all({"proxy", "spearman"} <= set(row) for row in rows):
            raise ValueError
    except (ValueError, KeyError, TypeError, UnicodeDecodeError):
        raise RunError(
            f"{path} is neither a run directory nor what `recnas correlate --json` prints.",
            "Make one: recnas correlate RUN --table TABLE --json > correlations.json",
        ) from None
    return Correlations(path, rows)

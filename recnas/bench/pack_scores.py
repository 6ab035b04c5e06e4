"""`recnas bench pack`: scores of cells from several runs, and from tables packed before, in one table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from recnas.bench.score_table import ScoreColumn, ScoreTable
from recnas.errors import RunError
from recnas.runs.folder import RunDir
from recnas.runs.records import read_lines
from recnas.space.nasbench201 import NAME as NASBENCH201
from recnas.space.registry import get_space


def pack_scores(sources: Sequence[Path | str]) -> ScoreTable:
    """Side by side: the networks that all of them hold, so that a gap means degenerate."""
    parts = [_of_run(path) if Path(path).is_dir() else ScoreTable.read(path) for path in sources]
    made = [settings for part in parts for settings in (part.facts or {}).get("runs", [])]
    spaces = {_space_name(settings) for settings in made} or {NASBENCH201}
    if len(spaces) > 1:
        raise RunError(
            f"these are scores of different spaces: {', '.join(sorted(spaces))}.", "Pack each space for itself."
        )
    held = [set(part.keys) for part in parts]
    keys = tuple(sorted(set.intersection(*held))) if held else ()
    if not keys:
        raise RunError(
            "there is no network that all of these runs have scored.",
            "recnas correlate nasbench201/scores-c4 --out RUN",
        )
    columns: dict[str, np.ndarray] = {}
    for path, part in zip(sources, parts):
        rows = part.rows_of(keys)
        for name, values in part.columns.items():
            if name in columns:
                raise RunError(f"{path} holds {name}, and so does one before it.", "Name each scoring once.")
            columns[name] = values[rows]
    archs = dict(zip(parts[0].keys, parts[0].archs))
    return ScoreTable(
        keys,
        tuple(archs[key] for key in keys),
        columns,
        get_space(spaces.pop()).key,
        "the packed scores",
        {"runs": made},
    )


def _space_name(settings: dict[str, Any]) -> str:
    """Of how a run was made; the committed table of NAS-Bench-201 was made before that was written down."""
    space = settings.get("space", NASBENCH201)
    return str(space["name"] if isinstance(space, dict) else space)


def _of_run(path: Path | str) -> ScoreTable:
    """What the ledger of a scoring run says so far; of KNAS also the root."""
    run = RunDir.open(path)
    run.check("scores")
    settings = run.manifest()["settings"]
    width = settings["channels"]
    archs: dict[str, str] = {}
    values: dict[str, dict[str, float]] = {str(ScoreColumn(name, width)): {} for name in settings["proxies"]}
    for line in read_lines("scores", run.ledger.read(), str(run.ledger.path)):
        archs[line.key] = line.text or json.dumps(line.arch)
        for name, score in line.scores.items():
            if score.reason is not None:
                continue
            values[str(ScoreColumn(name, width))][line.key] = score.value
            if "root" in score.terms:
                root = str(ScoreColumn(name, width, root=True))
                values.setdefault(root, {})[line.key] = score.terms["root"]
    columns = {name: np.array([by_key.get(key, np.nan) for key in archs]) for name, by_key in values.items()}
    return ScoreTable(tuple(archs), tuple(archs.values()), columns, None, str(path), {"runs": [settings]})

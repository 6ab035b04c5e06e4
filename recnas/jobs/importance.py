"""From the name of a trained model to the importance of its columns, and to a CSV file of them."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from recnas.errors import ConfigError
from recnas.files import make_place, write_text
from recnas.names import in_csv
from recnas.progress import Progress
from recnas.serve.importance import Importance, ScoredRows, column_parts, measure
from recnas.serve.load import load_trained

ROWS, REPEATS = 50_000, 5
_HEADER = (
    "name",
    "kind",
    "columns",
    "logloss_increase",
    "logloss_low",
    "logloss_high",
    "auc_loss",
    "auc_low",
    "auc_high",
    "distinguishable",
)


@dataclass(frozen=True)
class ModelImportance:
    """Whose columns they are, and what was found."""

    key: str
    seed: int
    path: Path
    data: str  # fingerprint
    found: Importance


def importance(
    spec: str,
    *,
    data: Path | str | None = None,
    rows: int = ROWS,
    repeats: int = REPEATS,
    groups: Mapping[str, Sequence[str]] | None = None,
    seed: int = 0,
    out: Path | str | None = None,
    progress: Progress | None = None,
) -> ModelImportance:
    """Measure every column of the model `spec` names (see `load_trained`), and every group.

    Args:
        data: the prepared data, if they are not where they were. rows: of validation, drawn at random.
        groups: columns that are permuted together, by the group's name. out: a .csv file.
    """
    for option, value in (("--rows", rows), ("--repeats", repeats)):
        if value < 1:
            raise ConfigError(f"{option} must be at least 1 (got {value}).", f"Leave {option} out for the default.")
    if seed < 0:
        raise ConfigError(f"--seed must not be negative (got {seed}).", "--seed 0")
    target = None if out is None else _target(Path(out))
    model = load_trained(spec, data)
    parts = column_parts(model.schema, groups or {})
    chosen = ScoredRows.draw(model.data(data), "valid", rows, seed)
    progress = progress or Progress(quiet=True)
    progress.phase("importance", len(chosen.index) * (1 + repeats * len(parts)))
    found = measure(model, chosen, parts, repeats=repeats, seed=seed, on_pass=progress.advance)
    progress.end()
    if target is not None:
        _write(found, target)
    return ModelImportance(model.key, model.seed, model.path, model.fingerprint, found)


def _target(out: Path) -> Path:
    if out.suffix.lower() != ".csv":
        raise ConfigError(f"-o {out}: the table is written as .csv.", f"-o {out.with_suffix('.csv')}")
    make_place(out, "-o")
    return out


def _write(found: Importance, target: Path) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(_HEADER)
    for part in found.parts:
        auc = part.auc_loss_interval or ("", "")
        writer.writerow(
            [
                in_csv(part.name),
                part.kind,
                in_csv(" ".join(part.columns)),
                part.logloss,
                *part.logloss_interval,
                "" if part.auc_loss is None else part.auc_loss,
                *auc,
                int(part.distinguishable),
            ]
        )
    write_text(target, text.getvalue())

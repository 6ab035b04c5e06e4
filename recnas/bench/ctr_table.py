"""A table of CTR architectures that were really trained: one row per (architecture, seed).

Columns: index, key, arch (JSON), seed, valid_logloss, valid_auc, test_logloss, test_auc, params, macs,
train_loss, seconds, and for tables with learning curves curve: validation log loss at each of `settings.rungs`, shares of
a training. The Parquet file also says which space and which data it belongs to, and the settings of the trainings.

    table = CtrTable.read("runs/bench/table.parquet")
    table.valid["a1b2..."]        # mean validation log loss over seeds, by architecture key
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from recnas.errors import DataError
from recnas.files import write_atomic
from recnas.runs.records import Trained

_FACTS = b"recnas"


def write_table(
    path: Path,
    lines: list[Trained],
    space: str,
    fingerprint: str,
    settings: dict[str, Any] | None = None,
) -> pa.Table:
    """Write trained (architecture, seed) pairs, sorted, so that the file does not depend on their order.

    Args:
        settings: what every architecture was put through; a table that has them can be continued.
    """
    rows = []
    for line in sorted(lines, key=lambda line: (line.index, line.seed)):
        row: dict[str, Any] = {name: getattr(line, name) for name in ("index", "key", "seed", "train_loss", "seconds")}
        row |= {name: int(line.cost[name]) for name in ("params", "macs")}
        row["arch"] = json.dumps(line.arch, separators=(",", ":"))
        for split, metrics in (("valid", line.valid), ("test", line.test)):
            row |= {f"{split}_{metric}": metrics[metric] for metric in ("logloss", "auc")}
        rungs = len((settings or {}).get("rungs", ()))
        if rungs:  # a training that validation ended before a rung stays as it ended
            row["curve"] = [*line.curve, *[line.valid["logloss"]] * (rungs - len(line.curve))]
        rows.append(row)
    facts = json.dumps({"space": space, "data": fingerprint, "settings": settings}).encode()
    table = pa.Table.from_pylist(rows).replace_schema_metadata({_FACTS: facts})
    write_atomic(path, lambda file: pq.write_table(table, file, compression="zstd"))
    return table


def read_trained(path: Path | str) -> tuple[dict[str, Any], list[Trained]]:
    """What `write_table` was given: facts (space, data, settings) and trainings."""
    table, facts = _read(Path(path))
    lines = [
        Trained(
            index=row["index"],
            key=row["key"],
            arch=json.loads(row["arch"]),
            seed=row["seed"],
            cost={name: row[name] for name in ("params", "macs")},
            train_loss=row["train_loss"],
            seconds=row["seconds"],
            valid={metric: row[f"valid_{metric}"] for metric in ("logloss", "auc")},
            test={metric: row[f"test_{metric}"] for metric in ("logloss", "auc")},
            curve=tuple(row.get("curve", ())),
        )
        for row in table.to_pylist()
    ]
    return facts, lines


def _read(path: Path) -> tuple[pa.Table, dict[str, Any]]:
    if path.is_dir():
        path = path / "table.parquet"
    try:
        table = pq.read_table(path)
    except FileNotFoundError:
        raise DataError(
            f"there is no table at {path}.", "Make one: recnas bench build --data DIR --archs N --out RUN"
        ) from None
    except pa.ArrowInvalid as error:
        raise DataError(f"{path} is not a Parquet table ({error}).") from None
    facts = (table.schema.metadata or {}).get(_FACTS)
    if facts is None:
        raise DataError(f"{path} is not a table of trained architectures: it was not written by recnas bench build.")
    return table, json.loads(facts)


@dataclass(frozen=True)
class CtrTable:
    """Ground truth by architecture key; several seeds of one architecture are averaged."""

    space: str
    data: str  # fingerprint of the prepared data
    archs: dict[str, dict[str, Any]]
    valid: dict[str, float]  # log loss
    test: dict[str, float]
    seeds: dict[str, int]
    params: dict[str, int]
    macs: dict[str, int]
    rungs: tuple[float, ...] = ()  # shares of a training, the last is 1; empty without learning curves
    curves: dict[str, tuple[float, ...]] = field(default_factory=dict)  # validation log loss at each

    @classmethod
    def read(cls, path: Path | str) -> CtrTable:
        table, known = _read(Path(path))
        by_key: dict[str, list[dict[str, Any]]] = {}
        for row in table.to_pylist():
            by_key.setdefault(row["key"], []).append(row)
        shares = tuple((known.get("settings") or {}).get("rungs", ()))
        return cls(
            rungs=(*shares, 1.0) if shares else (),
            curves={key: _mean_curve(rows) for key, rows in by_key.items()} if shares else {},
            space=known["space"],
            data=known["data"],
            archs={key: json.loads(rows[0]["arch"]) for key, rows in by_key.items()},
            valid={key: fmean(row["valid_logloss"] for row in rows) for key, rows in by_key.items()},
            test={key: fmean(row["test_logloss"] for row in rows) for key, rows in by_key.items()},
            seeds={key: len(rows) for key, rows in by_key.items()},
            params={key: rows[0]["params"] for key, rows in by_key.items()},
            macs={key: rows[0]["macs"] for key, rows in by_key.items()},
        )


def _mean_curve(rows: list[dict[str, Any]]) -> tuple[float, ...]:
    return tuple(fmean(values) for values in zip(*([*row["curve"], row["valid_logloss"]] for row in rows)))

"""The data behind a run, as tables: click rates, cardinalities, unknown shares, memory of every table."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import yaml

from recnas.data.prepared import PreparedData, kept_recipe
from recnas.data.raw.recipe import load_recipe, shipped_recipes
from recnas.data.schema import Schema
from recnas.errors import RecnasError
from recnas.files import read_json
from recnas.report.stats import share_interval
from recnas.report.table import Column, Row, Table, number
from recnas.runs.layout import SCHEMA, WINNER_FOLDER
from recnas.runs.run import CTR, Run


def data_tables(runs: Sequence[Run]) -> tuple[Table, Table]:
    """Rows and click rate of every split; cardinality, unknown share and memory of every table."""
    splits: tuple[Column, ...] = (
        Column("split", "split"),
        Column("rows", "rows", "int"),
        Column("click_rate", "click rate", "share"),
        Column("interval", "95 % interval", "share"),
    )
    columns = (
        Column("column", "column"), Column("rows", "table rows", "int"), Column("bytes", "memory", "mb"), Column("unknown_train", "unknown, train", "share"),
        Column("unknown_valid", "unknown, valid", "share"), Column("unknown_test", "unknown, test", "share"), Column("missing_train", "missing, train", "share"),
    )  # fmt: skip
    run = next((run for run in runs if _prepared(run) is not None), None)
    path = _prepared(run) if run is not None else None
    if run is None or path is None:
        return Table("data_splits", "Splits", splits, []), Table("data_columns", "Embedding tables", columns, [])
    width, limit = _embeddings(run)
    try:
        summary = PreparedData.open(path).summary(width)
        there = run.data is not None and summary["fingerprint"] == run.data.fingerprint
        why = "" if there else f"{path} was prepared anew since the run; "
    except (RecnasError, KeyError, OSError):
        there, why = False, f"{path} is not here any more; "
    if not there:
        return Table("data_splits", "Splits", splits, [], why + "rows and click rates are not known."), _from_schema(
            run, columns, why
        )
    weights, effective = summary["weight"], summary["effective_rows"] or summary["rows"]
    if weights:
        splits = (*splits, Column("weight", "sum of weights", "num"))
    first = [
        {
            "split": split,
            "rows": rows,
            "click_rate": summary["click_rate"][split],
            "interval": share_interval(summary["click_rate"][split] or 0.0, effective[split]),
            **({"weight": weights[split]} if weights else {}),
        }
        for split, rows in summary["rows"].items()
    ]
    second: list[Row] = []
    for name, rows in summary["cardinality"].items():
        own = 0 if (summary["pools"].get(name) or {}).get("table") else rows  # a shared table counts once
        row: Row = {"column": name, "rows": rows, "bytes": min(own, limit) * width * 4}
        for split, by_column in summary["unknown_share"].items():
            row[f"unknown_{split}"] = by_column.get(name)
        for split, by_column in summary["missing_share"].items():
            row[f"missing_{split}"] = by_column.get(name)
        second.append(row)
    note = f"{summary['recipe']}, split {summary['protocol']}; {summary['rows_in']:,} raw rows, {summary['rejects']:,} rejected; {len(summary['dense'])} dense inputs. Intervals say how far a click rate can be off by chance (Wilson)."
    if weights:
        note += " Rows have weights: click rates, training and all metrics count a row as often as its weight says."
    note += _bags_note(summary)
    return Table("data_splits", "Splits", splits, first, note), Table(
        "data_columns", "Embedding tables", columns, second, _memory_note(width, second)
    )


def _bags_note(summary: dict[str, Any]) -> str:
    """What is read of columns of several values, on the training rows."""
    said, rows = [], max(1, summary["rows"]["train"])
    for name, found in ((summary["bags"] or {}).get("train") or {}).items():
        bag = summary["pools"][name]
        table = f", in the table of {bag['table']}" if bag["table"] else ""
        cut = f"; {found['cut']:,} more were cut off" if found["cut"] else ""
        said.append(f"{name} {found['values'] / rows:.2f} (pooled by {bag['pool']}{table}{cut})")
    return f" Values a training row of columns with several: {'; '.join(said)}." if said else ""


def _prepared(run: Run) -> str | None:
    """Where the prepared data of a run are; images and tables have no splits and columns to show."""
    return run.data.path if run.task == CTR and run.data is not None else None


def data_warnings(runs: Sequence[Run]) -> list[str]:
    """What was noticed about the data when they were prepared, for those that are still there."""
    found: list[str] = []
    for path in dict.fromkeys(path for run in runs if (path := _prepared(run)) is not None):
        try:
            listed = PreparedData.open(path).manifest.get("warnings") or []
        except (RecnasError, OSError):
            continue
        found += [f"Warning: {warning['message']}" for warning in listed if warning.get("message")]
    return list(dict.fromkeys(found))


def _memory_note(width: int, rows: Sequence[Row]) -> str:
    total = sum(row["bytes"] for row in rows)
    return f"Embedding width {width}, four bytes a value: {number(total, 'mb')} in all, optimizer state not counted. Unknown: rare in training, or never seen there."


def _from_schema(run: Run, columns: tuple[Column, ...], why: str) -> Table:
    """Cardinalities from the schema that a training keeps, when the data are gone."""
    width, limit = _embeddings(run)
    for path in (run.path / WINNER_FOLDER / SCHEMA, run.path / SCHEMA):
        if path.exists():
            schema = Schema.from_dict(read_json(path))
            rows = [
                {"column": f.name, "rows": f.rows, "bytes": min(f.own_rows, limit) * width * 4} for f in schema.sparse
            ]
            return Table("data_columns", "Embedding tables", columns, rows, why + _memory_note(width, rows))
    return Table("data_columns", "Embedding tables", columns, [], why + "cardinalities are not known.")


def _embeddings(run: Run) -> tuple[int, int]:
    """Width, and the most rows a table gets."""
    by_kind = {
        "search": run.setting("final.train"),
        "warmup": run.setting("supernet"),
        "bench": run.manifest.settings.get("train"),
    }
    chosen = (by_kind.get(run.kind, run.manifest.settings) or {}).get("embeddings") or {}
    return int(chosen.get("width", 16)), int(chosen.get("cap") or chosen.get("hash_rows") or 10**12)


def own_recipe(run: Run) -> str | None:
    """The recipe of the data as a file, unless it is a shipped one as it stands: a user's own may be called the same."""
    path = _prepared(run)
    if path is None:
        return None
    try:
        stored: dict[str, Any] = PreparedData.open(path).manifest["options"]["recipe"]
    except (RecnasError, KeyError, OSError, AttributeError):
        return None
    if stored["name"] in shipped_recipes() and stored == kept_recipe(load_recipe(stored["name"])):
        return None
    return yaml.safe_dump(stored, sort_keys=False, allow_unicode=True)


def prepare_command(run: Run, recipe_file: str) -> str | None:
    """How the data were prepared; the raw files are named, their places are not known.

    Args:
        recipe_file: where `own_recipe` is.
    """
    path = _prepared(run)
    if path is None:
        return None
    try:
        manifest: dict[str, Any] = PreparedData.open(path).manifest
        options: dict[str, Any] = manifest["options"]
        raw: dict[str, list[str]] = {}
        for source in options.get("raw", []):
            name = str(source.get("name") or source.get("path") or "FILE")
            raw.setdefault(f"--{source.get('split', 'raw')}", []).append(name)
    except (RecnasError, KeyError, OSError, AttributeError):
        return None
    kept = next((f"--{how}" for how in ("like", "extend") if how in options), None)
    if kept is not None:  # the recipe is that of the data before
        start = [kept, str(manifest["lineage"][-1].get("path", "DIR"))]
    else:
        start = [recipe_file if own_recipe(run) else options["recipe"]["name"]]
    words = [
        "recnas",
        "prepare",
        *start,
        *(word for flag, files in (raw or {"--raw": ["FILE"]}).items() for word in (flag, *files)),
        "--out",
        path,
    ]
    words += ["--protocol", str(options.get("protocol")), "--seed", str(options.get("seed"))]
    if "shares" in options:
        words += ["--shares", ",".join(map(str, options["shares"]))]
    for name, flag in (
        ("min_count", "--min-count"),
        ("cap", "--cap"),
        ("limit", "--limit"),
        ("split_index", "--split-index"),
    ):
        if options.get(name) is not None:
            words += [flag, str(options[name])]
    if options.get("vocab_scope", "train") != "train":
        words += ["--vocab-scope", str(options["vocab_scope"])]
    if options.get("on_error", "stop") != "stop":
        words += ["--on-error", str(options["on_error"])]
    if options.get("with_columns") and kept is None:
        words += ["--with", *options["with_columns"]]
    return shlex.join(words)

"""Say how well proxies rank a table of trained architectures, at each warm-up.

  recnas bench build --data data/synthetic --archs 100 --out runs/table
  recnas correlate runs/warm-0 runs/warm-1 runs/warm-10 --table runs/table --proxies sigeo,zico,naswot,params
  recnas correlate nasbench201/correlate --out runs/nb201 cells=200        # cells, by a config; correlation.json
  recnas correlate nasbench201/correlate-warm --out runs/warm               # after training each on 0, 10, 20, 40 %

+1 is a perfect ranking. Intervals are 95 % bootstrap percentiles over architectures. Of several warm-ups, the change of
Spearman is against the first of them; its resamples are paired, so it can be clear where the single intervals overlap.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recnas.cli.options import add_engine, add_output, add_workers, execution, names_in, print_json, table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", nargs="+", metavar="RUN | CONFIG key=value", help="warm-up runs on the data of the table, or a config"
    )
    parser.add_argument("--out", metavar="RUN", help="with a config: run directory")
    parser.add_argument("--table", metavar="TABLE", help="a run of recnas bench build, or its table.parquet")
    parser.add_argument("--proxies", default="sigeo,zico,params,flops", metavar="a,b,c")
    parser.add_argument("--vote", default="", metavar="a,b,c", help="also rank by the sum of these proxies' ranks")
    parser.add_argument("--archs", type=int, metavar="N", help="only the first N architectures of the table")
    parser.add_argument(
        "--shared-rows",
        type=int,
        default=0,
        metavar="N",
        help="also rank by the shared weights' log loss on N validation rows",
    )
    parser.add_argument("--batches", type=int, default=4, metavar="K", help="scoring batches (default: 4)")
    parser.add_argument("--batch-size", type=int, default=512, metavar="N", help="rows of each (default: 512)")
    add_workers(parser, "processes of one thread", default=1)
    add_engine(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from recnas.bench.ctr_table import CtrTable
    from recnas.cli.shipped import config_path
    from recnas.config import check_settings
    from recnas.errors import ConfigError
    from recnas.evaluators.settings import ScoreSettings
    from recnas.jobs.correlate import correlate

    if is_config(args.runs[0]):
        return _cells(args)
    if not args.table:
        if not Path(args.runs[0]).exists():
            config_path(args.runs[0])  # a config's name with a slip in it: says which was meant
        raise ConfigError(
            "--table is needed.", "recnas correlate RUN --table TABLE; for cells: recnas correlate CONFIG --out RUN"
        )
    vote = names_in(args.vote)
    values = {
        "proxies": list(dict.fromkeys([*names_in(args.proxies), *vote])),
        "batches": args.batches,
        "batch_size": args.batch_size,
    }
    settings = check_settings(ScoreSettings, values, "the scoring settings")
    truth = CtrTable.read(args.table)
    rows = correlate(args.runs, truth, settings, args.archs, args.shared_rows, vote, execution(args))
    if args.json:
        print_json({"table": str(args.table), "rows": rows})
        return 0
    shown = []
    for row in rows:
        share = "" if row["share"] is None else f"{row['share']:.1%}"
        shown.append([row["proxy"], share, str(row["n"]), *_figures(row), *_changes(rows, row)])
    print(table(shown, ["proxy", "warm-up", "archs", "Spearman", "Kendall", *_changes(rows)]))
    return 0


def is_config(name: str) -> bool:
    """Whether the first argument is a config rather than a warm-up run."""
    from recnas.resources import resource_dir

    if Path(name).is_dir():
        return False
    return Path(name).suffix in (".yaml", ".yml") or (resource_dir("configs") / f"{name}.yaml").is_file()


def _cells(args: argparse.Namespace) -> int:
    from recnas.cli.shipped import config_path
    from recnas.config import apply_overrides, read_config
    from recnas.errors import ConfigError
    from recnas.jobs.correlate_cells import correlate_config, load_config

    if not args.out:
        raise ConfigError("--out is needed.", f"recnas correlate {args.runs[0]} --out RUN")
    path = config_path(args.runs[0])
    data = read_config(path)
    faults = apply_overrides(data, args.runs[1:])
    if args.table:
        data["table"] = args.table
    config = load_config(data, faults, str(path), args.runs[1:])
    rows = correlate_config(config, args.out, execution(args))
    if args.json:
        print_json({"table": config.table, "rows": rows})
        return 0
    shown = []
    for row in rows:
        held = "" if row.get("held_out") is None else f"{row['held_out']:+.3f}"
        name = row["proxy"] + (f", warm-up {row['share']:.0%}" if row.get("share") is not None else "")
        shown.append([name, row["dataset"], str(row["n"]), *_figures(row), held, *_changes(rows, row)])
    print(table(shown, ["proxy", "data", "cells", "Spearman", "Kendall", "held out", *_changes(rows)]))
    print(f"{args.out}/correlation.json: {len(rows)} rows")
    return 0


def _figures(row: dict[str, Any]) -> list[str]:
    return [_figure(row[name], row[f"{name}_interval"]) for name in ("spearman", "kendall")]


def _changes(rows: Sequence[dict[str, Any]], row: dict[str, Any] | None = None) -> list[str]:
    """One more column where several warm-ups are compared: its cell of `row`, or its heading."""
    if not any("change" in other for other in rows):
        return []
    if row is None:
        return ["change of Spearman"]
    return [_figure(row["change"], row["change_interval"]) if "change" in row else ""]


def _figure(value: float | None, interval: list[float] | None) -> str:
    if value is None:
        return "-"
    return f"{value:+.3f}" + (f" [{interval[0]:+.2f}, {interval[1]:+.2f}]" if interval else "")

"""Describe a prepared data set: rows, click rates, dense columns, cardinalities, unknown ids, memory, warnings.

recnas inspect data/criteo
recnas inspect data/criteo --verify --json
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from recnas.cli.options import add_json, print_json, table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="DIR", help="a folder made by recnas prepare")
    parser.add_argument(
        "--width",
        type=int,
        default=16,
        metavar="D",
        help="embedding width for the memory figures (default: 16)",
    )
    parser.add_argument("--verify", action="store_true", help="check every file against its checksum")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from recnas.data.prepared import PreparedData

    data = PreparedData.open(args.data)
    summary = data.summary(width=args.width)
    damaged = data.verify() if args.verify else []
    if args.verify:
        summary["verified"] = not damaged
        summary["damaged"] = damaged
    if args.json:
        print_json(summary)
    else:
        show(summary)
        if args.verify:
            print("\nchecksums: all files are as they were written" if not damaged else "")
    if damaged:
        print(
            f"recnas: {args.data} was changed after it was prepared: {'; '.join(damaged)}\n  -> Prepare it again.",
            file=sys.stderr,
        )
        return 2
    return 0


def show(summary: dict[str, Any]) -> None:
    from recnas.data.prepared import vector_lines
    from recnas.progress import human_bytes

    print(f"{summary['path']}: {summary['recipe']}, {summary['protocol']}, fingerprint {summary['fingerprint'][:16]}")
    if summary["vocabulary"]:
        before = f", which goes back to the data {summary['first_day'][:16]}" if summary["first_day"] else ""
        print(f"vocabulary {summary['vocabulary'][:16]}{before}")
    print(
        f"rows in {summary['rows_in']:,}, rejected {summary['rejects']:,}; dense inputs {len(summary['dense'])}, sparse inputs {len(summary['cardinality'])}\n"
    )
    if summary["left_out"] is not None:
        print(
            f"{summary['left_out']:,} training rows without a click were left out (negatives); those that were kept have the "
            "weight of all\n"
        )
    if summary["later"]:
        print(f"{summary['later']:,} rows are later than this origin's test window and were not read\n")
    rates = summary["click_rate"]
    several = summary["label_rates"] or {"click rate": rates}
    shown = {
        name: {s: "-" if rate is None else f"{rate:.5f}" for s, rate in one.items()} for name, one in several.items()
    }
    rows = [[s, f"{n:,}", *(one[s] for one in shown.values())] for s, n in summary["rows"].items()]
    header = ["split", "rows", *(f"rate of {name}" if summary["label_rates"] else name for name in shown)]
    if weights := summary["weight"]:
        rows, header = [[*row, f"{weights[row[0]]:,.6g}"] for row in rows], [*header, "sum of weights"]
    print(table(rows, header))
    if weights:
        print("rows have weights: click rates, training and all metrics count a row as often as its weight says")
    if summary["dense"]:
        print("\n" + dense_table(summary["dense"]))
    shared = {name: bag["table"] for name, bag in summary["pools"].items() if bag["table"]}
    width = summary["embedding_width"]
    total = sum(size for name, size in summary["cardinality"].items() if name not in shared)
    print()
    unknown, missing = summary["unknown_share"], summary["missing_share"]
    columns = [
        [
            name,
            f"{size:,}",
            f"as {shared[name]}" if name in shared else human_bytes(size * width * 4),
            f"{missing['train'][name]:.1%}",
            f"{unknown['train'][name]:.1%}",
            f"{unknown['valid'][name]:.1%}",
            f"{unknown['test'][name]:.1%}",
        ]
        for name, size in summary["cardinality"].items()
    ]
    columns.append(["all", f"{total:,}", human_bytes(summary["embedding_bytes"]), "", "", "", ""])
    print(
        table(
            columns,
            ["column", "table rows", f"memory at {width}", "missing", "unknown train", "valid", "test"],
        )
    )
    if summary["bags"]:
        print("\n" + bags_table(summary))
    for line in vector_lines(summary["vectors"]):
        print(line)
    if summary["warnings"]:
        print()
    for warning in summary["warnings"]:
        print(f"warning: {warning['message']}")


def bags_table(summary: dict[str, Any]) -> str:
    """Columns of several values a row, on the training rows."""
    rows = []
    for name, found in summary["bags"]["train"].items():
        held, bag = max(1, summary["rows"]["train"]), summary["pools"][name]
        rows.append(
            [
                name,
                bag["pool"],
                bag["table"] or "its own",
                f"{found['values'] / held:.2f}",
                f"{found['empty_rows'] / held:.1%}",
                f"{found['unknown'] / max(1, found['values']):.1%}",
                f"{bag['length']}",
                f"{found['cut']:,} of {found['cut_rows']:,} rows",
            ]
        )
    return table(
        rows, ["several values", "pooled", "table", "mean", "empty rows", "unknown", "at most", "values cut off"]
    )


def dense_table(columns: dict[str, Any]) -> str:
    """Dense columns on the training rows: after the transform, before standardising."""

    def figure(value: float | None) -> str:
        return "-" if value is None else f"{value:.4g}"

    rows = [
        [
            name,
            f"{c['missing'] / max(1, c['rows']):.1%}",
            *(figure(c[what]) for what in ("min", "mean", "max", "std")),
            c["transform"],
            "standardised" if c["standardised"] else "as it is",
        ]
        for name, c in columns.items()
    ]
    return table(rows, ["dense column", "missing", "min", "mean", "max", "std", "after", "given to models"])

"""Generate a raw ad log with a planted click model, so that the best possible log loss is known.

  recnas synth criteo --rows 200000 --seed 1 --out ads.tsv

The file has the true raw format of the data set; ads.tsv.truth.json beside it says what was planted.
"""

from __future__ import annotations

import argparse

from recnas.cli.options import add_output, count, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("layout", help="criteo, avazu or kdd12")
    parser.add_argument("--rows", type=count, default=200_000, metavar="N", help="(default: 200000)")
    parser.add_argument("--seed", type=int, default=1, help="(default: 1)")
    parser.add_argument("--out", required=True, metavar="FILE", help="where to write; .gz and .zst compress")
    parser.add_argument(
        "--strength",
        type=float,
        default=1.0,
        metavar="X",
        help="how strong the planted effects are; 0 is pure noise (default: 1)",
    )
    parser.add_argument(
        "--write-probability",
        action="store_true",
        help="also write the true click probability of every row (FILE.p.npy)",
    )
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from dataclasses import asdict
    from pathlib import Path

    from recnas.data.synthetic import generate
    from recnas.progress import Progress, human_bytes

    progress = Progress(quiet=args.quiet)
    progress.phase("synth", args.rows)
    shown = 0

    def rows_written(rows: int) -> None:
        nonlocal shown
        progress.advance(rows - shown)
        shown = rows

    summary = generate(
        args.layout,
        args.rows,
        args.seed,
        Path(args.out),
        strength=args.strength,
        write_probability=args.write_probability,
        progress=rows_written,
    )
    progress.end()
    if args.json:
        facts = asdict(summary)
        print_json(
            {
                name: [str(v) for v in value]
                if isinstance(value, tuple)
                else str(value)
                if isinstance(value, Path)
                else value
                for name, value in facts.items()
            }
        )
        return 0
    print(
        f"wrote {summary.path}: {summary.rows:,} rows, {human_bytes(summary.bytes_written)}, click rate {summary.click_rate:.4f}"
    )
    for path in summary.side_paths:
        print(f"wrote {path}")
    print(
        f"log loss of a constant guess {summary.constant_rate_logloss:.4f}; of the planted model, the best possible, {summary.bayes_logloss:.4f}"
    )
    print(f"what was planted: {summary.truth_path}")
    return 0

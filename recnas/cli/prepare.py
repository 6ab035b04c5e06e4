"""Turn a raw ad log into training arrays: streaming, in bounded memory, resumable.

  recnas prepare criteo --raw train.txt --out data/criteo
  recnas prepare my_recipe.yaml --raw logs/ --out data/mine --min-count 5 --cap 500000
  recnas prepare --extend data/monday --raw tuesday.csv --out data/tuesday
  recnas prepare frappe_x1 --train train.csv --valid valid.csv --test test.csv --out data/frappe

Vocabulary and statistics come from the training rows only. Id 0 is unknown or rare, id 1 is missing.
The same command after a crash continues; on finished data it prints the summary again.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from recnas.cli.options import add_output, byte_size, count, print_json
from recnas.errors import ConfigError

if TYPE_CHECKING:
    from recnas.data.raw.sources import Raw


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", nargs="?", help="name of a shipped recipe (recnas datasets) or path of a recipe file")
    parser.add_argument(
        "--raw",
        nargs="+",
        metavar="FILE",
        help="raw files, folders or patterns, also by address (s3://, gs://, hf://); .gz and .zst are read as they are; "
        "- is standard input",
    )
    for split, what in (("train", "training"), ("valid", "validation"), ("test", "test")):
        parser.add_argument(
            f"--{split}", nargs="+", metavar="FILE", help=f"instead of --raw: {what} rows of a ready split"
        )
    parser.add_argument(
        "--like",
        metavar="DIR",
        help="instead of a recipe: encode with the vocabulary and the statistics of these prepared data",
    )
    parser.add_argument(
        "--extend", metavar="DIR", help="the same, and values that are new get ids behind those that there are"
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="folder for the prepared data")
    parser.add_argument(
        "--min-count",
        type=count,
        metavar="N",
        help="values seen less often in training become unknown (default: the recipe's)",
    )
    parser.add_argument(
        "--cap", type=count, metavar="N", help="most rows per embedding table; the most frequent values stay"
    )
    parser.add_argument(
        "--protocol",
        metavar="P",
        help="random-8-1-1, autoctr-8-1-1, random, group, time-last-day, time-ratio, rolling, index or files (default: the recipe's; "
        "files with --train)",
    )
    parser.add_argument(
        "--shares",
        type=shares,
        metavar="A,B,C",
        help="of train, validation and test, with the protocols random, group and time-ratio, as 0.7,0.2,0.1",
    )
    parser.add_argument("--origins", type=count, metavar="K", help="with --protocol rolling (default: 3)")
    parser.add_argument(
        "--window",
        type=float,
        metavar="SHARE",
        help="with --protocol rolling: of all rows, in each validation and test window (default: 0.1)",
    )
    parser.add_argument(
        "--split-index",
        metavar="FILE",
        help="with --protocol index: one byte per raw row, 0 train, 1 valid, 2 test",
    )
    parser.add_argument("--seed", type=int, default=2018, help="of the split (default: 2018)")
    parser.add_argument("--limit", type=count, metavar="ROWS", help="read only the first rows")
    parser.add_argument(
        "--with",
        dest="with_columns",
        nargs="+",
        default=[],
        metavar="COLUMN",
        help="optional columns of the recipe to keep",
    )
    parser.add_argument(
        "--vocab-scope",
        choices=["train", "all"],
        default="train",
        help="rows that are counted; `all` leaks and is for repeating published work",
    )
    parser.add_argument(
        "--on-error",
        choices=["stop", "skip"],
        default="stop",
        help="a bad row stops the job, or goes to rejects.tsv",
    )
    parser.add_argument(
        "--side", nargs="+", default=[], metavar="FILE", help="side files that are not beside the raw file"
    )
    parser.add_argument("--no-parquet", action="store_true", help="leave out the Parquet copies for other tools")
    parser.add_argument(
        "--memory",
        type=byte_size,
        default=byte_size("2GB"),
        metavar="SIZE",
        help="memory to stay within (default: 2GB)",
    )
    parser.add_argument(
        "--threads", type=int, metavar="N", help="(default: all cores); the result does not depend on it"
    )
    parser.add_argument(
        "--engine",
        choices=["local", "spark"],
        default="local",
        help="who does the work; the result is the same (default: local)",
    )
    parser.add_argument(
        "--spark-master",
        metavar="URL",
        help="with --engine spark: local[4], spark://HOST:7077, yarn, ... (default: this machine)",
    )
    add_output(parser)


def shares(text: str) -> tuple[float, float, float]:
    try:
        train, valid, test = map(float, text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be three numbers, as 0.7,0.2,0.1 (got {text!r})") from None
    return train, valid, test


def run(args: argparse.Namespace) -> int:
    from recnas.cli.inspect import show
    from recnas.data.prepare.options import PrepareOptions
    from recnas.data.prepare.rolling import prepare_any
    from recnas.data.rolling import RollingData
    from recnas.progress import Progress

    options = PrepareOptions(
        protocol=args.protocol,
        seed=args.seed,
        min_count=args.min_count,
        cap=args.cap,
        limit=args.limit,
        vocab_scope=args.vocab_scope,
        with_columns=tuple(args.with_columns),
        on_error=args.on_error,
        split_index=args.split_index,
        side=tuple(args.side),
        parquet=not args.no_parquet,
        shares=args.shares,
        origins=args.origins,
        window=args.window,
        like=args.like,
        extend=args.extend,
    )
    progress = Progress(quiet=args.quiet)
    data = prepare_any(
        args.recipe,
        raw_files(args),
        args.out,
        options,
        memory=args.memory,
        threads=args.threads,
        progress=progress,
        engine=args.engine,
        spark_master=args.spark_master,
    )
    rolling = isinstance(data, RollingData)
    summaries = [origin.summary() for origin in data.origins] if isinstance(data, RollingData) else [data.summary()]
    if args.json:
        print_json({"path": args.out, "origins": summaries} if rolling else summaries[0])
        return 0
    for summary in summaries:
        show(summary)
        if summary["rejects"]:
            print(f"\n{summary['rejects']:,} rows were rejected: {summary['path']}/rejects.tsv says which and why.")
        if rolling:
            print()
    if rolling:
        print(f"{len(summaries)} origins; give {args.out} to recnas search or recnas compare for all of them")
    return 0


def raw_files(args: argparse.Namespace) -> Raw:
    """What --raw, or --train, --valid and --test together, name."""
    from recnas.data.raw.sources import ReadySplit

    parts = [args.train or (), args.valid or (), args.test or ()]
    if bool(args.raw) == any(parts):
        raise ConfigError(
            "Give the raw files either with --raw, or as a ready split with --train, --valid and --test.",
            "For instance: recnas prepare RECIPE --raw FILE --out DIR",
        )
    return args.raw or ReadySplit(*parts)

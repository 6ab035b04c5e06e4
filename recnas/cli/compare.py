"""Train models with the same rows, tables, optimizer, tuning budget and seeds, and say which differ.

  recnas compare --data data/criteo --models dlrm deepfm dcn-v2 --seeds 5 --reference dlrm --out runs/cmp
  recnas compare --data data/criteo --models all runs/search:best arch.json --tune 8 --out runs/cmp epochs=1

Models: lr fm fwfm dnn wide-deep deepfm xdeepfm dcn dcn-v2 autoint+ dlrm fibinet masknet finalmlp finalnet gdcn
dcnv3 wukong, sklearn-lr and lightgbm (floors), RUN:best (the winner of a search), ARCH.json, or all. The same
command continues a run that was stopped; more models or seeds may be added to it. Validation chooses, test is
only reported.
"""

from __future__ import annotations

import argparse
from typing import Any

from recnas.cli.options import add_data, add_engine, add_json, execution, print_json, table, take_data


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="key=value",
        help="training settings of all models, such as lr=0.05 or embeddings.cap=500000",
    )
    add_data(parser)
    parser.add_argument("--out", required=True, metavar="RUN", help="run directory")
    parser.add_argument("--models", nargs="+", default=["all"], metavar="MODEL", help="default: all")
    parser.add_argument("--reference", metavar="MODEL", help="what others are compared with (default: the first)")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="trainings per model (default: 3)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the first seed (default: 0)")
    parser.add_argument(
        "--tune", type=int, default=0, metavar="N", help="tuning trials per model (default: 0, its defaults)"
    )
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="processes of one thread (default: all cores); changes no figure but speeds",
    )
    parser.add_argument("--keep", action="store_true", help="keep the weights of every final training")
    add_engine(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from recnas.config import apply_overrides, check_settings
    from recnas.data.prepared import PreparedData
    from recnas.jobs.compare import compare
    from recnas.train.settings import TrainSettings

    # `--models a b key=value` swallows the overrides behind it; no model has such a name.
    overrides = [*args.overrides, *(name for name in args.models if "=" in name)]
    models = [name for name in args.models if "=" not in name] or ["all"]
    data, overrides = take_data(args.data, overrides, "recnas compare --data DIR --models dlrm deepfm --out RUN")
    values: dict = {}
    faults = apply_overrides(values, overrides)
    if args.seeds < 1 or args.seed < 0:
        faults.append("--seeds must be at least 1 and --seed not negative")
    if args.tune < 0:
        faults.append("--tune must not be negative")
    settings = check_settings(TrainSettings, values, "the command", faults, overrides)
    board = compare(
        PreparedData.open(str(data)),
        args.out,
        models,
        args.reference,
        settings,
        seeds=args.seeds,
        first_seed=args.seed,
        tune=args.tune,
        keep=args.keep,
        how=execution(args),
    )
    if args.json:
        print_json(board)
        return 0
    _print(board, args.out)
    return 0


def _print(board: dict[str, Any], out: str) -> None:
    from recnas.report.headline import floor_lines, headline
    from recnas.runs.results import Leaderboard

    typed = Leaderboard.model_validate(board)
    header = ["model", *(metric["title"] for metric in board["metrics"]), f"vs {board['reference']}", "95 % interval", "verdict",
              "params", "MFLOPs", "p50/p99 ms @1", "@512", "rows/s"]  # fmt: skip
    print(table([_cells(row, board["reference"], board["metrics"]) for row in board["models"]], header))
    if below := floor_lines(typed):
        print("warning:", " ".join(below))
    if said := headline(typed):
        print(said)
    for kind in ("failed", "skipped"):
        for label, reason in board[kind].items():
            print(f"{kind}: {label}: {reason}")
    if len(board["seeds"]) == 1:
        print("one seed: the intervals hold the noise of the test rows, not that of training; use --seeds 3 or more")
    print(
        f"{len(board['seeds'])} seed(s), {board['tune']} tuning trial(s) per model, {board['rows']['test']:,} test rows; "
        f"everything: {out}/leaderboard.csv, leaderboard.json"
    )


def _cells(row: dict[str, Any], reference: str, metrics: list[dict[str, Any]]) -> list[str]:
    def figure(metric: str, digits: int) -> str:
        found = row["test"][metric]
        if found["mean"] is None:
            return "-"
        spread = f" ± {found['std']:.{digits}f}" if found["std"] is not None else ""
        return f"{found['mean']:.{digits}f}{spread}"

    difference = row["difference"]
    delta = f"{difference['logloss']:+.5f}" if difference else "-"
    interval = "[{:+.5f}, {:+.5f}]".format(*difference["logloss_interval"]) if difference else "-"
    own = "reference" if row["model"] == reference else None
    verdict = ", ".join(word for word in (own, row["verdict"]) if word) or "-"
    latency = row["latency"]

    def times(size: int) -> str:
        return f"{latency[f'p50_ms_{size}']:.2f}/{latency[f'p99_ms_{size}']:.2f}" if latency else "-"

    return [
        row["model"], *(figure(metric["name"], metric["digits"]) for metric in metrics),
        delta, interval, verdict, f"{row['params']:,}", "-" if row["flops"] is None else f"{row['flops'] / 1e6:.2f}",
        times(1), times(512), "-" if row["rows_per_second"] is None else f"{row['rows_per_second']:,.0f}",
    ]  # fmt: skip

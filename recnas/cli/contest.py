"""Searches against each other, with the same number of training rows: hand-crafted models, published ones, random, SiGeo, ours.

  recnas contest --data data/ads --budget 20x --seeds 5 --out runs/contest
  recnas contest --data data/ads --out runs/contest --arms zoo,search search.limits.macs=1e6
  recnas contest --resume runs/contest              # after a crash or Ctrl-C; the same command again continues too
  recnas contest --resume runs/contest --table      # the table so far, while it runs

Each arm and seed is a search in RUN/ARM-SEED: recnas watch, recnas report.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from recnas.cli.options import (
    add_data,
    add_engine,
    add_output,
    add_workers,
    execution,
    names_in,
    print_json,
    table,
    take_data,
    times,
)

if TYPE_CHECKING:
    from recnas.runs.results import Contestant, ContestBoard

CONFIG = "synthetic/contest"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="[CONFIG] key=value",
        help=f"a config first, if any (default: {CONFIG}); then settings, those of an arm behind its name: search.limits.macs=1e6",
    )
    add_data(parser)
    parser.add_argument("--out", metavar="RUN", help="run directory")
    parser.add_argument("--resume", metavar="RUN", help="continue this contest with the settings it was started with")
    parser.add_argument("--table", action="store_true", help="with --resume: print the table so far, and run nothing")
    parser.add_argument(
        "--budget", metavar="20x", help="training rows of each arm and seed, in times of the training set"
    )
    parser.add_argument("--seeds", type=int, metavar="N", help="searches of each arm")
    parser.add_argument("--arms", metavar="A,B", help="only these (default: all of the config)")
    add_workers(parser)
    add_engine(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from recnas.cli.shipped import config_path
    from recnas.errors import ConfigError
    from recnas.jobs.contest import contest, kept_contest, table_so_far
    from recnas.tasks.contest import load_contest

    typed = list(args.overrides)
    if args.resume:
        data, rest = take_data(args.data, typed)
        if rest or args.out or args.budget or args.seeds or args.arms:
            raise ConfigError(
                "--resume takes the settings from the contest itself.", f"recnas contest --resume {args.resume}"
            )
        out = args.resume
        config, chosen = kept_contest(out, data)
    else:
        if not args.out or args.table:
            what = "--table goes with --resume." if args.table else "--out is needed."
            raise ConfigError(what, "recnas contest --data DIR --budget 20x --seeds 5 --out RUN")
        named = typed.pop(0) if typed and "=" not in typed[0] else CONFIG
        data, typed = take_data(args.data, typed)
        said = {"data": data, "budget": times(args.budget) if args.budget else None, "seeds": args.seeds}
        out, config = args.out, load_contest(config_path(named), typed, said)
        chosen = names_in(args.arms or "") or list(config.arms)
    board = table_so_far(out, data) if args.table else contest(config, out, chosen, execution(args))
    if args.json:
        print_json(board.to_json())
        return 0
    print_board(board)
    print(f"everything is in {out}: result.json, and a search per arm and seed")
    return 0


def print_board(board: ContestBoard) -> None:
    header = ["arm", "seeds", "winners", "validation", "test log loss", "AUC", "rows", "of them warm-up", "MFLOPs",
              "p50 ms @1", "@512", "tables MB"]  # fmt: skip
    print(table([_cells(one, board) for one in board.arms], header))
    for one in board.arms:
        for seed, reason in one.failed.items():
            print(f"failed: {one.arm}, seed {seed}: {reason}")
    for pair in board.differences:
        low, high = pair.difference.logloss_interval
        said = f"{pair.model} less {pair.other}: {pair.difference.logloss:+.5f} test log loss [{low:+.5f}, {high:+.5f}]"
        print(said if pair.difference.real else f"{said}, no real difference")
    if board.missing:
        print(f"still to run: {', '.join(board.missing)}")
    print(f"{board.budget:g}x {board.rows['train']:,} training rows per arm and seed, {board.rows['test']:,} test rows")
    print(board.verdict)


def _cells(one: Contestant, board: ContestBoard) -> list[str]:
    from recnas.bench.contest import winners

    def figure(value: float | None, digits: int = 2) -> str:
        return "-" if value is None else f"{value:,.{digits}f}"

    flops = None if one.flops is None else one.flops / 1e6
    return [
        one.arm, str(len(one.seeds)), winners(one) or "-", str(one.valid), str(one.test), str(one.auc),
        f"{one.rows / board.rows['train']:.2f}x", f"{one.warmup_rows / board.rows['train']:.2f}x", figure(flops),
        figure(one.latency_ms_1), figure(one.latency_ms_512), figure(one.embedding_mb, 1),
    ]  # fmt: skip

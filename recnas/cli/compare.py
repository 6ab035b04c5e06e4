"""Train models with the same rows, tables, optimizer, tuning budget and seeds, and say which differ.

  recnas compare --data data/criteo --models dlrm deepfm dcn-v2 --seeds 5 --reference dlrm --out runs/cmp
  recnas compare --data data/criteo --models all runs/search:best arch.json --budget 20x --out runs/cmp
  recnas compare frappe/board --data data/frappe --out runs/board        # a shipped config (recnas configs), or a path

Models: lr fm fwfm dnn wide-deep deepfm xdeepfm dcn dcn-v2 autoint+ dlrm fibinet masknet finalmlp finalnet gdcn
dcnv3 wukong, sklearn-lr and lightgbm (floors), RUN:best (the winner of a search), ARCH.json, or all. The same
command continues a run that was stopped; more models or seeds may be added to it. Validation chooses, test is
only reported.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from recnas.cli.options import (
    add_data,
    add_engine,
    add_output,
    add_track,
    add_workers,
    execution,
    print_json,
    table,
    take_data,
    times,
    tracked,
)
from recnas.errors import ConfigError

if TYPE_CHECKING:
    from recnas.runs.results import ComparedModel, Leaderboard, MetricColumn
    from recnas.tasks.comparison.settings import CompareConfig


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="key=value",
        help="a config first, if any; then training settings of all models, such as lr=0.05 or embeddings.cap=500000, "
        "and options of one, such as options.dcn-v2.crosses=4",
    )
    add_data(parser)
    parser.add_argument("--out", required=True, metavar="RUN", help="run directory")
    parser.add_argument("--models", nargs="+", metavar="MODEL", help="default: all")
    parser.add_argument("--reference", metavar="MODEL", help="what others are compared with (default: the first)")
    parser.add_argument("--seeds", type=int, metavar="N", help="trainings per model (default: 3)")
    parser.add_argument("--seed", type=int, metavar="S", help="the first seed (default: 0)")
    parser.add_argument("--tune", type=int, metavar="N", help="tuning trials per model (default: 0, its defaults)")
    parser.add_argument(
        "--budget",
        metavar="20x",
        help="instead of --tune: what each model's tuning may train on, in times of the training rows: many recipes a "
        "little, the best to their end",
    )
    add_workers(parser, "processes of one thread (default: all cores, or a few per GPU); changes no figure but speeds")
    parser.add_argument("--keep", action="store_true", help="keep the weights of every final training")
    add_engine(parser)
    add_track(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from recnas.data.prepared import PreparedData
    from recnas.data.rolling import RollingData
    from recnas.jobs.compare.configured import compare_configured

    config = _config(args)
    if (rolling := RollingData.find(config.data)) is not None:
        from recnas.cli.rolling import show
        from recnas.jobs.rolling import compare_rolling

        return show(compare_rolling(config, rolling, args.out, args.keep, execution(args)), args.out, args.json)
    board = compare_configured(config, PreparedData.open(str(config.data)), args.out, args.keep, execution(args))
    if args.json:
        print_json(board.to_json())
        return 0
    _print(board, args.out)
    return 0


def _config(args: argparse.Namespace) -> CompareConfig:
    """The config, if one is named, with what the command says."""
    from recnas.cli.shipped import config_path
    from recnas.config import read_config
    from recnas.tasks.comparison.settings import compare_config

    typed = list(args.overrides)
    named = typed.pop(0) if typed and "=" not in typed[0] else None
    values: dict[str, Any] = read_config(config_path(named)) if named else {}
    # `--models a b key=value` swallows the overrides behind it; no model has such a name.
    models = args.models or []
    data, typed = take_data(args.data, [*typed, *(name for name in models if "=" in name)])
    said = {
        "data": data,
        "models": [name for name in models if "=" not in name] or None,
        "reference": args.reference,
        "seeds": args.seeds,
        "seed": args.seed,
        "tune": args.tune,
        "budget": args.budget and times(args.budget),
    }
    values |= {key: value for key, value in said.items() if value is not None}
    typed = tracked(args.track, typed)
    least = {"seeds": 1, "seed": 0, "tune": 0}
    faults = [
        f"--{name} must be at least {n}" for name, n in least.items() if said[name] is not None and said[name] < n
    ]
    config = compare_config(values, typed, named or "the command", faults)
    if config.data is None:
        raise ConfigError("a prepared data set is needed.", "recnas compare --data DIR --models dlrm deepfm --out RUN")
    return config


def _print(board: Leaderboard, out: str) -> None:
    from recnas.report.headline import floor_lines, headline

    header = ["model", *(metric.title for metric in _shown(board)), f"vs {board.reference}", "95 % interval", "verdict",
              "params", "MFLOPs", "p50/p99 ms @1", "@512", "rows/s", "best epoch", "trained on"]  # fmt: skip
    print(table([_cells(row, board) for row in board.models], header))
    if board.tune or board.budget:
        for row in board.models:
            chosen = " ".join(f"{name}={value}" for name, value in row.choice.items())
            print(f"{row.model}: best of {_tuned(row, board)} on validation: {chosen}")
    if below := floor_lines(board):
        print("warning:", " ".join(below))
    if said := headline(board):
        print(said)
    for kind, reasons in (("failed", board.failed), ("skipped", board.skipped)):
        for label, reason in reasons.items():
            print(f"{kind}: {label}: {reason}")
    if len(board.seeds) == 1:
        print("one seed: the intervals hold the noise of the test rows, not that of training; use --seeds 3 or more")
    weights = f" with weights that sum to {board.weight['test']:,.6g}" if board.weight else ""
    tuned = (
        f"{board.tune} tuning trial(s)" if board.budget is None else f"tuning on {board.budget:g}x the training rows"
    )
    print(
        f"{len(board.seeds)} seed(s), {tuned} per model, {board.rows['test']:,} test rows{weights}; "
        f"everything: {out}/leaderboard.csv, leaderboard.json"
    )


def _tuned(row: ComparedModel, board: Leaderboard) -> str:
    if board.budget is None:
        return f"{row.trials} trial(s)"
    spent = row.tuned_rows / board.rows["train"]
    return f"{row.trials} recipe(s), {row.whole} of them trained to the end, {spent:.1f} of {board.budget:g}x spent,"


def _shown(board: Leaderboard) -> list[MetricColumn]:
    """Of several labels the sum that decides, and log loss and AUC of each; the files have the rest."""
    several = any(":" in metric.name for metric in board.metrics)
    few = ("logloss", "logloss:", "auc:")
    return [m for m in board.metrics if not several or m.name == few[0] or m.name.startswith(few[1:])]


def _cells(row: ComparedModel, board: Leaderboard) -> list[str]:
    def figure(metric: MetricColumn) -> str:
        spread = row.value("test", metric.name)
        if spread.mean is None:
            return "-"
        around = f" ± {spread.std:.{metric.digits}f}" if spread.std is not None else ""
        return f"{spread.mean:.{metric.digits}f}{around}"

    difference, latency = row.difference, row.latency
    delta = f"{difference.logloss:+.5f}" if difference else "-"
    interval = "[{:+.5f}, {:+.5f}]".format(*difference.logloss_interval) if difference else "-"
    own = "reference" if row.model == board.reference else None
    verdict = ", ".join(word for word in (own, row.verdict) if word) or "-"

    def times(size: int) -> str:
        return f"{latency[f'p50_ms_{size}']:.2f}/{latency[f'p99_ms_{size}']:.2f}" if latency else "-"

    epochs = [epoch for epoch in row.best_epochs if epoch is not None]
    spent = row.trained_rows / row.train_rows if row.train_rows else 0.0
    return [
        row.model, *map(figure, _shown(board)),
        delta, interval, verdict, f"{row.params:,}", "-" if row.flops is None else f"{row.flops / 1e6:.2f}",
        times(1), times(512), "-" if row.rows_per_second is None else f"{row.rows_per_second:,.0f}",
        " ".join(f"{epoch:g}" for epoch in epochs) or "-", f"{spent:.1f}x",
    ]  # fmt: skip

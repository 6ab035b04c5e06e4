"""Tables of architectures that were really trained, and searches on them.

recnas bench build --data data/synthetic --archs 200 --seeds 1 --out runs/table      # hours; resumable
recnas bench build --data data/synthetic --archs 200 --out runs/table rows=400000 train.lr=0.1
recnas bench build --data data/synthetic --archs 300 --from table.parquet --out runs/more  # train only what is new
recnas bench build --data data/frappe --space nasrec-plus --archs 150 --out runs/curves \
  rungs=[0.0625,0.25] train.schedule=constant train.epochs=2                       # with learning curves
recnas bench regret runs/table --methods evolution local random --candidates 60      # seconds
recnas bench regret runs/table --supernet runs/warm-0 --proxies naswot,jacob_cov     # and in the order of proxies
recnas bench regret runs/curves --supernet runs/warm-0 budgets=[4,8,16] eta=3         # and races, at equal training rows
recnas bench import nasbench201 --from NATS-tss-v1_0-3ffb9-simple --out nb201.parquet   # or nasbench101, nasbench301
recnas bench pack runs/c4 runs/c16 --out scores.parquet                              # runs of recnas correlate CONFIG, packed tables
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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
)

if TYPE_CHECKING:
    from recnas.bench.race_regret import MethodRegret


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=("build", "regret", "import", "pack"),
        help="train a table, run searchers on one, import a published one, or join scores of cells",
    )
    parser.add_argument(
        "items",
        nargs="*",
        metavar="TABLE | key=value",
        help="regret: the table, and settings of races on one with learning curves, such as budgets=[4,8]; "
        "build: settings such as rows=400000; import: the benchmark; pack: runs and packed tables",
    )
    add_data(parser, "build: a prepared data set")
    parser.add_argument("--space", default="nasrec-small", help="build: the search space (default: nasrec-small)")
    parser.add_argument(
        "--archs", type=int, default=200, metavar="N", help="build: how many architectures (default: 200)"
    )
    parser.add_argument(
        "--seeds", type=int, metavar="K", help="build: trainings of each (default 1); regret: searches (default 200)"
    )
    parser.add_argument(
        "--out", metavar="RUN | FILE", help="build: run directory; import, pack: the Parquet file to write"
    )
    parser.add_argument(
        "--from",
        dest="source",
        metavar="FILE",
        help="import: what the authors publish, or a .parquet or .csv; build: a table to continue",
    )
    add_workers(parser, "build: processes of one thread (default: all cores)")
    parser.add_argument(
        "--methods", nargs="+", default=["evolution", "local", "random"], metavar="NAME", help="regret: searchers"
    )
    parser.add_argument(
        "--candidates", type=int, metavar="N", help="regret: evaluations of a search (default: half the table)"
    )
    parser.add_argument(
        "--supernet", metavar="RUN", help="regret: also train in the order of --proxies, scored on this warm-up"
    )
    parser.add_argument(
        "--proxies", default="sigeo", metavar="a,b,c", help="with --supernet (default: sigeo); several also vote"
    )
    add_engine(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    actions = {"build": _build, "regret": _regret, "import": _import, "pack": _pack}
    return actions[args.action](args)


def _import(args: argparse.Namespace) -> int:
    from recnas.bench.import_tables import import_table
    from recnas.errors import ConfigError

    if len(args.items) != 1 or not args.source or not args.out:
        raise ConfigError(
            "a benchmark, --from and --out are needed.",
            "recnas bench import nasbench201 --from FILE --out nb201.parquet",
        )
    found = import_table(args.items[0], args.source, args.out)
    if args.json:
        print_json(found)
    else:
        print(
            f"{found['out']}: {found['rows']:,} cells, {len(found['columns'])} columns, {found['bytes'] / 1e6:.1f} MB"
        )
    return 0


def _pack(args: argparse.Namespace) -> int:
    from recnas.bench.pack_scores import pack_scores
    from recnas.errors import ConfigError

    if not args.items or not args.out:
        raise ConfigError(
            "runs (or packed tables) and --out are needed.", "recnas bench pack runs/c4 runs/c16 --out scores.parquet"
        )
    scores = pack_scores(args.items)
    scores.write(args.out)
    if args.json:
        print_json({"out": args.out, "rows": len(scores), "columns": list(scores.columns)})
    else:
        print(f"{args.out}: {len(scores):,} networks, {', '.join(scores.columns)}")
    return 0


def _build(args: argparse.Namespace) -> int:
    from recnas.bench.build_settings import BenchSettings
    from recnas.config import apply_overrides, check_settings
    from recnas.data.prepared import PreparedData
    from recnas.errors import ConfigError
    from recnas.jobs.bench import bench_build

    usage = "recnas bench build --data DIR --archs 200 --out RUN"
    data, overrides = take_data(args.data, args.items, usage)
    if not args.out:
        raise ConfigError("--out is needed.", usage)
    if min(args.archs, args.seeds or 1) < 1:
        raise ConfigError("--archs and --seeds must be at least 1.")
    values: dict = {"space": {"name": args.space}}
    faults = apply_overrides(values, overrides)
    settings = check_settings(BenchSettings, values, "the settings of the table", faults, overrides)
    found = bench_build(
        PreparedData.open(str(data)), args.out, args.archs, args.seeds or 1, settings, args.source, execution(args)
    )
    if args.json:
        print_json(found)
    else:
        print(f"{found['table']}: {found['rows']} trained networks ({found['trained']} of them now)")
    return 0


def _regret(args: argparse.Namespace) -> int:
    from recnas.bench.ctr_table import CtrTable
    from recnas.bench.race_regret import RaceRegretSettings, race_regret
    from recnas.bench.regret import order_curve, regret_curve
    from recnas.bench.table_space import TableSpace
    from recnas.config import apply_overrides, check_settings
    from recnas.errors import ConfigError

    tables = [item for item in args.items if "=" not in item]
    if len(tables) != 1:
        raise ConfigError("name one table.", "recnas bench regret runs/table")
    overrides, values = [item for item in args.items if "=" in item], dict[str, Any]()
    faults = apply_overrides(values, overrides)
    settings = check_settings(RaceRegretSettings, values, "the settings of the races", faults, overrides)
    truth, seeds = CtrTable.read(tables[0]), args.seeds or 200
    if overrides and not truth.rungs:
        raise ConfigError(f"{overrides[0]} is for races, and {tables[0]} has no learning curves.", "Leave it out.")
    space = TableSpace(truth.archs)
    candidates = args.candidates or max(2, len(truth.archs) // 2)
    curves = [regret_curve(method, space, truth.valid, candidates, seeds) for method in args.methods]
    scores: dict[str, dict[str, float]] = {}
    if args.supernet:
        from recnas.evaluators.settings import ScoreSettings
        from recnas.jobs.correlate import scores_by_key

        wanted = check_settings(ScoreSettings, {"proxies": names_in(args.proxies)}, "the scoring settings")
        scores = scores_by_key(args.supernet, truth, wanted, execution(args))
        curves += [order_curve(f"by {name}", truth.valid, by_key, candidates) for name, by_key in scores.items()]
    races = race_regret(truth, settings, seeds, scores) if truth.rungs else []
    if args.json:
        found: dict[str, Any] = {"archs": len(truth.archs), "best": min(truth.valid.values())}
        found["curves"] = [curve.to_dict() for curve in curves]
        print_json(found | ({"races": [one.to_dict() for one in races]} if races else {}))
        return 0
    marks = sorted({min(candidates, n) for n in (1, 2, 5, 10, 20, 30, 50, 75, 100, 150, 200, candidates)})
    rows = [[curve.method, *(f"{1e3 * curve.mean[n - 1]:.3f}" for n in marks)] for curve in curves]
    print(
        f"mean regret in thousandths of log loss after so many of {len(truth.archs)} architectures, {curves[0].seeds} searches each"
    )
    print(table(rows, ["method", *map(str, marks)]))
    if races:
        _print_races(races, seeds, settings.pool or max(2, len(truth.curves) // 2))
    return 0


def _print_races(races: Sequence[MethodRegret], draws: int, pool: int) -> None:
    """A row per method, a column per budget."""
    budgets = list(dict.fromkeys(one.budget for one in races))
    shown = {(one.method, one.budget): one for one in races}
    rows = []
    for method in dict.fromkeys(one.method for one in races):
        cells = [shown[method, budget] for budget in budgets]
        rows.append([method, *(f"{1e3 * c.regret:.2f} [{1e3 * c.low:.2f}, {1e3 * c.high:.2f}]" for c in cells)])
    print(
        f"\nequal training rows: mean regret in thousandths of log loss among {pool} architectures, for the rows of so many\n"
        f"whole trainings, with the 95 % interval over {draws} draws of them"
    )
    print(table(rows, ["method", *(f"{budget:g}" for budget in budgets)]))

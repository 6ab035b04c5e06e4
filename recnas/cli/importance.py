"""Say which columns a trained model uses: how much its loss rises when a column's values are mixed up.

  recnas importance runs/criteo:best
  recnas importance runs/cmp:deepfm --group user=C1,C7 --group ad=C2,C9 -o columns.csv

MODEL is what `recnas predict` takes. Each column is permuted over validation rows, a group's columns together.
Intervals (95 %) are over rows and repeats, each for one column: of twenty columns that a model does not use,
one will look used. Columns that say the same can both look unused, as the model reads the other: put them in a group.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from recnas.cli.options import add_output, count, names_in, print_json, table
from recnas.errors import ConfigError

if TYPE_CHECKING:
    from recnas.bench.bootstrap import Interval
    from recnas.jobs.importance import ModelImportance
    from recnas.serve.importance import PartImportance


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="RUN, RUN:best, RUN:seed-3, or RUN:deepfm of a comparison")
    parser.add_argument("--data", metavar="DIR", help="the prepared data set, if it is not where the run was trained")
    parser.add_argument(
        "--rows", type=count, default=50_000, metavar="N", help="validation rows, drawn at random (default: 50000)"
    )
    parser.add_argument("--repeats", type=int, default=5, metavar="K", help="permutations of each (default: 5)")
    parser.add_argument(
        "--group", action="append", default=[], metavar="NAME=a,b,c", help="also permute these columns together"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of rows and permutations (default: 0)")
    parser.add_argument("-o", dest="out", metavar="FILE.csv", help="also write the table")
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from recnas.jobs.importance import importance
    from recnas.progress import Progress

    result = importance(
        args.model,
        data=args.data,
        rows=args.rows,
        repeats=args.repeats,
        groups=groups_of(args.group),
        seed=args.seed,
        out=args.out,
        progress=Progress(quiet=args.quiet),
    )
    if args.json:
        print_json(
            {
                "model": {"path": str(result.path), "key": result.key, "seed": result.seed},
                "data": result.data,
                "out": args.out,
                **result.found.to_dict(),
            }
        )
        return 0
    show(result)
    if args.out:
        print(f"table: {args.out}")
    return 0


def groups_of(texts: list[str]) -> dict[str, list[str]]:
    """`["user=C1,C7"]` as `{"user": ["C1", "C7"]}`."""
    groups: dict[str, list[str]] = {}
    for text in texts:
        name, _, columns = text.partition("=")
        name = name.strip()
        if not name or not names_in(columns):
            raise ConfigError(f"--group {text!r} names no columns.", "Write it like --group user=C1,C7")
        if name in groups:
            raise ConfigError(
                f"Two groups are named {name!r}.", f"Join them, or rename one: --group {name}_2={columns}"
            )
        groups[name] = names_in(columns)
    return groups


def show(result: ModelImportance) -> None:
    found = result.found
    auc = "AUC not defined, as all rows have one label" if found.auc is None else f"AUC {found.auc:.5f}"
    print(f"{result.key}, seed {result.seed}: log loss {found.logloss:.5f}, {auc}")
    print(
        f"{found.rows:,} of {found.rows_of_split:,} validation rows, repeats {found.repeats}, 95 % intervals in brackets\n"
    )
    rows = [[_name(part), part.kind, _figure(part.logloss, part.logloss_interval), _auc(part)] for part in found.parts]
    print(table(rows, ["permuted", "kind", "log loss rises by", "AUC falls by"]))
    vague = [part.name for part in found.parts if not part.distinguishable]
    worse = [part.name for part in found.parts if part.distinguishable and part.logloss < 0]
    if vague:
        print(f"\nnot distinguishable from zero: {', '.join(vague)}")
    if worse:
        print(f"\nthe model is better when these are mixed up: {', '.join(worse)}")


def _name(part: PartImportance) -> str:
    return part.name if part.kind != "group" else f"{part.name} ({', '.join(part.columns)})"


def _auc(part: PartImportance) -> str:
    return "-" if part.auc_loss is None else _figure(part.auc_loss, part.auc_loss_interval)


def _figure(value: float, interval: Interval | None) -> str:
    return f"{value:+.5f}" + (f" [{interval[0]:+.5f}, {interval[1]:+.5f}]" if interval else "")

"""Take out of a run what is damaged, so that its own command computes it again.

recnas repair runs/first

Lines of a ledger before the damage stay, the damaged file is kept beside it. Nothing happens to a run that is well.
"""

from __future__ import annotations

import argparse

from recnas.cli.options import add_json, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run directory")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from recnas.trust.repair import repair

    done = repair(args.run)
    if args.json:
        print_json({"run": args.run, "done": done})
        return 0
    for line in done:
        print(line)
    if done:
        print("Repeat the command the run was started with: it goes on from here.")
    else:
        print(f"{args.run} is well; nothing was changed")
    return 0

"""Follow a run from another terminal: phases, candidates, the best so far.

recnas watch runs/first
recnas watch runs/first --once          # one look, for scripts
"""

from __future__ import annotations

import argparse
import time

from recnas.cli.options import add_json, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="run directory of a search, a comparison or a training")
    parser.add_argument("--once", action="store_true", help="print the state and stop")
    parser.add_argument("--seconds", type=float, default=5.0, metavar="S", help="between looks (default: 5)")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from recnas.report.state import describe, state_of

    last = ""
    while True:
        state = state_of(args.run)
        if args.json:
            print_json(state.to_dict())
        else:
            text = describe(state)
            if text != last:
                print(text + "\n", flush=True)
            last = text
        if args.once or state.finished:
            return 0
        time.sleep(args.seconds)

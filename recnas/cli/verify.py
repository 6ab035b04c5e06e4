"""Check that a run, prepared data or an export are what was written: every file is read and compared with its checksum.

recnas verify runs/first
recnas verify runs/first --replay               # also compute one figure again
recnas verify served --key team.key.pub         # and who signed it

Data are compared when they are used, too, and remembered by size and time stamp; this reads them again.
"""

from __future__ import annotations

import argparse
import sys

from recnas.cli.options import add_json, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="DIR", help="a folder that a recnas command wrote with --out")
    parser.add_argument("--replay", action="store_true", help="compute one figure again and compare it")
    parser.add_argument("--key", metavar="FILE", help="refuse what was not signed with this public key")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from recnas.trust.verify import verify

    if args.key:
        from recnas.trust.sign import check_signature

        check_signature(args.path, args.key)  # before anything of it is opened
    report = verify(args.path, args.replay)
    if args.json:
        print_json(report.to_dict())
    else:
        for line in report.replayed:
            print(f"computed again: {line}")
        if report.well:
            signed = f", signed with {args.key}" if args.key else ""
            print(f"{args.path}: {report.checked:,} files are what was written{signed}")
    if report.well:
        return 0
    faults = "\n".join(f"  {fault}" for fault in report.faults)
    fix = f"recnas repair {args.path}" if report.kind == "run" else "Restore it from a copy, or make it again."
    print(f"recnas: {args.path} is not what was written:\n{faults}\n  -> {fix}", file=sys.stderr)
    return 2

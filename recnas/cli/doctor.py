"""Check this machine: versions, whether the embedding backends load, cores, memory, disk.

recnas doctor
"""

from __future__ import annotations

import argparse
from pathlib import Path

from recnas.cli.options import add_json, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from recnas.jobs.doctor import examine

    found = examine(Path.cwd())
    if args.json:
        print_json(found)
        return 0 if found["ok"] else 2
    print(f"recnas {found['versions']['recnas']} on {found['versions']['platform']}, {found['cores']} cores\n")
    for check in found["checks"]:
        mark = "ok " if check["ok"] else ("!! " if check["needed"] else "-  ")
        print(f"{mark} {check['name']:<22} {check['found']}")
        if check["advice"]:
            print(f"{'':26}-> {check['advice']}")
    print("\nEverything needed is here." if found["ok"] else "\nSomething needed is missing; see the lines marked !!")
    return 0 if found["ok"] else 2

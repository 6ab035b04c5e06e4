"""The experiment configs shipped with recnas: list them, show one, or copy one to edit.

recnas configs
recnas configs show criteo/warmup
recnas configs cp criteo/warmup my.yaml
"""

from __future__ import annotations

import argparse

from recnas.cli.options import add_json, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=["list", "show", "cp"], default="list")
    parser.add_argument("name", nargs="?", help="a config")
    parser.add_argument("target", nargs="?", help="with cp: the file to write")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from recnas.cli.shipped import copy_file, missing_name
    from recnas.resources import resource_dir

    folder = resource_dir("configs")
    shipped = {str(path.relative_to(folder).with_suffix("")): path for path in sorted(folder.rglob("*.yaml"))}
    if args.action == "list":
        # The first comment line of a config says what it does.
        titles = {name: path.read_text().splitlines()[0].lstrip("# ") for name, path in shipped.items()}
        if args.json:
            print_json(titles)
        else:
            width = max(map(len, titles), default=0)
            print("\n".join(f"{name:<{width}}  {title}" for name, title in titles.items()))
        return 0
    if args.name not in shipped:
        raise missing_name("config", args.name, shipped, "recnas configs")
    if args.action == "cp":
        copy_file(shipped[args.name], args.target, "recnas configs cp NAME my.yaml")
    else:
        print(shipped[args.name].read_text(), end="")
    return 0

"""The experiment configs shipped with recnas: list them, show one with every setting, copy one to edit.

  recnas configs                              # what there is
  recnas configs show criteo/warmup           # every setting of it, defaults included
  recnas configs cp synthetic/laptop my.yaml  # a file of your own, to be edited
  recnas configs schema search                # every setting there is: type, default, meaning

A config may start from another one: `base: synthetic/laptop`, then only what differs.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from recnas.cli.options import add_json, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=["list", "show", "cp", "schema"], default="list")
    parser.add_argument(
        "name", nargs="?", help="a config; with schema: search, images, table, gradient, warmup, train, ..."
    )
    parser.add_argument("target", nargs="?", help="with cp: the file to write")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from recnas.cli.shipped import missing_name, shipped_configs

    if args.action == "schema":
        return _schema(args)
    shipped = shipped_configs()
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
        _copy(shipped[args.name], args.target)
    else:
        _show(shipped[args.name], args.json)
    return 0


def _header(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if line.startswith("#")) + "\n"


def _show(path: Path, as_json: bool) -> None:
    """The whole config as its settings class reads it, so that nothing is left to guess."""
    import yaml

    from recnas.cli.shipped import settings_class
    from recnas.config import check_settings, read_config

    data = read_config(path)
    settings = check_settings(settings_class(data), data, str(path)).model_dump(mode="json")
    if as_json:
        print_json(settings)
    else:
        print(_header(path) + yaml.safe_dump(settings, sort_keys=False, default_flow_style=None, width=110), end="")


def _copy(path: Path, target: str | None) -> None:
    """With what it takes from its base, so that the copy stands alone."""
    import yaml

    from recnas.cli.shipped import write_new
    from recnas.config import read_yaml

    data = yaml.safe_dump(read_yaml(path), sort_keys=False, default_flow_style=None, width=110)
    write_new(_header(path) + data, target, "recnas configs cp NAME my.yaml")


def _schema(args: argparse.Namespace) -> int:
    from recnas.cli.options import table
    from recnas.cli.schema import FAMILIES, settings_of, settings_rows
    from recnas.cli.shipped import missing_name

    if args.name not in FAMILIES:
        raise missing_name("family of settings", args.name, FAMILIES, f"recnas configs schema {next(iter(FAMILIES))}")
    rows = settings_rows(settings_of(args.name))
    if args.json:
        print_json([row._asdict() for row in rows])
        return 0
    shown: list[list[Any]] = [[row.key, row.type, row.default, row.meaning] for row in rows]
    print(table(shown, ["setting", "type", "default", "meaning"], left=True))
    return 0
